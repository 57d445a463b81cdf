"""A duration as people write it in (`1s`, `500ms`, `2m`), seconds out."""

from __future__ import annotations

import re

_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) ?(ms|s|m|min|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """A number with ms, s, m (or min), h or d; without a unit, seconds. Errors: ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a duration: write 500ms, 1s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2] or "s"]
