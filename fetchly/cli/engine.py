"""The engine's own commands meet the engine here: the store, the linter and facts about the machine, as plain data."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fetchly.errors import ConfigurationError, ExtractionError, ModelUnavailable
from fetchly_llm.bench.sides import ComparedDocument as ComparedDocument  # for those who may not name the engine
from fetchly_llm.bench.sides import Measure as Measure
from fetchly_llm.bench.sides import Pair as Pair
from fetchly_llm.bench.sides import Score as Score
from fetchly_llm.bench.sides import Sides as Sides
from fetchly_llm.bench.sides import Trial as Trial
from fetchly_llm.errors import EngineError, ModelMissing, WeightsMismatch
from fetchly_llm.grammar.findings import Finding
from fetchly_llm.store.entry import ModelEntry, ModelFolder, Progress
from fetchly_llm.store.model_store import ModelStore

if TYPE_CHECKING:
    from fetchly_llm.bench.compare import CompareBench as CompareBench
    from fetchly_llm.bench.comparison import Compared
    from fetchly_llm.bench.decode import DecodeReport
    from fetchly_llm.bench.measurement import DecodeOptions
    from fetchly_llm.bench.workload import WorkItem as WorkItem  # for those who may not name the engine
    from fetchly_llm.training.loop import TrainingProgress as TrainingProgress


@contextmanager
def _worded() -> Iterator[None]:
    try:
        yield
    except ModelMissing as error:
        raise ModelUnavailable(error.message, hint=error.hint, code=error.code) from error
    except WeightsMismatch as error:
        raise ExtractionError(error.message, hint=error.hint, code=error.code) from error
    except EngineError as error:
        raise ConfigurationError(error.message, hint=error.hint, code=error.code) from error


def models() -> tuple[ModelEntry, ...]:
    """Every model of the catalogue and of this machine."""
    with _worded():
        return ModelStore().list()


def model(reference: str) -> ModelEntry:
    """One model in detail."""
    with _worded():
        return ModelStore().show(reference)


def pull(reference: str, progress: Progress) -> ModelFolder:
    """Fetch, verify and convert a model, unless it is here."""
    with _worded():
        return ModelStore().pull(reference, progress=progress)


def lint(schema: Mapping[str, Any], mode: Literal["strict", "check"]) -> tuple[Finding, ...]:
    """All findings on a schema, errors first."""
    from fetchly_llm.grammar.lint import lint as lint_schema

    return lint_schema(schema, mode)


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
        with _worded():
            folder = ModelStore().resolve(reference, progress=progress, offline=offline)
        self._bench = EngineBench(folder, config, replay=replay)

    def example(self, line: Mapping[str, Any]) -> WorkItem:
        """A line of examples.jsonl as an item to decode."""
        from fetchly_llm.bench.workload import example_item

        with _worded():
            return example_item(line)

    def examples(self, file: Path) -> list[list[WorkItem]]:
        """Those of a file, by set."""
        from fetchly_llm.bench.workload import read_examples

        sets: dict[str, list[WorkItem]] = {}
        with _worded():
            for item in read_examples(file):
                sets.setdefault(item.set, []).append(item)
        return list(sets.values())

    def prompts(self, file: Path) -> list[WorkItem]:
        """The prompts of a file as free text."""
        from fetchly_llm.bench.workload import read_prompts

        with _worded():
            return list(read_prompts(file, self._bench.tokenizer))

    def measure(
        self, items: Sequence[WorkItem], options: DecodeOptions, on_item: Callable[[WorkItem], None]
    ) -> DecodeReport:
        """Decode every item by every arm."""
        with _worded():
            return self._bench.measure(items, options, on_item)


def decode_options(arms: Sequence[str], **others: Any) -> DecodeOptions:
    """How the arms decode, checked: all that the engine can refuse without a model."""
    from fetchly_llm.bench.arms import choose_arms
    from fetchly_llm.bench.measurement import DecodeOptions

    with _worded():
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
    with _worded():
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

    with _worded():
        return bench.measure(documents, CompareOptions(tuple(measures), **limits), on_document)


def require_plots() -> None:
    """Errors: ConfigurationError where matplotlib is missing."""
    from fetchly_llm.bench.plot import require_matplotlib

    with _worded():
        require_matplotlib()


def plot_decode(report: DecodeReport, file: Path) -> None:
    """Draw a report into a PNG. Raises OSError."""
    from fetchly_llm.bench.plot import plot_decode as draw

    draw(report.rows, file)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a working fetchly needs or can use. `version` is None where it is missing."""

    name: str
    version: str | None
    needed_for: str
    required: bool


