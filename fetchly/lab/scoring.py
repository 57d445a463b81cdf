"""A right answer, a predicted record and the schema in; right, wrong and missed shares of each field out.

The rules (those of the sets' own scorer, which a test compares with):
- scored are the usable fields that the schema has, and the fields that the page truly does not say;
- every field of every page weighs one, however long its list: the items of a list share that weight;
- numbers, dates, times, currencies and yields are compared by what they say, long texts by token F1, the rest as
  folded text; list items pair up at token F1 >= 0.8;
- of a field of format date-time the time of day is compared too, where the right answer has one;
- a list of right values for a field that is no list means that any of them, or all of them joined, is right;
- items of a list of records are paired by how many of their fields agree, half at least.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fetchly.extraction.shape import SchemaTree
from fetchly.lab.dataset import GoldRecord
from fetchly.lab.folding import fold, similarity, squash, token_counts
from fetchly.lab.quantities import amounts, currencies, first_date, first_moment, first_number, minutes, plain

FieldKind = Literal["string", "text", "number", "minutes", "date", "date-time", "yield", "currency", "names", "tags"]

SAME_TEXT = 0.8
"""Token F1 from which two long texts, or two items of a list, count as the same."""

_NAMES_BY_KIND: dict[FieldKind, str] = {
    "date": "published_date publish_date publication_date date_posted case_dates start end datetime",
    "yield": "yields",
    "number": "price price_string price_float count_bedrooms count_bathrooms count_rooms count_parking "
    "constructed_area plot_area latitude longitude year_construction",
    "minutes": "prep_time cook_time total_time",
    "currency": "currency",
    "names": "author director",
    "tags": "category cuisine topics categories genre",
    "text": "description first_paragraph summaries",
}
_KIND_BY_NAME: dict[str, FieldKind] = {name: kind for kind, names in _NAMES_BY_KIND.items() for name in names.split()}
_BETWEEN_NAMES = re.compile(r"[,;|]|\s(?:&|and|und|og|och|et|y|e|en)\s")
_BETWEEN_TAGS = re.compile(r"[,;|/]")
_BYLINE_WORD = re.compile(r"^(?:by|von|par|por|di|door)\s+")


@dataclass(frozen=True, slots=True)
class Counts:
    """Shares of fields: `right`, `wrong` (said, but not so) and `missed` (so, but not said)."""

    right: float = 0.0
    wrong: float = 0.0
    missed: float = 0.0

    def plus(self, other: Counts, weight: float = 1.0) -> Counts:
        """Both together, the other one weighted."""
        return Counts(
            self.right + weight * other.right, self.wrong + weight * other.wrong, self.missed + weight * other.missed
        )

    @property
    def precision(self) -> float:
        """The right share of what was said; 0 where nothing was."""
        return _ratio(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The right share of what there was to say; 0 where there was nothing."""
        return _ratio(self.right, self.right + self.missed)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _ratio(2 * self.precision * self.recall, self.precision + self.recall)

    @property
    def flawless(self) -> bool:
        """Nothing wrong and nothing missed."""
        return not self.wrong and not self.missed


_MISSED = Counts(missed=1.0)


def score_record(gold: GoldRecord, record: Any, schema: Mapping[str, Any]) -> dict[str, Counts]:
    """The counts of each scored field of one page, by name; `items.x` is field x of a list of records.

    Anything but an object, such as the None of a page that failed, misses every field.
    """
    said = record if isinstance(record, dict) else {}
    tree = SchemaTree(schema)
    properties = tree.node(schema).get("properties", {})
    counts: dict[str, Counts] = {}
    for name in gold.usable:
        if name in properties:
            counts[name] = _score_field(
                field_kind(name, properties[name], tree),
                _is_list(properties[name], tree),
                gold.expected[name],
                said.get(name),
            )
    kinds = item_kinds(gold.usable, tree)
    if kinds:
        counts |= _score_items(kinds, gold.expected["items"], said.get("items"), gold.partial_list)
    for name in gold.missing:
        if name in properties and not is_empty(said.get(name)):
            counts[name] = Counts(wrong=1.0)
    return counts


