"""The shape of an answer with several spans for a value in; one span for each value, lists in page order, out.

The rules: the body before what the page says to machines; the page's spelling that is nearest to the answer's; a span
with the field's label before it; then the one nearest to the other values of the record. No span of a list is used
twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from fetchly.lab.candidates import RANKS, Candidate, Candidates
from fetchly.lab.places import Place
from fetchly.lab.skeleton import Entries, Leaf, Members, Shape, leaves

_FEW = 3
"""A value with no more spans than this tells where the record stands."""


class Choice:
    """Settles the leaves of one answer."""

    def __init__(self, candidates: Candidates) -> None:
        self._page = candidates
        self._lost: dict[str, str] = {}

    def settle(self, shape: Shape) -> dict[str, str]:
        """Choose a span for every leaf that has any, and put the entries of lists into the order of the page.

        What comes back are the fields (path: reason) for which that cannot be done.
        """
        self._settle(shape, None)
        return self._lost

    def _settle(self, shape: Shape, near: int | None) -> None:
        if isinstance(shape, Leaf):
            self._choose(shape, near, ())
        elif isinstance(shape, Entries):
            self._list(shape, near)
        else:
            self._record(shape, near)

    def _record(self, shape: Members, near: int | None) -> None:
        own = [part for part in shape.members.values() if isinstance(part, Leaf) and part.candidates]
        firm = [self._first(leaf) for leaf in own if len(leaf.candidates) <= _FEW]
        if near is None and firm:
            near = median_low(firm)
        elif own and near is None:
            near = self._first(min(own, key=lambda leaf: len(leaf.candidates)))
        for part in shape.members.values():
            self._settle(part, near)

    def _list(self, shape: Entries, near: int | None) -> None:
        """Entries that can stand in one place only come first; the others go near their neighbours in the answer."""
        shared = Counter(_said(leaf) for entry in shape.entries for leaf in leaves(entry))
        told = [(entry, _teller(entry, shared)) for entry in shape.entries]
        shown = [_Entry(entry, teller) for entry, teller in told if teller is None or teller.status == "found"]
        placed: dict[int, _Taken] = {}
        for index in sorted(range(len(shown)), key=lambda i: shown[i].freedom):
            start = _neighbour(index, placed, near)
            taken = self._place(shown[index], start, list(placed.values()), shape.path)
            if taken is not None:
                placed[index] = taken
            if not _is_mostly_shown(shown[index].shape):
                self._lost[shape.path] = "an entry is shown in part"
        shape.cut = len(told) - len(shown)
        if shown and shape.cut > len(shown):
            self._lost[shape.path] = "most of the list is not shown"
        shape.entries = [entry.shape for entry in shown]
        shape.entries.sort(key=self._entry_position)

    def _place(self, entry: _Entry, near: int | None, used: list[_Taken], path: str) -> _Taken | None:
        """A place for an entry by its most telling value; the other values of a record are looked for around it."""
        teller = entry.teller
        if teller is None:
            return None
        self._choose(teller, near, used)
        if teller.chosen is None:
            if entry.shape is teller:
                self._lost[path] = "stands on the page less often"
                return None
            self._choose(teller, near, ())  # records may share a value that the page says once, above them all
        assert teller.chosen is not None, "what is found has a span"
        taken = self._taken(teller.chosen.place)
        if entry.shape is not teller:
            self._settle(entry.shape, taken.start)
        return taken

    def _choose(self, leaf: Leaf, near: int | None, used: Sequence[_Taken]) -> None:
        free = [candidate for candidate in leaf.candidates if not self._overlaps(candidate.place, used)]
        if free and leaf.chosen is None:
            leaf.chosen = min(free, key=self._order(near, spelled=any(RANKS[c.how] < 3 for c in free)))

    def _order(self, near: int | None, *, spelled: bool) -> Callable[[Candidate], tuple[float, ...]]:
        def order(candidate: Candidate) -> tuple[float, ...]:
            kind = self._page.places.lines[candidate.place.line].kind
            start = self._page.position(candidate.place)
            distance = 0 if near is None else abs(start - near) + (start < near)
            rank, unlabelled = RANKS[candidate.how], not candidate.labelled
            first = (rank, unlabelled) if spelled else (unlabelled, rank)
            return (kind == "data", *first, kind == "other", distance, start)

        return order

    def _taken(self, place: Place) -> _Taken:
        start = self._page.position(place)
        return _Taken(start, start + len(place.text))

    def _overlaps(self, place: Place, used: Sequence[_Taken]) -> bool:
        own = self._taken(place)
        return any(own.start < taken.end and taken.start < own.end for taken in used)

    def _first(self, leaf: Leaf) -> int:
        return min(self._page.position(candidate.place) for candidate in leaf.candidates)

    def _entry_position(self, entry: Shape) -> int:
        chosen = [leaf.chosen.place for leaf in leaves(entry) if leaf.chosen is not None]
        return min((self._page.position(place) for place in chosen), default=0)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A stretch of the source that an entry of a list uses."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a list with its most telling value, None where there is nothing to find."""

    shape: Shape
    teller: Leaf | None

    @property
    def freedom(self) -> tuple[int, int]:
        """The fewer spans there are, and the longer they are, the fewer places there are to go."""
        if self.teller is None:
            return (0, 0)
        return (len(self.teller.candidates), -len(str(self.teller.gold)))


def _said(leaf: Leaf) -> str:
    return f"{leaf.path} {leaf.gold}"


def _teller(entry: Shape, shared: Counter[str]) -> Leaf | None:
    """The value that tells most about an entry: one that no other entry has, and the longest of these."""
    said = [leaf for leaf in leaves(entry) if leaf.status in ("found", "cut")]
    return max(said, key=lambda leaf: (shared[_said(leaf)] == 1, len(str(leaf.gold))), default=None)


def _neighbour(index: int, placed: Mapping[int, _Taken], near: int | None) -> int | None:
    """Where an entry is looked for: after the entry before it, else before the one after it, else as its list."""
    before = [i for i in placed if i < index]
    after = [i for i in placed if i > index]
    if before:
        return placed[max(before)].end
    return placed[min(after)].start if after else near


def _is_mostly_shown(entry: Shape) -> bool:
    """Whether at least half of what the page says of an entry is shown."""
    statuses = [leaf.status for leaf in leaves(entry)]
    return statuses.count("cut") <= statuses.count("found")