PARTS = (
    ("torch", "running the model: ./install.sh, or pip install 'fetchly[torch]'", True),
    ("llguidance", "writing under a grammar", True),
    ("selectolax", "reading pages", True),
    ("transformers", "models outside the Llama family: pip install 'fetchly[transformers]'", False),
    ("outlines", "outlines types as schemas: pip install 'fetchly[outlines]'", False),
    ("matplotlib", "pictures of measurements: pip install 'fetchly[bench]'", False),
    ("flash-attn", "faster attention on a GPU: pip install 'fetchly[cuda]'", False),
)


def parts() -> tuple[Part, ...]:
    """The libraries that matter and the versions that are installed. Our own kernels do without torch."""
    needs_torch = native_obstacle() is not None
    return tuple(
        Part(name, _version(name), purpose, required and (name != "torch" or needs_torch))
        for name, purpose, required in PARTS
    )


def device_line() -> str:
    """What the model would run on, in words; empty where nothing can run it."""
    from fetchly_llm.backends.registry import describe_device  # an import of seconds: only this command pays it

    return describe_device()


def native_obstacle() -> str | None:
    """Why the model does not run on our own kernels here; None where it can."""
    from fetchly_llm.backends.registry import native_obstacle as obstacle

    return obstacle()


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
    with _worded():
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


def prepare_examples(
    reference: str,
    files: Sequence[Path],
    output: Path,
    take: Mapping[str, int],
    *,
    offline: bool,
    progress: Progress,
    on_example: Callable[[str], None],
) -> dict[str, Any]:
    """Write examples as the tokens that training reads; what was prepared and what was dropped, as plain data."""
    from fetchly_llm.training.preparation import Preparation
    from fetchly_llm.training.token_file import write_token_file

    with _worded():
        folder = ModelStore().resolve(reference, progress=progress, offline=offline)
        preparation = Preparation(folder.path, folder.digest, take)
        write_token_file(output, preparation.run(files, on_example))
    return preparation.tally.summary()


def train_sft(
    reference: str,
    run: Path,
    options: Mapping[str, Any],
    *,
    offline: bool,
    progress: Progress,
    on_step: Callable[[TrainingProgress], None],
) -> None:
    """Train an extraction adapter as `options` (the fields of `SftOptions`) say; the folder `run` then holds it."""
    from fetchly_llm.training.job import SftOptions, train

    with _worded():
        store = ModelStore()
        folder = store.resolve(reference, progress=progress, offline=offline)
        base = store.show(reference).sha256 or folder.digest
        train(folder, base, run, SftOptions(**options), on_step)


def write_states(
    reference: str,
    files: Sequence[Path],
    output: Path,
    take: Mapping[str, int],
    options: Mapping[str, Any],
    *,
    offline: bool,
    progress: Progress,
    on_example: Callable[[str], None],
) -> dict[str, Any]:
    """Answer examples and keep the states that streams learn from, as `options` (of `AnswerOptions`) say."""
    from fetchly_llm.training.own_answers import AnswerOptions
    from fetchly_llm.training.own_answers import write_states as write

    with _worded():
        folder = ModelStore().resolve(reference, progress=progress, offline=offline)
        return write(folder, files, output, take, AnswerOptions(**options), on_example).summary()


def train_streams(
    reference: str,
    states: Path,
    run: Path,
    options: Mapping[str, Any],
    *,
    offline: bool,
    progress: Progress,
    on_step: Callable[[TrainingProgress], None],
) -> None:
    """Train a model's streams as `options` (the fields of `StreamOptions`) say; the folder `run` then holds them."""
    from fetchly_llm.stream_config import StreamConfig
    from fetchly_llm.training.job import StreamOptions, train_streams

    with _worded():
        store = ModelStore()
        folder = store.resolve(reference, progress=progress, offline=offline)
        chosen = StreamOptions(**{**options, "streams": StreamConfig(**options["streams"])})
        train_streams(folder, store.show(reference).adapter, states, run, chosen, on_step)


def merge_adapter(reference: str, adapter: Path, output: Path, *, offline: bool, progress: Progress) -> None:
    """Write the model that an adapter and its base model make into the new folder `output`."""
    from fetchly_llm.store.merging import merge_into

    with _worded():
        merge_into(ModelStore(), reference, adapter, output, progress, offline=offline)


def store_root() -> Path:
    """Where models are kept."""
    return ModelStore().root


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
