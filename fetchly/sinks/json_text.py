"""A JSON value in, its text in one line out (RFC 8259), always UTF-8 that every reader takes."""

from __future__ import annotations

import json
import math
from typing import Any

from fetchly.errors import OutputError

BEYOND = "1e999"
"""How infinity is written: a number beyond a 64-bit float (1e400) is read as infinity, and so is this."""


def to_json(value: Any, where: str) -> str:
    """The text of `value`; half of a surrogate pair stands in it as an escape, so that it is there again when read.

    Errors: OutputError NOT_JSON, with `where`, for NaN and for what JSON has no form for.
    """
    try:
        text = _text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise OutputError(f"the record is not a JSON value: {error}", where=where, code="NOT_JSON") from None
    return text if is_utf8(text) else text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_utf8(text: str) -> bool:
    """Whether UTF-8 has a form for it: no half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # an infinity, mostly
        return _written(value)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(str(key), ensure_ascii=False)}: {_written(item)}" for key, item in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, float) and math.isinf(value):
        return BEYOND if value > 0 else f"-{BEYOND}"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
