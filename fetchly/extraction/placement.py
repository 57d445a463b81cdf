"""The values of a record, each with every place where it stands, in; one place for each out, so that neighbours agree.

Values that stand in one visible place come first. Each of the others is then put where it is nearest to those of its
own record: few blocks away, low in the same branch of the page's tree, beside a label that shares a word with the
field's name, not in a place that another value has. The entries of a list run in reading order, and where a field may
stand on either side of its record, it stands where it stands in most of the list's records.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fetchly.extraction.text_search import Place
from fetchly.goods import Block, Link

_KIND_COST = {"data": 6.0, "other": 6.0, "title": 3.0, "image": 1.0}
_HIDDEN = frozenset(("data", "other", "title"))
"""Kinds whose place on the page says nothing about where a reader sees the value."""
TAKEN_COST = 8.0
OUT_OF_ORDER_COST = 10.0
LABEL_GAIN = 2.0
USUAL_SIDE_GAIN = 1.5
DEEPEST_STEP = 6
FARTHEST_SIDE = 6
NEAREST_PLACES = 16
"""Of a value that stands in hundreds of places, those that are looked at on either side of a neighbour."""

_WORD = re.compile(r"[^\W\d_]{3,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value of a record: its JSON pointer, its field's name, where its text stands; `link` where it is a URL."""

    pointer: str
    name: str
    places: tuple[Place, ...]
    link: Link | None = None


@dataclass(slots=True)
class Group:
    """The leaves and groups of an object or a list."""

    is_list: bool = False
    leaves: list[Leaf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)

    def every_leaf(self) -> Iterator[Leaf]:
        """Own leaves, then those of the groups within."""
        yield from self.leaves
        for group in self.groups:
            yield from group.every_leaf()


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where in reading order an entry of a list belongs: [low, high) of Document.text; high None is the end."""

    low: int = 0
    high: int | None = None

    def hold(self, place: Place) -> bool:
        return self.low <= place.start and (self.high is None or place.start < self.high)


@dataclass(frozen=True, slots=True)
class _Sides:
    """Of a list's records: by field, how many blocks it mostly stands from `key`, the most often certain field."""

    key: str = ""
    blocks: Mapping[str, int] = field(default_factory=dict)


def place(root: Group, blocks: Sequence[Block]) -> dict[str, Place]:
    """A place by JSON pointer for every leaf that has one."""
    placement = _Placement(blocks)
    placement.settle(root)
    placement.group(root, [], _Bounds(), _Sides())
    return placement.placed


