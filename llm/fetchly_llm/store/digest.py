"""Files in; their sha256, and the one sha256 that stands for a whole checkpoint folder, out."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fetchly_llm.store.atomic import write_atomically
from fetchly_llm.stream_config import STREAMS_FILE

# What an engine's output depends on. Readme files and licences may change without changing the model.
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "*.safetensors",
    "*.safetensors.index.json",
)


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file of a checkpoint: its name in the folder, its size in bytes, its sha256."""

    name: str
    size: int
    sha256: str


class FileDigests:
    """Checksums of files, remembered in a JSON file by path, size and time of change.

    A model of gigabytes is read once, not at every start. A file whose size and time are unchanged counts as
    unchanged, as it does for make and git.
    """

    def __init__(self, memory: Path) -> None:
        self._memory = memory

    def sha256(self, path: Path) -> str:
        """The checksum of `path`, from memory where that is possible."""
        status = path.stat()
        stamp = f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
        known = self._load()
        remembered = known.get(str(path.resolve()))
        if remembered is not None and remembered[0] == stamp:
            return remembered[1]
        digest = sha256_of(path)
        known[str(path.resolve())] = [stamp, digest]
        self._save(known)
        return digest

    def _load(self) -> dict[str, list[str]]:
        try:
            known = json.loads(self._memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # absent or damaged: everything is read afresh
            return {}
        return known if isinstance(known, dict) else {}

    def _save(self, known: dict[str, list[str]]) -> None:
        # Two processes may overwrite each other's entry, and a store may be read-only: either costs another reading of
        # the file next time, nothing else.
        with contextlib.suppress(OSError):
            write_atomically(self._memory, json.dumps(known, indent=1))


def folder_digests(folder: Path, sha256: Callable[[Path], str]) -> tuple[FileDigest, ...]:
    """The files of a checkpoint that an output depends on, by name."""
    paths = sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern) if path.is_file()})
    return tuple(FileDigest(path.name, path.stat().st_size, sha256(path)) for path in paths)


def sha256_of(path: Path) -> str:
    """The checksum of a file, read now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identity(files: tuple[FileDigest, ...]) -> str:
    """One sha256 for a checkpoint: of its files' names and checksums, whatever folder they lie in. Streams are no part
    of it, as they change no answer."""
    lines = "".join(f"{file.sha256}  {file.name}\n" for file in files if file.name != STREAMS_FILE)
    return hashlib.sha256(lines.encode()).hexdigest()
