"""Generation requests in, complete texts out: the step loop of grow, forward, verify, commit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from fetchly_llm.backend import Backend, Cache, StepOutput
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import Cancelled, CapacityExceeded, EngineError, OutputLimit, RequestInvalid
from fetchly_llm.grammar.bitmask import allocate, unpack
from fetchly_llm.grammar.compiler import Grammar, GrammarCompiler
from fetchly_llm.grammar.matcher import Matcher
from fetchly_llm.prefix_cache import PrefixCache
from fetchly_llm.request import Generation, GenerationRequest, GenerationStats
from fetchly_llm.sampling import check_sampling, sample_token
from fetchly_llm.speculation.grow import SOURCES, grow
from fetchly_llm.speculation.verify import Verification, needed_rows, verify
from fetchly_llm.tokenizer import Tokenizer

_TREE_ROWS_WITHOUT_WIDTH = 16


@dataclass(slots=True)
class _Clock:
    """Milliseconds of one generation, by what they were spent on."""

    spent: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, since: float) -> None:
        self.spent[name] = self.spent.get(name, 0.0) + 1000.0 * (perf_counter() - since)

    def __getitem__(self, name: str) -> float:
        return self.spent.get(name, 0.0)


class Engine:
    """One model, one sequence at a time; safe to call from several threads (calls take turns).

    `generate` writes a text that is complete under the request's schema, or raises: OutputLimit, Cancelled,
    CapacityExceeded, GrammarStateLimit, SchemaRefused, RequestInvalid.
    """

    def __init__(self, backend: Backend, tokenizer: Tokenizer, config: EngineConfig) -> None:
        self._backend = backend
        self.tokenizer = tokenizer
        self._eos = frozenset(backend.config.eos_token_ids) | frozenset(tokenizer.eos_token_ids)
        rows = backend.width or _TREE_ROWS_WITHOUT_WIDTH
        self.context_length = min(config.context_length, backend.config.max_position - rows)
        self._tree_rows = rows
        self._grammars = GrammarCompiler(tokenizer.json_text, sorted(self._eos), backend.config.vocab_size)
        self._prefixes = PrefixCache(backend, config.prefix_entries, self.context_length + rows)
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def load(cls, folder: Path, config: EngineConfig | None = None) -> Engine:
        """An engine for the model in `folder` (config.json, safetensors, tokenizer.json)."""
        from fetchly_llm.backends.registry import load_backend  # torch is loaded here, not before

        config = config or EngineConfig()
        tokenizer = Tokenizer.load(folder)
        return cls(load_backend(folder, config), tokenizer, config)

    @property
    def identity(self) -> str:
        """Everything but weights, prompt, schema and sampling that the bytes of an answer depend on."""
        return self._backend.identity

    def compile(self, schema: Mapping[str, Any], source: str, allowed_escapes: str | None = None) -> Grammar:
        """The grammar of an enforced decoding schema over a page's text. Raises SchemaRefused."""
        return self._grammars.compile(schema, source, allowed_escapes=allowed_escapes)

    def generate(self, request: GenerationRequest) -> Generation:
        """Write one sequence."""
        with self._lock:
            if self._closed:
                raise RequestInvalid("the engine is closed", hint="open a new client")
            self._check(request)
            return self._generate(request)

    def close(self) -> None:
        """Free the model. Idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._prefixes.clear()
                self._backend.close()

    def _check(self, request: GenerationRequest) -> None:
        check_sampling(request.sampling)
        unknown = [name for name in request.draft if name not in SOURCES]
        if unknown:
            raise RequestInvalid(f"unknown draft source {unknown[0]!r}", hint=f"known: {', '.join(SOURCES)}")
        if not request.prompt_ids or not 0 <= request.shared_prefix <= len(request.prompt_ids):
            raise RequestInvalid("the prompt is empty or shorter than its shared prefix")
        if len(request.prompt_ids) >= self.context_length:
            raise CapacityExceeded(
                f"the prompt has {len(request.prompt_ids)} tokens, the context {self.context_length}",
                hint="lower the page budget or raise context_length",
            )

    def _generate(self, request: GenerationRequest) -> Generation:
        clock = _Clock()
        start = perf_counter()
        matcher = self.compile(request.schema, request.source, request.allowed_escapes).matcher()
        clock.add("compile", start)

        start = perf_counter()
        prompt = self._prefixes.prefill(request.prompt_ids[:-1], request.shared_prefix)
        clock.add("prefill", start)

        start = perf_counter()
        decoding = _Decoding(self, request, matcher, prompt.cache, clock)
        decoding.run()
        clock.add("decode", start)
        stats = GenerationStats(
            prompt_tokens=len(request.prompt_ids),
            cached_prompt_tokens=prompt.cached_tokens,
            output_tokens=len(decoding.tokens),
            decode_steps=decoding.steps,
            tokens_by_source=dict(decoding.by_source),
            compile_ms=clock["compile"],
            prefill_ms=clock["prefill"],
            decode_ms=clock["decode"],
            mask_ms=clock["mask"],
            draft_ms=clock["draft"],
            forward_ms=clock["forward"],
        )
        return Generation(self.tokenizer.decode(decoding.tokens), tuple(decoding.tokens), stats)


class _Decoding:
    """The state of one sequence between prefill and its end."""

    def __init__(
        self, engine: Engine, request: GenerationRequest, matcher: Matcher, cache: Cache, clock: _Clock
    ) -> None:
        self._backend = engine._backend
        self._rows = engine._tree_rows
        self._eos = engine._eos
        self._request = request
        self._matcher = matcher
        self._cache = cache
        self._clock = clock
        self._vocab_size = self._backend.config.vocab_size
        self._bitmask = allocate(1, self._vocab_size)[0]
        room = engine.context_length - len(request.prompt_ids)
        self._limit = min(request.sampling.max_tokens, room)
        self.tokens: list[int] = []
        self.steps = 0
        self.by_source: Counter[str] = Counter()

    def run(self) -> None:
        last = self._request.prompt_ids[-1]
        while True:
            if self._request.should_stop is not None and self._request.should_stop():
                raise Cancelled("the request was cancelled")
            step = self._step(last)
            self.steps += 1
            self.tokens.extend(step.tokens)
            self.by_source.update(step.sources)
            if self._request.on_token is not None:
                for token in step.tokens:
                    self._request.on_token(token)
            if step.stopped:
                return
            if len(self.tokens) >= self._limit:
                raise self._over_limit()
            last = step.path.bonus_token

    def _step(self, last: int) -> Verification:
        start = perf_counter()
        forced = self._matcher.forced_tokens()
        drafted = forced if "forced" in self._request.draft else ()
        tree = grow(last, drafted, min(self._rows, self._limit - len(self.tokens)))
        rows = needed_rows(tree, forced)
        self._clock.add("draft", start)

        start = perf_counter()
        output = self._backend.step(self._cache, tree, rows)
        self._clock.add("forward", start)
        row_of = {node: row for row, node in enumerate(rows)}
        step = verify(
            tree, forced, self._matcher, lambda node, depth: self._draw(output, row_of[node], depth), self._eos
        )
        self._backend.commit(self._cache, step.path.nodes)
        return step

    def _draw(self, output: StepOutput, row: int, depth: int) -> int:
        start = perf_counter()
        self._matcher.fill_bitmask(self._bitmask)
        legal = unpack(self._bitmask, self._vocab_size)
        self._clock.add("mask", start)
        position = len(self._request.prompt_ids) + len(self.tokens) + depth
        return sample_token(output.logits[row], legal, self._request.sampling, position)

    def _over_limit(self) -> EngineError:
        if self._limit < self._request.sampling.max_tokens:
            return CapacityExceeded(
                f"prompt and answer fill the context after {self._limit} output tokens",
                hint="lower the page budget, bound the schema (maxItems, maxLength) or raise context_length",
            )
        return OutputLimit(
            f"the record was not complete after {self._limit} tokens",
            hint="raise max_tokens or bound the schema (maxItems, maxLength)",
        )