class _Placement:
    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._paths: dict[int, tuple[str, ...]] = {}
        self._words: dict[int, frozenset[str]] = {}
        self._taken: set[Place] = set()
        self.placed: dict[str, Place] = {}

    def settle(self, root: Group) -> None:
        """Place what leaves no choice: one place at all, or one that a reader sees."""
        for leaf in root.every_leaf():
            seen = [place for place in leaf.places if self._is_visible(place)]
            if leaf.link is None and (len(seen) == 1 or len(leaf.places) == 1):
                self._put(leaf, seen[0] if seen else leaf.places[0])

    def group(self, group: Group, around: list[int], bounds: _Bounds, sides: _Sides) -> None:
        """Place the leaves of a group: near each other, else near `around` (blocks, sorted)."""
        if group.is_list:
            self._list(group, around, bounds)
            return
        own = self._anchors(group)
        origin = self._certain(group, sides.key)
        open_leaves = [leaf for leaf in group.leaves if leaf.places and leaf.pointer not in self.placed]
        for leaf in sorted(open_leaves, key=lambda leaf: len(leaf.places)):
            near = own or around
            usual = origin + sides.blocks[leaf.name] if origin is not None and leaf.name in sides.blocks else None
            best = self._best(leaf, near, bounds, usual)
            self._put(leaf, best)
            if self._is_visible(best):
                insort(own, best.block)
        for inner in group.groups:
            self.group(inner, own or around, bounds, _Sides())

    def _list(self, group: Group, around: list[int], bounds: _Bounds) -> None:
        """Entries in reading order, each between the one before and the next whose place is known."""
        entries = [Group(leaves=[leaf]) for leaf in group.leaves] if group.leaves else group.groups
        if group.leaves and group.groups:
            entries = [*entries, *group.groups]  # a list of mixed entries
        if not entries:
            return
        sides = self._usual_sides(entries)
        highs: list[int | None] = [bounds.high]
        for entry in reversed(entries[1:]):
            known = self._first(entry)
            highs.append(highs[-1] if known is None else known)
        low = bounds.low
        for entry, high in zip(entries, reversed(highs), strict=True):
            self.group(entry, around, _Bounds(low, high if high is None or high > low else None), sides)
            anchors = self._anchors(entry)
            if not anchors:
                continue
            around, first = anchors, self._first(entry)
            if first is not None:  # a list of plain values moves on; the fields of a record may stand in any order
                low = max(low, first + bool(group.leaves))

    def _usual_sides(self, entries: Sequence[Group]) -> _Sides:
        certain = Counter(
            leaf.name for entry in entries for leaf in entry.leaves if self._certain(entry, leaf.name) is not None
        )
        if not certain:
            return _Sides()
        key = max(certain, key=lambda name: certain[name])
        counts: dict[str, Counter[int]] = {}
        for entry in entries:
            origin = self._certain(entry, key)
            if origin is None:
                continue
            for leaf in entry.leaves:
                near = {place.block - origin for place in self._nearby(leaf.places, [origin])}
                counts.setdefault(leaf.name, Counter()).update(side for side in near if abs(side) <= FARTHEST_SIDE)
        nearest = {
            name: max(found, key=lambda side: (found[side], -abs(side), side))
            for name, found in counts.items()
            if found
        }
        return _Sides(key, nearest)

    def _certain(self, group: Group, name: str) -> int | None:
        """The block of a group's own field, where it is placed and visible."""
        found = (self.placed.get(leaf.pointer) for leaf in group.leaves if leaf.name == name)
        return next((place.block for place in found if place is not None and self._is_visible(place)), None)

    def _anchors(self, group: Group) -> list[int]:
        """The blocks of what is placed within a group and visible, sorted."""
        found = [self.placed[leaf.pointer] for leaf in group.every_leaf() if leaf.pointer in self.placed]
        return sorted(place.block for place in found if self._is_visible(place))

    def _first(self, group: Group) -> int | None:
        """The first offset of what is placed within a group and visible."""
        found = [self.placed[leaf.pointer] for leaf in group.every_leaf() if leaf.pointer in self.placed]
        return min((place.start for place in found if self._is_visible(place)), default=None)

    def _best(self, leaf: Leaf, near: list[int], bounds: _Bounds, usual: int | None) -> Place:
        words = _words(leaf.name)

        def cost(place: Place) -> tuple[float, int]:
            total = _KIND_COST.get(self._blocks[place.block].kind, 0.0)
            total += self._distance(place.block, near) if near else 0.0
            total += TAKEN_COST * (place in self._taken) + OUT_OF_ORDER_COST * (not bounds.hold(place))
            total -= LABEL_GAIN * bool(words & self._around(place.block)) + USUAL_SIDE_GAIN * (place.block == usual)
            if leaf.link is not None:
                total += 4 * self._steps(self._path(place.block), _steps_of(leaf.link.css_path))
            return (round(total, 6), place.start)

        return min(self._nearby(leaf.places, near, bounds), key=cost)

    def _nearby(self, places: tuple[Place, ...], near: Sequence[int], bounds: _Bounds | None = None) -> Sequence[Place]:
        """All places, or of very many the nearest to the first and last neighbours and to the bounds."""
        if len(places) <= 4 * NEAREST_PLACES:
            return places
        ends = {near[0], near[-1]} if near else set()
        indices = {bisect_left(places, end, key=lambda place: place.block) for end in ends}
        if bounds is not None:
            indices.add(bisect_left(places, bounds.low, key=lambda place: place.start))
        kept = {i for at in indices or {0} for i in range(max(0, at - NEAREST_PLACES), at + NEAREST_PLACES)}
        return [places[i] for i in sorted(kept) if i < len(places)]

    def _distance(self, block: int, near: Sequence[int]) -> float:
        """Blocks between (in powers of two) and steps up the tree, to the nearer of the neighbours on either side."""
        at = bisect_left(near, block)
        return min(
            math.log2(1 + abs(block - other)) + self._steps(self._path(block), self._path(other))
            for other in near[max(0, at - 1) : at + 1]
        )

    def _steps(self, one: tuple[str, ...], other: tuple[str, ...]) -> int:
        """How far up the tree two elements meet."""
        shared = next(
            (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        return min(DEEPEST_STEP, max(len(one), len(other)) - shared)

    def _path(self, block: int) -> tuple[str, ...]:
        if block not in self._paths:
            self._paths[block] = _steps_of(self._blocks[block].css_path)
        return self._paths[block]

    def _around(self, block: int) -> frozenset[str]:
        """The words of a block's line and of the block before it: where labels stand."""
        if block not in self._words:
            before = self._blocks[block - 1].text if block and len(self._blocks[block - 1].text) <= 60 else ""
            self._words[block] = _words(f"{self._blocks[block].line[:200]} {before}")
        return self._words[block]

    def _is_visible(self, place: Place) -> bool:
        return self._blocks[place.block].kind not in _HIDDEN

    def _put(self, leaf: Leaf, chosen: Place) -> None:
        self.placed[leaf.pointer] = chosen
        self._taken.add(chosen)


def _steps_of(css_path: str) -> tuple[str, ...]:
    return tuple(step.strip() for step in css_path.split(">")) if css_path else ()


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text.replace("_", " "))))
