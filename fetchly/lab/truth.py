"""A gold record in; what is known of each field of its page out: its value, and how far the page says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fetchly.lab.dataset import GoldRecord

Trust = Literal["stated", "absent", "unsure", "unknown"]
"""stated: the visible page says the value. absent: the page does not say it, null is right. unsure: the value is right,
but may not be on the page. unknown: nothing is known, and an example may teach neither a value nor null."""


@dataclass(frozen=True, slots=True)
class Truth:
    """A page's right answer, by the dotted names of the schema's fields (`items.title`; places in lists left out).

    `complete`: every value stands on the page and every null is a true one. `partial` are lists that hold only some of
    the page's entries. `sources` has the text of the page for the value at a JSON pointer, where it is known.
    `scored_as` has the name under which the scorer knows a field, where the schema calls it otherwise.
    """

    value: Any
    stated: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()
    complete: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    scored_as: Mapping[str, str] = field(default_factory=dict)

    def trust(self, path: str, value: Any) -> Trust:
        """How far the page says `value` at `path`."""
        if value is None:
            # Where a list's records give a field at all, one without it has none.
            in_list = path in self.stated and "." in path
            return "absent" if self.complete or path in self.absent or in_list else "unknown"
        return "stated" if self.complete or path in self.stated else "unsure"

    def scorer_name(self, path: str) -> str:
        """The scorer's name of a field."""
        return self.scored_as.get(path, path).rsplit(".", 1)[-1]


def truth_of(record: GoldRecord) -> Truth:
    """What a dataset's record says. An empty text or list says nothing, unless the record is complete."""
    said = record.expected.items()
    return Truth(
        value={name: value for name, value in said if record.complete or value not in ("", [], {})},
        stated=frozenset(record.usable),
        absent=frozenset(record.missing),
        partial=frozenset(("items",)) if record.partial_list else frozenset(),
        complete=record.complete,
        sources=record.sources,
    )
