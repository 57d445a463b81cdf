"""A word of a schema in, the words that pages use for the same thing out: English synonyms and ten languages beside.

A schema is mostly written in English, pages are not. The table (`lexicon.txt`, one concept a line) holds what labels
and headings of pages say. A word is folded (case, accents, plural s) on both sides; words of scripts without spaces are
looked for anywhere in a text. The table only ever helps a block to be ranked: what it lacks costs no value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_LETTERS = re.compile(r"[^\W\d_]{2,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def words_of(text: str) -> Iterator[str]:
    """The words of a text or a name, folded: `priceRange` and `Preis` give `price`, `range`, `preis`."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    for word in _LETTERS.findall(_CAMEL.sub(" ", text.replace("_", " "))):
        folded = word.casefold()
        yield folded[:-1] if len(folded) > 3 and folded.endswith("s") else folded


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for line in Path(__file__).with_name("lexicon.txt").read_text(encoding="utf-8").splitlines():
        concept = {word for entry in line.split() for word in words_of(entry)}
        for word in concept:
            table.setdefault(word, set()).update(concept)
    return {word: frozenset(others) for word, others in table.items()}


def related(word: str) -> frozenset[str]:
    """The words that mean what a folded word means, itself included."""
    return _table().get(word, frozenset((word,)))


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script that writes no spaces: it is looked for anywhere in a text."""
    return _UNSPACED.search(word) is not None