def is_right(name: str, schema_node: Any, gold: Any, predicted: Any) -> bool:
    """Whether a field's value is wholly right: every item of a list, nothing besides. An empty answer is right where
    the page says nothing (`gold` empty). References of `schema_node` must have been followed."""
    if is_empty(gold):
        return is_empty(predicted)
    tree = SchemaTree(schema_node if isinstance(schema_node, Mapping) else {})
    counts = _score_field(field_kind(name, schema_node, tree), _is_list(schema_node, tree), gold, predicted)
    return counts.flawless and counts.right > 0


def field_kind(name: str, schema_node: Any, tree: SchemaTree) -> FieldKind:
    """How values of a field are compared: by its format, by its name as the sets use it, or by its type."""
    nodes = [tree.node(branch) for branch in _branches(schema_node, tree)]
    formats = {tree.node(part).get("format") for node in nodes for part in (node, node.get("items", {}))}
    named = _KIND_BY_NAME.get(name)
    if "date-time" in formats and named in (None, "date"):
        return "date-time"
    if named is not None:
        return named
    if any(node.get("format") == "date" for node in nodes):
        return "date"
    types = frozenset[str]().union(*(tree.types(node) for node in nodes)) - {"null"}
    return "number" if types and types <= {"number", "integer"} else "string"


def item_kinds(usable: Sequence[str], tree: SchemaTree) -> dict[str, FieldKind]:
    """The scored fields of the records of a list (`location.name` in depth), and how their values are compared."""
    properties = tree.node(tree.root).get("properties", {})
    items = tree.node(properties["items"]).get("items", {}) if "items" in properties else {}
    members = tree.node(items).get("properties", {})
    kinds: dict[str, FieldKind] = {}
    for usable_name in usable:
        path = usable_name.split(".")
        if path[0] == "items" and len(path) > 1 and path[1] in members:
            node: Any = members[path[1]]
            for part in path[2:]:
                node = tree.node(node).get("properties", {}).get(part, {})
            kinds[".".join(path[1:])] = field_kind(path[-1], node, tree)
    return kinds


