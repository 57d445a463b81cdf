"""Text in, the form in which two texts are compared out: case, quotes, dashes, fractions and white space folded."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from typing import Any

_SINGLE_QUOTES = "’‘‚´`"
_DOUBLE_QUOTES = "“”„«»"
_DASHES = "‐‑‒–—−"
_INVISIBLE = "\u200b\u00ad\ufeff"
_TABLE = str.maketrans(
    {
        **dict.fromkeys(_SINGLE_QUOTES, "'"),
        **dict.fromkeys(_DOUBLE_QUOTES, '"'),
        **dict.fromkeys(_DASHES, "-"),
        **dict.fromkeys(_INVISIBLE, None),
        "\N{FRACTION SLASH}": "/",
    }
)
_GLUED_FRACTION = re.compile(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])")
_SPACE = re.compile(r"\s+")
_NO_WORD = re.compile(r"\W+")
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_ENDS = " .,;:|!?…-*•"


def fold(value: Any) -> str:
    """Entities resolved, NFKC, case folded, quotes and dashes in one form each, punctuation at the ends dropped.

    A fraction that is glued to a number gets a space: `1½` and `1 1/2` are one text.
    """
    return fold_inside(value).strip(_ENDS)


def fold_inside(value: Any) -> str:
    """As `fold`, the ends kept but for white space: for a text that values are looked for in."""
    apart = _GLUED_FRACTION.sub(" ", html.unescape(str(value)))
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", apart).translate(_TABLE).casefold()).strip()


def squash(folded: str) -> str:
    """The letters and digits of a folded text alone."""
    return _NO_WORD.sub("", folded)


def tokens(folded: str) -> list[str]:
    """Words and numbers of a folded text; an ideograph, a kana and a Hangul syllable are one each."""
    return _TOKEN.findall(folded)


def token_counts(folded: str) -> Counter[str]:
    """How often each token stands in a folded text; a text without any is one token itself."""
    return Counter(tokens(folded) or [folded])


def similarity(a: Counter[str], b: Counter[str]) -> float:
    """Token F1 of two texts, 0 to 1."""
    shared = sum((a & b).values())
    return 2 * shared / (sum(a.values()) + sum(b.values()))
