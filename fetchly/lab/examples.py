"""Pages with right answers in, training examples out: the prompt as the model is given it, the text it ought to write.

An example's schema is the user's, restricted to the fields whose answer is known for certain (docs/examples.md).
Everything random is drawn from a hash of seed, set, page and variant: the same call gives the same examples.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from fetchly.document.reader import ReadOptions
from fetchly.errors import DocumentError
from fetchly.extraction.decoding import asks_for_links, bind_links, decoding_schema
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.prompt import PAGE_BUDGET, PagePrompt, build_prompt
from fetchly.extraction.sections import CountTokens
from fetchly.goods import Document, Page, Prompt
from fetchly.lab.answers import Answer, AnswerWriter, unknown_fields
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.narrowing import without
from fetchly.lab.silence import Silence
from fetchly.lab.truth import Truth, truth_of
from fetchly.lab.variants import Variant, varied


class Tokens(Protocol):
    """What of a model the examples depend on: its tokenizer and chat template."""

    @property
    def model_digest(self) -> str:
        """The content identity of the model's files."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text alone."""

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """The whole prompt, the answer's opening included."""

    def token_ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text as data."""


ReadPage = Callable[[Page, ReadOptions], Document]


@dataclass(frozen=True, slots=True)
class ExampleOptions:
    """`variants` examples a page: the schema as it is, then random variations. `structured` is the share of pages shown
    with what they say to machines. `longest_answer` is in tokens; a longer one is no example. `silent` is the share of
    examples that ask as well for fields that the page is surely silent about."""

    budget: int = PAGE_BUDGET
    variants: int = 1
    seed: int = 0
    structured: float = 0.5
    longest_answer: int = 1024
    silent: float = 0.0


@dataclass(frozen=True, slots=True)
class Example:
    """One example. `prompt_ids` end with the opening of the answer; `schema` is the decoding schema of this page;
    `source` is the text that verbatim values are spans of; `structured`: machine-readable marks were shown."""

    id: str
    set: str
    variant: int
    structured: bool
    prompt_ids: tuple[int, ...]
    schema: Mapping[str, Any]
    source: str
    answer: str
    versions: Mapping[str, str]

    def line(self) -> dict[str, Any]:
        """As a line of examples.jsonl."""
        return {
            "id": self.id,
            "set": self.set,
            "variant": self.variant,
            "structured": self.structured,
            "prompt_ids": list(self.prompt_ids),
            "schema": self.schema,
            "source": self.source,
            "answer": self.answer,
            "versions": self.versions,
        }


@dataclass(slots=True)
class Tally:
    """What became of pages and fields. `lost` counts fields by set, field and reason; `dropped` examples by reason;
    `found` values by how they were found."""

    pages: int = 0
    examples: int = 0
    found: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    prompt_lengths: list[int] = field(default_factory=list)
    answer_lengths: list[int] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """All figures, for one JSON line."""
        return {
            "pages": self.pages,
            "examples": self.examples,
            "tokens": sum(self.prompt_lengths) + sum(self.answer_lengths),
            "prompt_tokens": _lengths(self.prompt_lengths),
            "answer_tokens": _lengths(self.answer_lengths),
            "found": dict(self.found.most_common()),
            "lost_fields": dict(self.lost.most_common()),
            "dropped_examples": dict(self.dropped.most_common()),
        }


class ExampleMaker:
    """Makes the examples of one page after the other; `tally` counts over all of them."""

    def __init__(self, tokens: Tokens, read: ReadPage, options: ExampleOptions | None = None) -> None:
        self.tally = Tally()
        self.options = options or ExampleOptions()
        self._tokens = tokens
        self._read = read
        self._silence = Silence()
        self._versions = {"format": FORMAT_VERSION, "model": tokens.model_digest}

    def of(self, dataset: Dataset, record: GoldRecord) -> Iterator[Example]:
        """The examples of one page: one a variant, but for those of which no answer is known or that are too long."""
        self.tally.pages += 1
        page = _PageReadings(lambda options: self._read(dataset.page(record), options), self._tokens)
        # An invented page has an invented schema of its own: nothing is gained by varying it.
        for variant in range(1 if record.complete else self.options.variants):
            seed = f"{self.options.seed} {dataset.name} {record.id} {variant}"
            rng = random.Random(hashlib.sha256(seed.encode()).digest())
            try:
                yield self._example(dataset, record, page, variant, rng)
            except _Dropped as dropped:
                self.tally.dropped[str(dropped)] += 1
            except DocumentError as error:
                self.tally.dropped[f"the page cannot be read: {error.code}"] += 1

    def _example(
        self, dataset: Dataset, record: GoldRecord, page: _PageReadings, variant: int, rng: random.Random
    ) -> Example:
        asked = self._asked(dataset, record, variant, rng)
        options = ReadOptions(
            link_marks=asks_for_links(asked.schema), structured=rng.random() < self.options.structured
        )
        document = page.document(options)
        if self.options.silent and not record.complete and rng.random() < self.options.silent:
            asked = self._silence.ask(asked, document, rng)
        settled = self._settled(dataset.name, document, page.costs, asked)
        prompt, answer = settled.shown.prompt, settled.answer
        assert answer.text is not None
        length = len(self._tokens.token_ids(answer.text))
        if length > self.options.longest_answer:
            raise _Dropped("the answer is too long")
        example = Example(
            id=record.id,
            set=dataset.name,
            variant=variant,
            structured=options.structured,
            prompt_ids=self._tokens.prompt_ids(prompt),
            schema=bind_links(decoding_schema(settled.schema), prompt.links),
            source=prompt.source,
            answer=answer.text,
            versions=self._versions,
        )
        self._silence.learn(json.loads(answer.text))
        self.tally.examples += 1
        self.tally.found.update(answer.found)
        self.tally.prompt_lengths.append(len(example.prompt_ids))
        self.tally.answer_lengths.append(length)
        return example

    def _asked(self, dataset: Dataset, record: GoldRecord, variant: int, rng: random.Random) -> Variant:
        """The schema with every field of which something is known, varied but for the first variant."""
        truth = truth_of(record)
        verbatim: Literal["schema", "auto"] = "schema" if truth.complete else "auto"
        schema = decoding_schema(dataset.schema(record).json, verbatim=verbatim).user
        known = self._without(dataset.name, schema, truth, unknown_fields(schema, truth))
        return Variant(known, truth) if variant == 0 else varied(known, truth, rng)

    def _settled(self, name: str, document: Document, costs: CountTokens, asked: Variant) -> _Settled:
        """Ask, take out the fields that have no honest answer, and ask again: prompt and sections follow the schema."""
        writer = AnswerWriter(document)
        schema = asked.schema
        while True:
            shown = build_prompt(schema, document, self.options.budget, costs)
            answer = writer.write(schema, shown, asked.truth)
            if answer.text is not None:
                if not answer.says_something and not asked.truth.complete:
                    raise _Dropped("nothing of the answer is shown")
                return _Settled(schema, shown, answer)
            schema = self._without(name, schema, asked.truth, answer.lost)

    def _without(self, name: str, schema: dict[str, Any], truth: Truth, lost: Mapping[str, str]) -> dict[str, Any]:
        """The schema without the fields, which are counted. Raises _Dropped where nothing is left to ask."""
        for path, reason in lost.items():
            self.tally.lost[f"{name} {truth.scored_as.get(path, path)}: {reason}"] += 1
        narrowed = without(schema, lost) if lost else schema
        if narrowed is None:
            raise _Dropped("no field has a known answer")
        return narrowed


class _PageReadings:
    """One page: its document in each way that it is read, and what its lines cost, each found once."""

    def __init__(self, read: Callable[[ReadOptions], Document], tokens: Tokens) -> None:
        self._read = read
        self._tokens = tokens
        self._documents: dict[ReadOptions, Document] = {}
        self._costs: dict[str, int] = {}

    def document(self, options: ReadOptions) -> Document:
        """Errors: DocumentError."""
        if options not in self._documents:
            self._documents[options] = self._read(options)
        return self._documents[options]

    def costs(self, texts: list[str]) -> list[int]:
        """Tokens of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._costs]
        self._costs.update(zip(new, self._tokens.count_tokens(new), strict=True))
        return [self._costs[text] for text in texts]


@dataclass(frozen=True, slots=True)
class _Settled:
    schema: dict[str, Any]
    shown: PagePrompt
    answer: Answer


class _Dropped(Exception):
    """There is no example; the message says why."""


def _lengths(values: Sequence[int]) -> dict[str, int]:
    """Median, 95th percentile (nearest rank) and maximum."""
    ordered = sorted(values)
    if not ordered:
        return {}
    ranks = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    return {name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] for name, share in ranks.items()}
