"""What an address of a sink is, in; whether two sinks would write to one place, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchly.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sink writes: a file, a URL or a database, and the table in it. Holds no user name and no password."""

    address: str
    table: str | None = None

    def __str__(self) -> str:
        return self.address if self.table is None else f"{self.address} table {self.table}"

    def is_in_the_way_of(self, other: Place) -> bool:
        """Whether both cannot be written: one table, or one file that is not a database to both."""
        return self.address == other.address and (None in (self.table, other.table) or self.table == other.table)


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
