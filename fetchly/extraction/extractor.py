"""A document and a schema in, a record out that satisfies the schema, with evidence; or an error that says why not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from fetchly.errors import ConfigurationError, DocumentError, Interrupted, RecordInvalid
from fetchly.extraction.decoding import bind_links, decoding_schema
from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.generator import (
    ExtractionStats,
    GenerationTask,
    Generator,
    RecalledFailure,
    SchemaMode,
    SchemaNotice,
    Verify,
)
from fetchly.extraction.grounding import Grounder
from fetchly.extraction.page_context import page_context
from fetchly.extraction.prompt import PAGE_BUDGET, SYSTEM, PagePrompt, build_prompt, render_task
from fetchly.extraction.schema import UserSchema
from fetchly.extraction.validation import VALUE_MISSING, RecordValidator, parse_answer
from fetchly.extraction.values import Converted, convert
from fetchly.goods import Document, Record

REDRAW_TEMPERATURE = 0.7
TEMPLATE_TOKENS = 48
"""Room for the chat template's own tokens around system, task and page."""
SMALLEST_BUDGET = 64
_NO_MATTER = frozenset(("draft", "should_stop"))


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """How a record is drawn. `budget` is in tokens of page; `verbatim` "auto" makes plain string fields spans.

    `attempts` is how often a record is drawn at most before the extraction fails. A required value that the model
    leaves null is asked for once more: where two draws in a row say that the page lacks it, that is the answer, as to
    draw until something stands there would select what was made up. Errors: ConfigurationError for figures that make
    no sense.
    """

    schema_mode: SchemaMode = "strict"
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 1024
    budget: int = PAGE_BUDGET
    attempts: int = 3
    verbatim: Literal["schema", "auto"] = "schema"
    draft: tuple[str, ...] = ("auto",)
    verify: Verify = "match"
    should_stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("schema_mode", ("strict", "check")),
            ("verbatim", ("schema", "auto")),
            ("verify", ("match", "rejection")),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigurationError(f"{name} is {getattr(self, name)!r}, not {' or '.join(allowed)}", where=name)
        for name in ("max_tokens", "budget", "attempts", "seed", "temperature"):
            kinds = (int, float) if name == "temperature" else (int,)
            if not isinstance(getattr(self, name), kinds) or isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name} is {getattr(self, name)!r}, not a number that fits", where=name)
        for name, least in (("max_tokens", 1), ("budget", 1), ("attempts", 1), ("seed", 0), ("temperature", 0)):
            if not getattr(self, name) >= least:
                raise ConfigurationError(f"{name} is {getattr(self, name)}, at least {least} is needed", where=name)


@dataclass(frozen=True, slots=True)
class Extraction:
    """A valid record; `value` is it in the type that the schema came from; `attempt` (from 1) is the draw that held."""

    record: Record
    value: Any
    stats: ExtractionStats
    attempt: int


def page_budget(
    schema: UserSchema, options: ExtractionOptions, context_length: int, count: Callable[[list[str]], list[int]]
) -> int:
    """The budget asked for, or what the context leaves beside instruction, schema and answer; all in tokens, which
    `count` counts. Errors: ConfigurationError CONTEXT_TOO_SMALL."""
    task = render_task(decoding_schema(schema.json, verbatim=options.verbatim).user)
    fixed = sum(count([SYSTEM, task])) + TEMPLATE_TOKENS
    room = context_length - fixed - options.max_tokens
    if room < SMALLEST_BUDGET:
        raise ConfigurationError(
            f"the schema takes {fixed} tokens and the answer {options.max_tokens} of the model's {context_length}: "
            "no room for a page",
            where=schema.label,
            hint="lower max_tokens, shorten the schema's descriptions, or take a model with a longer context",
            code="CONTEXT_TOO_SMALL",
        )
    return min(options.budget, room)


