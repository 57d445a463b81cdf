"""A JSON text in; which of its bytes lie in values, and not in keys and punctuation, out."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

# A string with what follows it tells a key from a value; everything else that is not punctuation is a number or a word.
_PARTS = re.compile(rb'"((?:[^"\\]|\\.)*)("?)(\s*:)?|([^\s\[\]{},:"]+)', re.DOTALL)


def in_values(text: bytes) -> NDArray[np.bool_]:
    """One flag a byte: whether it lies inside a value's string (its quotes apart) or is of a number, true, false or
    null. `text` may be cut anywhere; a string that is cut counts as a value."""
    flags = np.zeros(len(text), dtype=np.bool_)
    for part in _PARTS.finditer(text):
        if part[4] is not None:
            flags[part.start(4) : part.end(4)] = True
        elif part[3] is None:
            flags[part.start(1) : part.end(1)] = True
    return flags
