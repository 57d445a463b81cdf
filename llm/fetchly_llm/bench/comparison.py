"""Documents and two sides in; each document's pair of times for each measure, taken one after the other, out.

Both sides are given the same token ids. Which side is first changes from document to document: what drifts (clocks,
caches, temperature) falls on both alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fetchly_llm.bench.own_side import OwnSide
from fetchly_llm.bench.rival import Rival
from fetchly_llm.bench.sides import (
    ComparedDocument,
    Measure,
    Pair,
    Sides,
    Trial,
    decode_trials,
    prefill_trials,
    record_trials,
)
from fetchly_llm.errors import EngineError

T = TypeVar("T")

PREFILL_TOKENS = 1024
DRAFT = ("forced", "lookup")
"""What the record is drafted by."""
_WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """`measures` are taken in this order. Where writing alone is measured, `decode_tokens` are written; a record has
    at most `max_tokens`."""

    measures: tuple[Measure, ...] = ("prefill", "decode", "decode+grammar", "record")
    decode_tokens: int = 96
    max_tokens: int = 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that one side refused: it is in no figure."""

    set: str
    message: str


@dataclass(frozen=True, slots=True)
class Compared:
    """All pairs of times, and what could not be measured."""

    pairs: tuple[Pair, ...]
    refusals: tuple[Refusal, ...]


class Comparison:
    """Measures documents on one engine and one rival, or on the engine alone. Both are greedy.

    Before each record the cache of either side holds the tokens that all pages of the schema share, and no others.
    """

    def __init__(self, own: OwnSide, rival: Rival | None, options: CompareOptions) -> None:
        self._own = own
        self._rival = rival
        self._options = options
        self._rival_first = False

    def run(
        self,
        documents: Sequence[ComparedDocument],
        on_document: Callable[[ComparedDocument], None] = lambda document: None,
    ) -> Compared:
        """Every document, after a short warm-up on the first one that is not counted."""
        pairs: list[Pair] = []
        refusals: list[Refusal] = []
        options = self._options
        if documents:
            self._options = replace(options, decode_tokens=_WARM_UP_TOKENS, max_tokens=_WARM_UP_TOKENS)
            self._document(documents[0])
            self._options = options
        for turn, document in enumerate(documents):
            on_document(document)
            self._rival_first = turn % 2 == 1
            measured = self._document(document)
            pairs += measured.pairs
            refusals += measured.refusals
        return Compared(tuple(pairs), tuple(refusals))

    def _document(self, document: ComparedDocument) -> Compared:
        try:
            return Compared(tuple(self._pairs(document)), ())
        except EngineError as error:
            refusal = Refusal(document.set, f"{document.name}: {error.code}: {error.message}")
            return Compared((), (refusal,))

    def _pairs(self, document: ComparedDocument) -> Iterator[Pair]:
        for measure in self._options.measures:
            trials = self._trials(measure, document)
            if trials is not None:
                yield Pair(measure, document.set, document.id, trials)

    def _trials(self, measure: Measure, document: ComparedDocument) -> Sides[Trial] | None:
        match measure:
            case "prefill":
                return self._prefill(document)
            case "decode":
                return self._decode(document, with_grammar=False)
            case "decode+grammar":
                return self._decode(document, with_grammar=True)
            case "record":
                return self._record(document)
            case "page":
                return None  # of pages this room knows nothing

    def _prefill(self, document: ComparedDocument) -> Sides[Trial]:
        ids = document.prompt_ids[:PREFILL_TOKENS]
        ms = self._both(lambda: self._own.prefill(ids), lambda rival: rival.prefill(ids))
        return prefill_trials(ms, len(ids))

    def _decode(self, document: ComparedDocument, *, with_grammar: bool) -> Sides[Trial] | None:
        count = self._options.decode_tokens
        schema = self._own.prepare(document) if with_grammar else None
        user_schema = document.user_schema if with_grammar else None
        prefilled = self._own.hold(document)
        writings = self._both(
            lambda: self._own.write(document, schema, count, prefilled=prefilled),
            lambda rival: rival.write(document.prompt_ids, user_schema, count),
        )
        return decode_trials(writings)

    def _record(self, document: ComparedDocument) -> Sides[Trial]:
        count = self._options.max_tokens
        schema = self._own.prepare(document)
        self._own.warm(document)
        if self._rival is not None:
            self._rival.prefill(document.prompt_ids[: document.shared_prefix])
        writings = self._both(
            lambda: self._own.write(document, schema, count, draft=DRAFT),
            lambda rival: rival.write(document.prompt_ids, document.user_schema, count),
        )
        return record_trials(writings)

    def _both(self, own: Callable[[], T], rival: Callable[[Rival], T]) -> Sides[T]:
        """Both, one after the other, the one or the other first."""
        if self._rival is None:
            return Sides(own(), None)
        if self._rival_first:
            theirs = rival(self._rival)
            return Sides(own(), theirs)
        ours = own()
        return Sides(ours, rival(self._rival))
