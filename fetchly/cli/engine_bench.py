"""The engine's own measurements meet the engine here: its decode bench, its steps, itself beside llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fetchly.cli.engine import worded
from fetchly.errors import ConfigurationError, OutputError
from fetchly_llm.bench.sides import ComparedDocument as ComparedDocument  # for those who may not name the engine
from fetchly_llm.bench.sides import Measure as Measure
from fetchly_llm.bench.sides import Pair as Pair
from fetchly_llm.bench.sides import Score as Score
from fetchly_llm.bench.sides import Sides as Sides
from fetchly_llm.bench.sides import Trial as Trial
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.model_store import ModelStore

if TYPE_CHECKING:
    from fetchly_llm.bench.compare import CompareBench as CompareBench
    from fetchly_llm.bench.comparison import Compared
    from fetchly_llm.bench.decode import DecodeReport
    from fetchly_llm.bench.measurement import DecodeOptions
    from fetchly_llm.bench.workload import WorkItem as WorkItem  # for those who may not name the engine


class DecodeBench:
    """The engine's decode bench for one model of the store, whose files are fetched here where they are not."""

    def __init__(
        self,
        reference: str,
        *,
        device: Literal["auto", "native", "cpu", "cuda"],
        threads: int | None,
        width: int | None,
        streams_file: Path | None,
        replay: bool,
        offline: bool,
        progress: Progress,
    ) -> None:
        from fetchly_llm.bench.decode import DecodeBench as EngineBench
        from fetchly_llm.config import EngineConfig

        config = EngineConfig(device=device, threads=threads, streams_file=streams_file)
        if width is not None:
            config = replace(config, width=width)
        with worded():
            folder = ModelStore().resolve(reference, progress=progress, offline=offline)
        self._bench = EngineBench(folder, config, replay=replay)

    def example(self, line: Mapping[str, Any]) -> WorkItem:
        """A line of examples.jsonl as an item to decode."""
        from fetchly_llm.bench.workload import example_item

        with worded():
            return example_item(line)

    def examples(self, file: Path) -> list[list[WorkItem]]:
        """Those of a file, by set."""
        from fetchly_llm.bench.workload import read_examples

        sets: dict[str, list[WorkItem]] = {}
        with worded():
            for item in read_examples(file):
                sets.setdefault(item.set, []).append(item)
        return list(sets.values())

    def prompts(self, file: Path) -> list[WorkItem]:
        """The prompts of a file as free text."""
        from fetchly_llm.bench.workload import read_prompts

        with worded():
            return list(read_prompts(file, self._bench.tokenizer))

    def measure(
        self, items: Sequence[WorkItem], options: DecodeOptions, on_item: Callable[[WorkItem], None]
    ) -> DecodeReport:
        """Decode every item by every arm."""
        with worded():
            return self._bench.measure(items, options, on_item)


def save_gain(lines: Sequence[Mapping[str, Any]], streams_file: Path) -> None:
    """Note in a streams file what its streams gain, by the lines of a decode bench. Errors: ConfigurationError where
    the bench did not measure it, OutputError."""
    from fetchly_llm.draft_choice import GAIN, gain_of
    from fetchly_llm.safetensors_file import add_metadata

    gain = gain_of(lines)
    if gain is None:
        raise ConfigurationError("no page was written by both forced+lookup and all", where="--save-gain")
    with worded():
        try:
            add_metadata(streams_file, {GAIN: gain.as_text()})
        except OSError as error:
            raise OutputError(f"cannot be written: {error.strerror or error}", where=str(streams_file)) from None


def decode_options(arms: Sequence[str], **others: Any) -> DecodeOptions:
    """How the arms decode, checked: all that the engine can refuse without a model."""
    from fetchly_llm.bench.arms import choose_arms
    from fetchly_llm.bench.measurement import DecodeOptions

    with worded():
        choose_arms(arms, 0, has_plain_1=False)
    return DecodeOptions(tuple(arms), **others)


def compare_bench(
    reference: str,
    *,
    device: Literal["auto", "native", "cpu", "cuda"],
    threads: int | None,
    gguf: Path | None,
    offline: bool,
    progress: Progress,
) -> CompareBench:
    """The engine beside llama.cpp, for one model of the store; beside nothing where llama.cpp cannot run."""
    from fetchly_llm.bench.compare import CompareBench
    from fetchly_llm.bench.rival_program import find_rival
    from fetchly_llm.config import EngineConfig

    store = ModelStore()
    with worded():
        folder = store.resolve(reference, progress=progress, offline=offline)
        rival = find_rival(folder, gguf, store.root, progress, offline=offline)
    return CompareBench(folder, EngineConfig(device=device, threads=threads), rival)


def compare(
    bench: CompareBench,
    documents: Sequence[ComparedDocument],
    measures: Sequence[Measure],
    on_document: Callable[[ComparedDocument], None],
    **limits: int,
) -> Compared:
    """Every measure that needs no page; `limits` are those of the engine's CompareOptions."""
    from fetchly_llm.bench.comparison import CompareOptions

    with worded():
        return bench.measure(documents, CompareOptions(tuple(measures), **limits), on_document)


def require_plots() -> None:
    """Errors: ConfigurationError where matplotlib is missing."""
    from fetchly_llm.bench.plot import require_matplotlib

    with worded():
        require_matplotlib()


def plot_decode(report: DecodeReport, file: Path) -> None:
    """Draw a report into a PNG. Raises OSError."""
    from fetchly_llm.bench.plot import plot_decode as draw

    draw(report.rows, file)


def measure_steps(
    reference: str,
    *,
    device: Literal["auto", "native", "cpu", "cuda"],
    threads: int | None,
    width: int | None,
    context: int,
    rows: Sequence[int],
    offline: bool,
    progress: Progress,
) -> list[dict[str, Any]]:
    """What a decode step costs by its number of rows; one line each."""
    from fetchly_llm.backends.registry import load_backend
    from fetchly_llm.bench.step import measure_steps as measure
    from fetchly_llm.config import EngineConfig

    config = EngineConfig(device=device, threads=threads)
    with worded():
        folder = ModelStore().resolve(reference, progress=progress, offline=offline)
        backend = load_backend(folder.path, replace(config, width=width) if width is not None else config)
        try:
            if width is not None and backend.width is None:
                raise ConfigurationError(
                    "--width changes nothing here: the steps of this back-end have none",
                    where=backend.identity,
                    hint="leave it out, or measure --device cpu",
                )
            return [row.line() for row in measure(backend, context, rows)]
        finally:
            backend.close()
