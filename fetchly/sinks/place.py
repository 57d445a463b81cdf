"""What an address of a sink is, in; whether two sinks would write to one place, and what of it is secret, out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from fetchly.errors import ConfigurationError

SECRET_NAME = re.compile(r"pass|secret|token|key|credential|auth|signature|^sig$|^x-(?:amz|goog)-", re.IGNORECASE)
"""Names of options and of parameters whose values are not shown; signed URLs have the last three."""
_PARAMETER = re.compile(r"(?<=[?&])([^?&=#]+)=(?!\$\{)([^&#]*)")  # a variable is shown by its name


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sink writes: a file, a URL or a database, and the table in it. Holds no user name, password or token."""

    address: str
    table: str | None = None

    def __str__(self) -> str:
        return self.address if self.table is None else f"{self.address} table {self.table}"

    def is_in_the_way_of(self, other: Place) -> bool:
        """Whether both cannot be written: one table, or one file that is not a database to both."""
        return self.address == other.address and (None in (self.table, other.table) or self.table == other.table)


def without_secrets(url: str, hidden: str = "***") -> str:
    """A URL whose query may be shown: values of parameters with a SECRET_NAME are hidden."""
    return _PARAMETER.sub(lambda found: f"{found[1]}={hidden}" if _is_secret(found[1]) else found[0], url)


def secrets_of(url: str) -> Iterator[str]:
    """The values that `without_secrets` hides, as they are written and as they are meant."""
    for name, value in _PARAMETER.findall(url):
        if _is_secret(name):
            yield from (value, unquote(value))


def _is_secret(name: str) -> bool:
    return SECRET_NAME.search(unquote(name)) is not None


def check_places(places: Sequence[Place]) -> None:
    """Errors: ConfigurationError SINK_TWICE for the first two that are in each other's way."""
    for number, place in enumerate(places):
        for earlier in places[:number]:
            if place.is_in_the_way_of(earlier):
                raise ConfigurationError(
                    "two sinks write to this place",
                    where=str(place),
                    hint="give each a file or a table of its own",
                    code="SINK_TWICE",
                )
