"""A language in, its bank of words, labels of the page's furniture and parts of sentences out (words/LANG.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "de", "fr", "es", "it", "nl")


@dataclass(frozen=True, slots=True)
class Words:
    """What one language offers. Every value is the list of its alternatives.

    `banks` by name; `clauses` by theme; `choices` by vocabulary and code ("availability", "in_stock"); `say` has
    sentences that hold the value of a field; `ui` what stands around the content.
    """

    lang: str
    locales: tuple[str, ...]
    banks: Mapping[str, tuple[str, ...]]
    clauses: Mapping[str, tuple[str, ...]]
    choices: Mapping[str, Mapping[str, tuple[str, ...]]]
    say: Mapping[str, tuple[str, ...]]
    ui: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=len(LANGUAGES))
def words_of(lang: str) -> Words:
    """The words of one of LANGUAGES."""
    data = tomllib.loads((files("fetchly.lab.synthetic") / "words" / f"{lang}.toml").read_text(encoding="utf-8"))
    clauses, choices, say, ui, locales = (data.pop(key) for key in ("clause", "choice", "say", "ui", "locales"))
    return Words(
        lang=lang,
        locales=tuple(locales),
        banks=_alternatives(data),
        clauses=_alternatives(clauses),
        choices={name: _alternatives(codes) for name, codes in choices.items()},
        say=_alternatives(say),
        ui=_alternatives(ui),
    )


def _alternatives(table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(text.split("|")) for key, text in table.items()}
