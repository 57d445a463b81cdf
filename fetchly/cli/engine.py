"""The engine's own commands meet the engine here: the store, the linter and facts about the machine, as plain data."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fetchly.errors import ConfigurationError, ExtractionError, ModelUnavailable
from fetchly_llm.errors import EngineError, ModelMissing, WeightsMismatch
from fetchly_llm.grammar.findings import Finding
from fetchly_llm.store.entry import ModelEntry, ModelFolder, Progress
from fetchly_llm.store.model_store import ModelStore


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
    ("flash-attn", "faster attention on a GPU: pip install 'fetchly[cuda]'", False),
)


def parts() -> tuple[Part, ...]:
    """The libraries that matter and the versions that are installed."""
    return tuple(Part(name, _version(name), purpose, required) for name, purpose, required in PARTS)


def device_line() -> str:
    """What torch would run on, in words; empty without torch."""
    from fetchly_llm.backends.registry import describe_device  # an import of seconds: only this command pays it

    return describe_device()


def store_root() -> Path:
    """Where models are kept."""
    return ModelStore().root


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
