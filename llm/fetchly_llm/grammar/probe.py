"""A small schema goes in; whether llguidance's compiler takes it, and its reason if not, come out."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": False}


def refusal(schema: dict[str, Any]) -> str | None:
    """None when llguidance compiles `schema` and has a first mask for it, else the first line of its reason."""
    return _refusal(json.dumps(schema, sort_keys=True))


@lru_cache(maxsize=4096)
def _refusal(text: str) -> str | None:
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(text, overrides=LAYOUT)
    except ValueError as error:  # its JSON parser has limits of its own, on numbers and on nesting
        return str(error)[:160]
    matcher = LLMatcher(_tokenizer(), grammar, log_level=0)
    if not matcher.is_error():
        matcher.compute_bitmask()
    return (matcher.get_error() or "refused").splitlines()[0][:160] if matcher.is_error() else None


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")
