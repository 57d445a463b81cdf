"""A memory limit as a user writes it in; bytes, a share of the host's memory, or neither out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ByteSize, TypeAdapter, ValidationError

from fetchly.errors import ConfigurationError

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_BYTES = TypeAdapter(ByteSize)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """What all processes together may take: `size` bytes, or `share` (0 to 1) of what the machine or the cgroup has;
    neither: what is there. `is_governed` False: nothing is ever held back."""

    size: int | None = None
    share: float | None = None
    is_governed: bool = True


def memory_limit(value: str | int | None) -> MemoryLimit:
    """`2GB`, `1.5GiB`, `75%`, bytes as a number, `off`; None: what is there. GB are powers of 1000, GiB of 1024.

    Errors: ConfigurationError.
    """
    if value is None:
        return MemoryLimit()
    text = str(value).strip().lower()
    if text == "off":
        return MemoryLimit(is_governed=False)
    share = _SHARE.fullmatch(text)
    if share is not None and 0 < float(share[1]) <= 100:
        return MemoryLimit(share=float(share[1]) / 100)
    if share is None and not isinstance(value, bool) and "bit" not in text:
        try:
            size = int(_BYTES.validate_python(text))
        except (ValidationError, OverflowError):
            size = 0
        if size > 0:
            return MemoryLimit(size=size)
    raise ConfigurationError(
        f"memory_limit is {value!r}, not an amount of memory", where="memory_limit", hint="write 2GB, 75% or off"
    )


def in_words(size: float) -> str:
    """Bytes for a reader: `1.8 GB`, `640 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
