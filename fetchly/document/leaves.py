"""An entity in; its single values out, each with its way from the entity's type, in the order of the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from fetchly.document.clean import collapse
from fetchly.document.dom import Element
from fetchly.document.entities import Entity
from fetchly.document.ranking import LEFT_OUT, SILENT, TRAILING, UNREAD, rank

MAX_LEAVES = 2000  # of a page
MAX_DEPTH = 8
MAX_VALUE = 5000  # characters
MAX_LABEL = 120
LONG = 300  # a longer text that the page shows as well is not said twice
MAX_SEARCHES = 1000  # of the visible page for such texts; those after them are told, shown or not
SENTENCE = 60  # a longer text of an entity is not said again of what belongs to it

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\s-]+")
_ADDRESS = re.compile(r"(?:https?:)?//\S+|/\S*|(?:data|urn|blob|javascript):\S*", re.IGNORECASE)
_TERM = re.compile(r"https?://(?:www\.)?schema\.org/([A-Za-z][A-Za-z0-9]*)")
_SQUASHED = re.compile(r"[\W_]+")
_OWN_ADDRESSES = frozenset(("image", "thumbnailUrl", "contentUrl", "url"))
_OWN_NAMES = frozenset(("name", "text", "value"))  # of a nested entity: what it is


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the way to a value: its words, and which of the alike things in `group` it leads through."""

    words: tuple[str, ...]
    group: object | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value with the way to it. `address`: the value is a URL."""

    way: tuple[Step, ...]
    value: str
    element: Element
    address: bool = False

    def label(self, numbered: Container[object]) -> str:
        """The way in words: `Product offers 2 price`. `numbered` are the groups whose numbers are told."""
        shown: list[str] = []
        known: list[str] = []
        for step in self.way:
            words = [word.lower() for part in step.words for word in _CAMEL.split(part) if word]
            overlap = next((n for n in range(len(words), 0, -1) if known[-n:] == words[:n]), 0)
            shown += words[overlap:] if known else step.words
            known += words[overlap:]
            if step.group in numbered:
                shown.append(str(step.number))
        return " ".join(shown)[:MAX_LABEL]

    def key(self) -> tuple[str, str]:
        """What makes two leaves the same, whatever their numbers."""
        return self.label(()), self.value.casefold()


@dataclass(frozen=True, slots=True)
class _Pending:
    way: tuple[Step, ...]
    content: str | Entity
    element: Element
    single: bool = True  # the only value of its property
    shown: bool = False


class Leaves:
    """Reads the entities of one page; every entity is told once, and by its name alone where it is met again."""

    def __init__(self, entities: Sequence[Entity], visible_text: str, *, addresses: bool) -> None:
        self.left_out = 0
        self._visible = visible_text
        self._squashed: str | None = None
        self._addresses = addresses
        self._leaves = 0
        self._told: set[Entity] = set()
        self._counted: set[Entity] = set()  # as left out
        self._searches = 0
        self._by_id: dict[str, Entity] = {}
        for entity in _everything(entities, set()):
            if entity.id and entity.values:
                self._by_id.setdefault(entity.id, entity)

    def read(self, top: Entity, first: Step) -> list[Leaf]:
        """The leaves of an entity; none if it was told as a part of another one."""
        if top in self._told:
            return []
        subject = rank(top) == 0
        found: list[Leaf] = []
        sentences: set[str] = set()  # what an entity and its variants have in common
        stack = [_Pending((first,), top, top.element)]
        while stack:
            item = stack.pop()
            if isinstance(item.content, str) and self._leaves >= MAX_LEAVES:
                self.left_out += 1
            elif isinstance(item.content, str):
                texts = list(self._texts(item, subject))
                self._leaves += len(texts)
                found += [leaf for leaf in texts if len(item.way) < 3 or leaf.value not in sentences]
                sentences.update(leaf.value for leaf in texts if len(leaf.value) > SENTENCE)
            else:
                stack.extend(reversed(self._entered(item, found)))
        return found

    def _entered(self, item: _Pending, found: list[Leaf]) -> list[_Pending]:
        """The parts of an entity; none where it is not told, or told already and met again by its name."""
        assert isinstance(item.content, Entity)
        entity = item.content if item.content.values else self._by_id.get(item.content.id, item.content)
        if entity.type in LEFT_OUT or len(item.way) > MAX_DEPTH or not entity.values:
            self.leave_out(entity)
        elif entity in self._told:
            name = text_of(entity, "name")
            found += [Leaf(item.way, name, item.element)] if name else []
        else:
            self._told.add(entity)
            return self._parts(entity, item)
        return []

    def names(self, trail: Entity) -> Iterator[str]:
        """The names along a BreadcrumbList."""
        for value in trail.values:
            if value.name == "itemListElement" and isinstance(value.content, Entity):
                inner = next((v.content for v in value.content.values if v.name == "item"), None)
                name = text_of(value.content, "name")
                yield name or (text_of(inner, "name") if isinstance(inner, Entity) else "")

    def only_name(self, entity: Entity) -> Entity:
        """The entity with nothing but its name; the rest is counted."""
        rest = [value for value in entity.values if value.name != "name"]
        self.leave_out(Entity(entity.type, entity.element, "", rest))
        return Entity(entity.type, entity.element, "", [value for value in entity.values if value.name == "name"])

    def leave_out(self, entity: Entity) -> None:
        """Count the values of an entity that is not told, once wherever it is met; a bare reference is one."""
        everything = _everything([entity], self._counted)
        texts = sum(isinstance(value.content, str) for each in everything for value in each.values)
        self.left_out += texts if entity.values else 1

    def _parts(self, entity: Entity, item: _Pending) -> list[_Pending]:
        """The values of an entity, each with its way."""
        nested = len(item.way) > 1
        compact = _compact(entity) if nested else None
        if compact is not None:
            return [_Pending((*item.way[:-1], *compact.way), compact.value, entity.element)]
        counts = Counter(value.name for value in entity.values)
        alike: Counter[str] = Counter()
        parts: list[_Pending] = []
        text = _squash(text_of(entity, "text") or text_of(entity, "description"))
        for value in sorted(entity.values, key=lambda value: value.name in TRAILING):
            name, content = value.name, value.content
            if name in UNREAD:
                self.leave_out(Entity("", entity.element, "", [value]))
                continue
            if name == "name" and nested and isinstance(content, str) and text.startswith(_squash(content)):
                continue  # a step's name is the beginning of its text
            silent = name in SILENT or (nested and name in _OWN_NAMES and isinstance(content, str))
            group: object | None = None
            if isinstance(content, Entity) and counts[name] > 1:
                alike[name] += 1
                group = (entity, name)
            step = Step(() if silent else (name,), group, alike[name])
            parts.append(_Pending((*item.way, step), content, value.element, counts[name] == 1, value.shown))
        return parts

    def _texts(self, item: _Pending, subject: bool) -> Iterator[Leaf]:
        content = item.content
        assert isinstance(content, str)
        whole = collapse(content)
        term = _TERM.fullmatch(whole)
        if term:
            yield Leaf(item.way, term[1], item.element)
        elif _ADDRESS.fullmatch(whole) or (item.way[-1].words[:1] == ("url",) and " " not in whole):
            own = len(item.way) == 2 and _OWN_ADDRESSES.issuperset(item.way[-1].words)
            if self._addresses and subject and own:
                yield Leaf(item.way, whole, item.element, address=True)
            else:
                self.left_out += 1
        elif len(whole) > LONG and (item.shown or (item.single and self._is_shown(whole))):
            return
        else:
            for line in content.split("\n"):
                text = collapse(line).removeprefix("mailto:").removeprefix("tel:")
                if len(text) > MAX_VALUE:
                    self.left_out += 1
                elif text:
                    yield Leaf(item.way, text, item.element)

    def _is_shown(self, text: str) -> bool:
        self._searches += 1
        if self._searches > MAX_SEARCHES:
            return False
        if self._squashed is None:
            self._squashed = _squash(self._visible)
        return _squash(text) in self._squashed


def text_of(entity: Entity, name: str) -> str:
    """The first text of a property, in one line; "" where there is none."""
    for value in entity.values:
        if value.name == name and isinstance(value.content, str):
            return collapse(value.content)
    return ""


def _compact(entity: Entity) -> Leaf | None:
    """One line for a named value (`Colour: red`) and for the hours of some days."""
    name, amount = text_of(entity, "name"), text_of(entity, "value")
    if entity.type == "PropertyValue" and name and amount and len(name) <= MAX_LABEL // 2:
        unit = text_of(entity, "unitText")
        return Leaf((Step((name.rstrip(" :"),)),), f"{amount} {unit}".strip(), entity.element)
    opens, closes = text_of(entity, "opens"), text_of(entity, "closes")
    if entity.type == "OpeningHoursSpecification" and opens and closes:
        days = [v.content for v in entity.values if v.name == "dayOfWeek" and isinstance(v.content, str)]
        on = ", ".join(day.rstrip("/").rsplit("/", 1)[-1] for day in map(collapse, days))
        return Leaf((Step(("opening hours",)),), f"{on} {opens}-{closes}".strip(), entity.element)
    return None


def _everything(entities: Sequence[Entity], seen: set[Entity]) -> Iterator[Entity]:
    """Entities with all that are nested in them, each once, without those in `seen`, to which they are added."""
    stack: list[Entity] = list(reversed(entities))
    while stack:
        entity = stack.pop()
        if entity not in seen:
            seen.add(entity)
            yield entity
            stack.extend(value.content for value in reversed(entity.values) if isinstance(value.content, Entity))


def _squash(text: str) -> str:
    return _SQUASHED.sub("", text).casefold()