class Extractor:
    """One schema, many documents. The schema is linted, derived and compiled when the extractor is made.

    Errors on making: SchemaError, ConfigurationError where schema and answer leave no room for a page.
    """

    def __init__(self, generator: Generator, schema: UserSchema, options: ExtractionOptions | None = None) -> None:
        self.schema = schema
        self.options = options or ExtractionOptions()
        self.notices: tuple[SchemaNotice, ...] = generator.check_schema(schema.json, self.options.schema_mode)
        self._generator = generator
        self._plan = decoding_schema(schema.json, verbatim=self.options.verbatim)
        self._validator = RecordValidator(schema)
        _check_format(generator.trained_format)
        generator.prepare(self._plan.schema)
        self.budget = page_budget(schema, self.options, generator.context_length, self._count)

    @property
    def identity(self) -> str:
        """A digest of all that a page's record depends on besides the page: format, model, schema, options.

        Draft sources are not among it: they never change an answer. Loads the model.
        """
        kept = {f.name: getattr(self.options, f.name) for f in fields(self.options) if f.name not in _NO_MATTER}
        parts = [FORMAT_VERSION, self._generator.identity, self.schema.json, kept]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _count(self, texts: list[str]) -> list[int]:
        return self._generator.count_tokens(texts)

    def prompt(self, document: Document) -> PagePrompt:
        """What the model would be shown. Errors: DocumentError for a document without text."""
        if not any(block.text.strip() for block in document.blocks):
            raise DocumentError(
                "the page holds no text to read",
                where=document.url,
                hint="scripts may write it: --render always (render: always in a pipeline) runs them in a browser",
            )
        return build_prompt(self._plan.user, document, self.budget, self._count)

    def extract(self, document: Document) -> Extraction:
        """Draw records until one satisfies the schema.

        Errors: DocumentError for an empty page (the generator is not asked), RecordInvalid after the last attempt,
        whatever the generator raises.
        """
        shown = self.prompt(document)
        context = page_context(document, shown.prompt.links)
        schema = bind_links(self._plan, shown.prompt.links)
        sections = shown.sections
        stats = ExtractionStats(attempts=0)
        failure: RecordInvalid | None = None
        for attempt in range(self.options.attempts):
            if self.options.should_stop is not None and self.options.should_stop():
                raise Interrupted("the extraction was stopped", where=document.url)
            try:
                generated = self._generator.generate(self._task(shown, schema, attempt))
            except RecordInvalid as error:
                # It came to no end. Small models loop where nothing is left to chance; the noise of a redraw ends that.
                stats = stats.plus(ExtractionStats(attempts=1, cached_answers=int(isinstance(error, RecalledFailure))))
                failure = error
                continue
            drawn = replace(generated.stats, left_out_blocks=sections.left_out_blocks, attempts=1)
            stats = stats.plus(replace(drawn, left_out_characters=sections.left_out_characters))
            try:
                converted = convert(self._plan.user, parse_answer(generated.text), context)
                _check_verbatim(converted, shown.prompt.source)
                value = self._checked(converted)
            except RecordInvalid as error:
                confirmed = failure is not None and _leave_out_the_same(failure, error)
                failure = error
                if confirmed:
                    break
                continue
            return Extraction(self._record(document, converted), value, stats, attempt + 1)
        assert failure is not None, "attempts >= 1"
        raise self._given_up(failure, document, stats.attempts)

    def _checked(self, converted: Converted) -> Any:
        """The record in the user's type. A null that is ours, for a span that does not parse, is told as such."""
        try:
            return self._validator.check(converted.value)
        except RecordInvalid as error:
            if error.code != VALUE_MISSING or error.pointer not in converted.unread:
                raise
            raise RecordInvalid(
                f"{converted.unread[error.pointer]}, and the schema requires a value",
                pointer=error.pointer,
                hint="let the field be null, or make it a string with x-verbatim to get the text as it stands",
            ) from error

    def _task(self, shown: PagePrompt, schema: Mapping[str, Any], attempt: int) -> GenerationTask:
        options = self.options
        redraw = attempt > 0 and options.temperature == 0
        return GenerationTask(
            prompt=shown.prompt,
            schema=schema,
            temperature=REDRAW_TEMPERATURE if redraw else options.temperature,
            seed=options.seed,
            attempt=attempt,
            max_tokens=options.max_tokens,
            draft=options.draft,
            verify=options.verify,
            should_stop=options.should_stop,
        )

    def _record(self, document: Document, converted: Converted) -> Record:
        evidence = Grounder(document).evidence(converted.value, converted.spans, converted.links)
        clamped = self.budget < self.options.budget
        note = f"page budget {self.budget} tokens instead of {self.options.budget}: the model's context is full"
        return Record(converted.value, evidence, (*converted.warnings, note) if clamped else converted.warnings)

    def _given_up(self, failure: RecordInvalid, document: Document, attempts: int) -> RecordInvalid:
        tries = "the only attempt" if attempts == 1 else f"all {attempts} attempts"
        if attempts < self.options.attempts:
            tries = f"{attempts} of {self.options.attempts} attempts agree and"
        place = failure.pointer or "/"
        return RecordInvalid(
            f"{place}: {failure.message} ({tries} failed)",
            pointer=failure.pointer,
            where=document.url,
            hint=failure.hint,
            code=failure.code,
        )


def _check_format(trained: str | None) -> None:
    if trained is not None and trained != FORMAT_VERSION:
        raise ConfigurationError(
            f"the model was trained for prompt format {trained}, and this fetchly writes format {FORMAT_VERSION}",
            hint="take a model of this format, or the fetchly that the model was made for",
            code="MODEL_FORMAT",
        )


def _leave_out_the_same(one: RecordInvalid, other: RecordInvalid) -> bool:
    """Whether both draws say that the page lacks the same required value."""
    return one.code == other.code == VALUE_MISSING and one.pointer == other.pointer


def _check_verbatim(converted: Converted, source: str) -> None:
    """A grammar sees to it; this holds every generator to the promise, also where no grammar could."""
    lines = source.split("\n")
    for pointer in sorted(converted.verbatim):
        if not any(converted.spans[pointer] in line for line in lines):
            raise RecordInvalid(
                "the value does not stand on the page, and the schema asks for x-verbatim",
                pointer=pointer,
                code="NOT_VERBATIM",
                hint="drop x-verbatim for a value that is not copied as it stands",
            )
