"""What the store hands out: a model's folder, its entry in a listing, the progress that it reports. No behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

State = Literal["ready", "partial", "absent", "damaged"]


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A checkpoint that an engine can load: config.json, safetensors, tokenizer.json.

    `digest` is the sha256 of the files' names and contents: equal for equal models wherever they lie, and so the
    model's part in cache keys. `source` is the full reference that the folder came from.
    """

    name: str
    path: Path
    digest: str
    source: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A line of `fetchly models list`, or, with the second half filled in, `fetchly models show`.

    `state` is "partial" after an interrupted download, "damaged" where an installed file is gone or of another size.
    `disk_bytes` is what the model takes here, `download_bytes` what a pull would fetch in all; None where nobody says.
    `sha256` is the pinned checksum of the file pulled, `adapter` that of the adapter merged in, if any. `format` is the
    prompt format that the model was trained for, None where it was not trained for extraction.
    """

    name: str
    reference: str
    source: str
    state: State
    description: str = ""
    licence: str | None = None
    path: Path | None = None
    disk_bytes: int | None = None
    download_bytes: int | None = None
    sha256: str | None = None
    adapter: str | None = None
    digest: str | None = None
    architecture: str | None = None
    parameters: int | None = None
    context_length: int | None = None
    format: str | None = None


class Progress(Protocol):
    """Where the store says what it is doing; whoever draws it decides how. Steps follow each other, never nest."""

    def start(self, label: str, total_bytes: int | None) -> None:
        """A step begins; None where its size is not known."""

    def advance(self, count: int) -> None:
        """`count` more bytes are done; negative where a download had to begin again."""

    def finish(self) -> None:
        """The step is over, or was given up."""


class SilentProgress:
    """Says nothing."""

    def start(self, label: str, total_bytes: int | None) -> None:
        """Nothing."""

    def advance(self, count: int) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""
