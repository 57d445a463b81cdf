"""A folder, a family and a width in; the same tiny model twice, plain and drafting with everything there is, out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.config import EngineConfig
from fetchly_llm.engine import Engine
from fetchly_llm.grammar.compiler import GrammarCompiler
from fetchly_llm.grammar.prepare import prepare
from fetchly_llm.request import Generation, GenerationRequest, SamplingParams
from fetchly_llm.tokenizer import Tokenizer
from tests.support.drafters import Drafters
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams, tiny_stream_config

PAGE = """Hazel teapot
Only 48.50 today, was 60.00
by Orla Finch, 1987
- the blue one
- the teapot
- a price, a tea"""
SCHEMAS: dict[str, dict[str, Any] | None] = {
    "shop": {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "x-verbatim": True, "maxLength": 14},
            "price": {"type": ["number", "null"], "minimum": 0, "maximum": 99},
            "kind": {"enum": ["teapot", "teacup", "tea", None]},
            "by": {
                "type": "object",
                "properties": {
                    "who": {"type": ["string", "null"], "x-verbatim": True, "maxLength": 10},
                    "year": {"type": "integer", "minimum": 1900, "maximum": 2030},
                },
                "required": ["who", "year"],
            },
            "sold": {"type": "boolean"},
        },
        "required": ["name", "price", "kind", "by", "sold"],
    },
    "spans": {
        "type": "array",
        "items": {"type": "string", "x-verbatim": True, "maxLength": 12},
        "minItems": 1,
        "maxItems": 5,
    },
    "rows": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "the": {"enum": ["price", "prick", "theirs", None, 7]},
                "n": {"type": ["integer", "null"], "minimum": -9, "maximum": 120},
            },
            "required": ["the", "n"],
        },
        "minItems": 1,
        "maxItems": 3,
    },
    "words": {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 2, "maxItems": 4},
    "count": {"type": "integer", "minimum": 0, "maximum": 99999},
    "text": None,
}
"""By what they have: spans of the page, nested objects, enums with a common beginning, free strings; a number, which
only an end of sequence ends; and text without a grammar."""


def page_request(tokenizer: Tokenizer, schema: str, *, length: int = 120, **changes: Any) -> GenerationRequest:
    """One of SCHEMAS over PAGE; random tokens and then the page are a prompt of `length`; a cut after 64 tokens."""
    sampling = {name: changes.pop(name) for name in ("temperature", "seed", "max_tokens") if name in changes}
    described = SCHEMAS[schema]
    prepared = prepare(described, mode="strict") if described is not None else None
    noise = np.random.default_rng(length).integers(3, 200, length).tolist()
    return GenerationRequest(
        prompt_ids=tuple([*noise, *tokenizer.encode(PAGE + "\n")][-length:]),
        shared_prefix=0,
        schema=prepared.enforced if prepared else None,
        allowed_escapes=prepared.allowed_escapes if prepared else None,
        source=PAGE,
        sampling=SamplingParams(**{"max_tokens": 64, **sampling}),
        **{"draft": (), "cut": True, **changes},
    )


@dataclass(slots=True)
class EnginePair:
    """`plain` has no streams and is asked for no drafts; `drafting` has streams and all adversaries as sources."""

    plain: Engine
    drafting: Engine
    drafters: Drafters
    width: int
    seed: int
    _answers: dict[str, Generation] = field(default_factory=dict)

    def request(self, schema: str, **changes: Any) -> GenerationRequest:
        """`page_request` of the pair's tokenizer."""
        return page_request(self.plain.tokenizer, schema, **changes)

    def answer(self, request: GenerationRequest) -> Generation:
        """Plain decoding's."""
        asked = replace(request, draft=())
        key = repr(asked)
        if key not in self._answers:
            self._answers[key] = self.plain.generate(asked)
        return self._answers[key]

    def drafted(self, request: GenerationRequest) -> Generation:
        """Generate with drafts, hold the result against plain decoding's, and return it."""
        plain = self.answer(request)
        self.drafters.answer = plain.token_ids
        drafted = self.drafting.generate(request)
        assert drafted.token_ids == plain.token_ids
        assert drafted.text == plain.text
        assert drafted.is_complete == plain.is_complete
        stats = drafted.stats
        assert sum(stats.tokens_by_source.values()) == stats.output_tokens == len(plain.token_ids)
        assert set(stats.tokens_by_source) <= {"plain", *request.draft}
        assert set(stats.proposed_by_source) <= set(request.draft)
        assert all(stats.tokens_by_source.get(name, 0) <= count for name, count in stats.proposed_by_source.items())
        assert stats.decode_steps <= stats.rows <= stats.decode_steps * self.width
        assert stats.decode_steps <= plain.stats.decode_steps <= len(plain.token_ids) + ended_by_eos(plain)
        return drafted

    def close(self) -> None:
        """Free both."""
        self.plain.close()
        self.drafting.close()


def ended_by_eos(plain: Generation) -> bool:
    """Whether plain decoding needed one more step, for an end of sequence, than there are tokens."""
    return plain.stats.decode_steps == len(plain.token_ids) + 1


def engine_pair(folder: Path, family: str, width: int, seed: int = 0) -> EnginePair:
    """Random weights of `seed` in `folder`, two layers, and random streams beside them."""
    config = EngineConfig(device="cpu", threads=1, context_length=320, width=width, prefill_chunk=32, prefix_entries=0)
    make_tiny_model(folder, family, seed)
    plain = Engine.load(folder, config)  # before there are streams
    make_tiny_streams(folder, seed, tiny_stream_config(gamma=4))
    backend = plain.backend
    eos = sorted({*backend.config.eos_token_ids, *plain.tokenizer.eos_token_ids})
    vocab_size = backend.config.vocab_size
    drafters = Drafters(GrammarCompiler(plain.tokenizer.json_text, eos, vocab_size), eos, vocab_size)
    drafting = Engine(load_backend(folder, config), plain.tokenizer, config, sources=drafters.makers())
    return EnginePair(plain, drafting, drafters, width, seed)
