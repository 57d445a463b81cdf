"""A path and its content in; a file that is there whole, in place of what was, or unchanged, out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fetchly.errors import OutputError


def write_whole(file: Path, lines: Iterable[str]) -> None:
    """UTF-8. Errors: OutputError."""
    name: str | None = None
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as part:
            part.writelines(lines)
            part.flush()
            os.fsync(part.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, file)
    except BaseException as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputError(f"cannot be written: {error.strerror or error}", where=str(file)) from None
        raise
