"""An adapter's file and the name of its base model in; a model folder of a user's own out, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.store.adaptation import adapt_folder, check_base
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.model_store import ModelStore


def merge_into(
    store: ModelStore, reference: str, adapter: Path, output: Path, progress: Progress, *, offline: bool
) -> None:
    """Merge `adapter` into the model `reference`, as the new folder `output`.

    Raises RequestInvalid where the folder is there already or cannot be written, WeightsMismatch where the adapter was
    trained on another model, and what the store raises.
    """
    if output.exists():
        raise RequestInvalid(f"{output} exists already", hint="name another folder, or remove it")
    base = store.resolve(reference, progress=progress, offline=offline)
    check_base(adapter, store.show(reference).sha256 or base.digest)
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.resolve().parent))
    except OSError as error:
        raise RequestInvalid(f"{output} cannot be written: {error.strerror or error}") from None
    try:
        os.chmod(part, 0o755)
        adapt_folder(base.path, part, adapter, progress)
        os.replace(part, output)
    finally:
        shutil.rmtree(part, ignore_errors=True)
