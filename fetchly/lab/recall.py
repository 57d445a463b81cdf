"""A dataset and token budgets in; the share of right values that stand in what the model would be shown out.

No model is asked. Counted are the scored fields whose value the labels mark as `text` (it stands in the visible text);
each field of each page weighs one, the entries of a list share that. presence.py says what standing there means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fetchly.errors import FetchlyError
from fetchly.extraction.prompt import PAGE_BUDGET, build_prompt
from fetchly.extraction.sections import CountTokens
from fetchly.extraction.shape import SchemaTree
from fetchly.goods import Block, Document
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.presence import ShownText
from fetchly.lab.reading import SetReader
from fetchly.lab.scoring import FieldKind, field_kind, flat, is_empty, is_list, item_kinds

Loss = Literal["the page was not read", "not in the document", "left out by the budget"]


@dataclass(frozen=True, slots=True)
class WantedValue:
    """One value to look for: a field of a page, or a field of one record of its list; `weight` is its share."""

    field: str
    kind: FieldKind
    is_list: bool
    gold: Any
    weight: float


@dataclass(frozen=True, slots=True)
class LostValue:
    """A value, or an entry of it, that the model would not see."""

    set: str
    id: str
    field: str
    budget: int
    text: str
    loss: Loss


@dataclass(frozen=True, slots=True)
class FieldRecall:
    """One field at one budget, shares of 0 to 1: in the chosen sections, in the first blocks of the page that fit the
    same budget, in the whole document. `values` is how many pages have it."""

    field: str
    values: float
    chosen: float
    beginning: float
    whole: float


@dataclass(frozen=True, slots=True)
class SetRecall:
    """One set at one budget. `total` is over all fields. The values of `unread` pages are lost."""

    set: str
    budget: int
    documents: int
    unread: int
    total: FieldRecall
    fields: tuple[FieldRecall, ...]

    def row(self) -> dict[str, Any]:
        """The line of `fetchly lab recall --json`."""
        return {
            "bench": "recall",
            "set": self.set,
            "budget": self.budget,
            "default": self.budget == PAGE_BUDGET,
            "recall": _rounded(self.total.chosen),
            "documents": self.documents,
            "values": round(self.total.values, 2),
            "whole_document": _rounded(self.total.whole),
            "beginning": _rounded(self.total.beginning),
            "unread": self.unread,
            "fields": {field.field: _rounded(field.chosen) for field in self.fields},
        }


@dataclass(frozen=True, slots=True)
class RecallRun:
    """What became of one set: a row for each budget, what was lost, and the errors of the pages that were not read."""

    rows: tuple[SetRecall, ...]
    lost: tuple[LostValue, ...]
    errors: tuple[FetchlyError, ...] = ()


@dataclass(slots=True)
class _Sums:
    values: float = 0.0
    chosen: float = 0.0
    beginning: float = 0.0
    whole: float = 0.0

    def recall(self, field: str) -> FieldRecall:
        n = self.values or 1.0
        return FieldRecall(field, self.values, self.chosen / n, self.beginning / n, self.whole / n)


def measure_recall(
    dataset: Dataset,
    budgets: Sequence[int],
    reader: SetReader,
    count_tokens: CountTokens,
    *,
    limit: int | None = None,
    on_page: Callable[[GoldRecord], None] = lambda record: None,
) -> RecallRun:
    """Measure one set. A page that cannot be read loses all its values; it never stops the run."""
    sums: dict[tuple[int, str], _Sums] = {}
    lost: list[LostValue] = []
    errors: list[FetchlyError] = []
    documents = 0
    for record in dataset.records(limit):
        on_page(record)
        schema = dataset.schema(record).json
        wanted = wanted_values(record, schema)
        if not wanted:
            continue
        documents += 1
        try:
            document = reader.read(dataset, record)
        except FetchlyError as error:
            document = None
            errors.append(error)
        whole = _text(document.blocks if document else (), document)
        count = _Remembered(count_tokens)
        for budget in budgets:
            chosen = _chosen(schema, document, budget, count)
            beginning = _text(_beginning(document, budget, count) if document else (), document)
            for value in wanted:
                shares = [text.share(value.kind, value.is_list, value.gold) for text in (chosen, beginning, whole)]
                for field in (value.field, ""):
                    entry = sums.setdefault((budget, field), _Sums())
                    entry.values += value.weight
                    entry.chosen += value.weight * shares[0]
                    entry.beginning += value.weight * shares[1]
                    entry.whole += value.weight * shares[2]
                place = _PageAt(dataset.name, record.id, budget)
                lost.extend(_losses(place, value, chosen, whole if document else None))
    rows = [
        SetRecall(
            dataset.name,
            budget,
            documents,
            len(errors),
            sums.get((budget, ""), _Sums()).recall(""),
            tuple(total.recall(field) for (size, field), total in sorted(sums.items()) if size == budget and field),
        )
        for budget in budgets
    ]
    return RecallRun(tuple(rows), tuple(lost), tuple(errors))


def wanted_values(record: GoldRecord, schema: Mapping[str, Any]) -> tuple[WantedValue, ...]:
    """The values of a page that are marked to stand in its visible text, of the fields that its schema has.

    Of a list whose mark counts entries (`html:9/14`) nobody knows which ones are meant: such a value is left out. The
    mark of a field of a list of records may be the share of records; only a full share counts.
    """
    tree = SchemaTree(schema)
    properties = tree.node(schema).get("properties", {})
    wanted = [
        WantedValue(name, field_kind(name, properties[name], tree), is_list(name, schema), record.expected[name], 1.0)
        for name in record.usable
        if name in properties and _stands(record.verbatim.get(name)) and not is_empty(record.expected[name])
    ]
    for name, kind in item_kinds(record.usable, tree).items():
        if _stands(record.verbatim.get(f"items.{name}")):
            values = [v for item in record.expected["items"] if not is_empty(v := flat(item).get(name))]
            wanted += [WantedValue(f"items.{name}", kind, False, value, 1 / len(values)) for value in values]
    return tuple(wanted)


def _stands(mark: str | float | None) -> bool:
    return mark == "text" or mark == 1.0


class _Remembered:
    """Counts the tokens of a text once: every budget asks for the same blocks."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._count = count_tokens
        self._known: dict[str, int] = {}

    def __call__(self, texts: list[str]) -> list[int]:
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            self._known.update(zip(new, self._count(new), strict=True))
        return [self._known[text] for text in texts]


