"""The engine's own commands meet the engine here: the store, the linter and facts about the machine, as plain data."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fetchly.errors import ConfigurationError, ExtractionError, ModelUnavailable
from fetchly_llm.errors import EngineError, ModelMissing, WeightsMismatch
from fetchly_llm.grammar.findings import Finding
from fetchly_llm.store.entry import ModelEntry, ModelFolder, Progress
from fetchly_llm.store.model_store import ModelStore

if TYPE_CHECKING:
    from fetchly_llm.training.loop import TrainingProgress as TrainingProgress


@contextmanager
def worded() -> Iterator[None]:
    """The engine's errors within, as the application's."""
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
    with worded():
        return ModelStore().list()


def model(reference: str) -> ModelEntry:
    """One model in detail."""
    with worded():
        return ModelStore().show(reference)


def pull(reference: str, progress: Progress) -> ModelFolder:
    """Fetch, verify and convert a model, unless it is here."""
    with worded():
        return ModelStore().pull(reference, progress=progress)


def lint(schema: Mapping[str, Any], mode: Literal["strict", "check"]) -> tuple[Finding, ...]:
    """All findings on a schema, errors first."""
    from fetchly_llm.grammar.lint import lint as lint_schema

    return lint_schema(schema, mode)


def context_of(reference: str) -> tuple[int, Callable[[list[str]], list[int]]] | None:
    """The most tokens that prompt and answer may have together, and what counts them; None for a model that is not
    here. No weights are loaded, and nothing is fetched."""
    from fetchly_llm.config import EngineConfig
    from fetchly_llm.tokenizer import Tokenizer

    try:
        entry = ModelStore().show(reference)
        if entry.state != "ready" or entry.path is None or entry.context_length is None:
            return None
        tokenizer = Tokenizer.load(entry.path)
    except EngineError:
        return None  # a run says what is wrong with it
    most = min(EngineConfig().context_length, entry.context_length)
    return most, lambda texts: [len(tokenizer.encode(text)) for text in texts]


def draft_choice(folder: Path) -> tuple[str, str]:
    """The draft sources that `auto` stands for, with a model that is here, and why. Loads the model, and measures what
    steps cost here where that was not done before."""
    from fetchly_llm.config import EngineConfig
    from fetchly_llm.engine import Engine

    with worded():
        engine = Engine.load(folder, EngineConfig())
        try:
            return ",".join(engine.draft_choice.sources), engine.draft_choice.reason
        finally:
            engine.close()


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
    ("ray", "pipelines on a cluster: pip install 'fetchly[ray]'", False),
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

    with worded():
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

    with worded():
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

    with worded():
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

    with worded():
        store = ModelStore()
        folder = store.resolve(reference, progress=progress, offline=offline)
        chosen = StreamOptions(**{**options, "streams": StreamConfig(**options["streams"])})
        train_streams(folder, store.show(reference).adapter, states, run, chosen, on_step)


def merge_adapter(reference: str, adapter: Path, output: Path, *, offline: bool, progress: Progress) -> None:
    """Write the model that an adapter and its base model make into the new folder `output`."""
    from fetchly_llm.store.merging import merge_into

    with worded():
        merge_into(ModelStore(), reference, adapter, output, progress, offline=offline)


def store_root() -> Path:
    """Where models are kept."""
    return ModelStore().root


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