def is_list(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a field of the schema is a list."""
    tree = SchemaTree(schema)
    return _is_list(tree.node(schema).get("properties", {}).get(name), tree)


def _is_list(schema_node: Any, tree: SchemaTree) -> bool:
    return any("array" in tree.types(branch) for branch in _branches(schema_node, tree))


def _branches(schema_node: Any, tree: SchemaTree) -> Sequence[Any]:
    return tree.alternatives(schema_node) or (schema_node,)


def is_empty(value: Any) -> bool:
    """No value: null, an empty text, list or object."""
    return value is None or value in ("", [], {})


def entries(kind: FieldKind, value: Any) -> list[str]:
    """The folded entries of a list, or of a text that lists names or tags; empty ones are left out."""
    given = [part for part in (value if isinstance(value, list) else [value]) if part is not None and part != ""]
    if kind not in ("names", "tags"):
        return [folded for part in given if (folded := fold(part))]
    between = _BETWEEN_NAMES if kind == "names" else _BETWEEN_TAGS
    parts = [part for text in given for part in between.split(html.unescape(str(text)))]
    return [folded for part in parts if (folded := fold(_BYLINE_WORD.sub("", fold(part))))]


def alternatives(gold: Any) -> list[Any]:
    """The values that are right for a field that is no list: any of a list of them, or all of them joined."""
    return [*gold, " ".join(map(str, gold))] if isinstance(gold, list) else [gold]


def form(kind: FieldKind, value: Any) -> str:
    """A value as it is compared: the number, the minutes or the date that it says; else its folded text."""
    if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        return plain(value)
    text = fold(value)
    read = {"number": first_number, "minutes": minutes, "date": first_date, "date-time": first_date}.get(kind)
    found = read(text) if read else None
    return text if found is None else found


def _score_field(kind: FieldKind, is_list: bool, gold: Any, predicted: Any) -> Counts:
    if is_empty(predicted):
        return _MISSED
    if not is_list and kind not in ("names", "tags"):
        return Counts(right=1.0) if _agree(kind, gold, predicted) else Counts(wrong=1.0, missed=1.0)
    wanted, said = entries(kind, gold), entries(kind, predicted)
    hits, size = _paired(kind, wanted, said), max(len(wanted), len(said), 1)
    return Counts(hits / size, (len(said) - hits) / size, (len(wanted) - hits) / size)


def _agree(kind: FieldKind, gold: Any, predicted: Any) -> bool:
    options = alternatives(gold)
    said = " ".join(map(str, predicted)) if isinstance(predicted, list) else predicted
    folded = fold(said)
    if kind == "text":
        return any(_alike(fold(option), folded) >= SAME_TEXT for option in options)
    if kind in ("currency", "yield"):
        read = currencies if kind == "currency" else amounts
        return any(read(fold(option)) & read(folded) for option in options)
    if kind == "date-time":
        return any(_same_moment(fold(option), folded) for option in options)
    if any(form(kind, option) == form(kind, said) for option in options):
        return True
    letters = squash(folded)
    return kind == "string" and letters != "" and any(squash(fold(option)) == letters for option in options)


def _alike(a: str, b: str) -> float:
    return 1.0 if a == b else similarity(token_counts(a), token_counts(b))


def _same_moment(right: str, said: str) -> bool:
    """Whether folded texts say one moment; one day, or one text, where the right one has no time of day."""
    moment = first_moment(right)
    if moment is None:
        return form("date-time", right) == form("date-time", said)
    other = first_moment(said)
    return other is not None and moment.is_same(other)


def _paired(kind: FieldKind, wanted: Sequence[str], said: Sequence[str]) -> int:
    """How many entries pair up, the most alike first."""
    left, right = [token_counts(text) for text in wanted], [token_counts(text) for text in said]
    pairs: list[_Pair] = []
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            if kind == "date-time":
                alike = float(_same_moment(wanted[i], said[j]))
            else:
                alike = 1.0 if wanted[i] == said[j] else similarity(one, other)
            if alike >= SAME_TEXT:
                pairs.append(_Pair(alike, i, j))
    return len(_matched(sorted(pairs, key=lambda pair: (pair.weight, pair.left, pair.right), reverse=True)))


@dataclass(frozen=True, slots=True)
class _Pair:
    weight: float
    left: int
    right: int


def _matched(pairs: Iterable[_Pair]) -> dict[int, int]:
    """The pairs taken one after the other, each side of a pair once."""
    mates: dict[int, int] = {}
    taken: set[int] = set()
    for pair in pairs:
        if pair.left not in mates and pair.right not in taken:
            mates[pair.left] = pair.right
            taken.add(pair.right)
    return mates


def _score_items(kinds: Mapping[str, FieldKind], gold: Any, predicted: Any, partial: bool) -> dict[str, Counts]:
    """A list of records. `partial`: the right list is not complete, so what is said besides is no error."""
    wanted = [flat(item) for item in gold]
    said = [flat(item) for item in predicted] if isinstance(predicted, list) else []
    pairs: list[_Pair] = []
    for i, right in enumerate(wanted):
        known = [name for name in kinds if not is_empty(right.get(name))]
        for j, answer in enumerate(said):
            agreed = sum(_score_field(kinds[n], False, right[n], answer.get(n)).right > 0.5 for n in known)
            if agreed and agreed * 2 >= len(known):
                pairs.append(_Pair(agreed, i, j))
    mates = _matched(sorted(pairs, key=lambda pair: (-pair.weight, pair.left, pair.right)))
    size = len(wanted) if partial else max(len(wanted), len(said))
    counts = dict.fromkeys(kinds, Counts())
    for i, right in enumerate(wanted):
        for name, kind in kinds.items():
            if not is_empty(right.get(name)):
                found = said[mates[i]].get(name) if i in mates else None
                counts[name] = counts[name].plus(_score_field(kind, False, right[name], found), 1 / size)
    for j, answer in enumerate(said):
        if j not in mates.values() and not partial:
            for name in kinds:
                counts[name] = counts[name].plus(Counts(wrong=float(not is_empty(answer.get(name)))), 1 / size)
    return {f"items.{name}": total for name, total in counts.items() if total != Counts()}


def flat(item: Any, prefix: str = "") -> dict[str, Any]:
    """A record's members, those of nested objects under dotted names."""
    out: dict[str, Any] = {}
    for key, value in item.items() if isinstance(item, dict) else ():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return out


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