def _chosen(schema: Mapping[str, Any], document: Document | None, budget: int, count: CountTokens) -> ShownText:
    if document is None:
        return ShownText((), ())
    shown = build_prompt(schema, document, budget, count).sections.shown
    before = [-1, *(block.index for block in shown)]
    joined = [block.index == last + 1 for block, last in zip(shown, before, strict=False)]
    return ShownText([block.text for block in shown], joined, document.lang)


def _text(blocks: Sequence[Block], document: Document | None) -> ShownText:
    return ShownText([block.text for block in blocks], [True] * len(blocks), document.lang if document else None)


def _beginning(document: Document, budget: int, count: CountTokens) -> Sequence[Block]:
    """The rival: the page from its top, as many whole blocks as fit."""
    used = 0
    for at, cost in enumerate(count([f"{block.line}\n" for block in document.blocks])):
        used += cost
        if used > budget:
            return document.blocks[:at]
    return document.blocks


@dataclass(frozen=True, slots=True)
class _PageAt:
    set: str
    id: str
    budget: int


def _losses(place: _PageAt, value: WantedValue, chosen: ShownText, whole: ShownText | None) -> Iterator[LostValue]:
    """What the chosen sections lack of a value; `whole` is None for a page that was not read."""
    nowhere = set(whole.missing(value.kind, value.is_list, value.gold)) if whole else set[str]()
    for text in chosen.missing(value.kind, value.is_list, value.gold):
        loss: Loss = "not in the document" if text in nowhere else "left out by the budget"
        if whole is None:
            loss = "the page was not read"
        yield LostValue(place.set, place.id, value.field, place.budget, text, loss)


def _rounded(share: float) -> float:
    return round(share, 4)


def table(rows: Iterable[SetRecall]) -> list[str]:
    """The rows for people: one line for each set and budget, then its fields."""
    lines = [f"{'set':<14}{'field':<24}{'budget':>7}{'values':>9}{'chosen':>8}{'begin':>8}{'whole':>8}"]
    for row in rows:
        mark = "*" if row.budget == PAGE_BUDGET else ""
        for field in (row.total, *row.fields):
            lines.append(
                f"{row.set if not field.field else '':<14}{field.field or f'({row.documents} pages)':<24}"
                f"{f'{row.budget}{mark}':>7}{field.values:>9.1f}{field.chosen:>8.3f}{field.beginning:>8.3f}"
                f"{field.whole:>8.3f}"
            )
    lines.append("* the default budget; begin: the first blocks of the page that fit; whole: no budget")
    return lines
