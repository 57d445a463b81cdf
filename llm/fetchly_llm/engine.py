"""Generation requests in, complete texts out: the model, its grammars, its prompts and its draft sources together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from fetchly_llm.backend import Backend
from fetchly_llm.config import EngineConfig
from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.decoding import Decoding, DecodingSetup, Masking
from fetchly_llm.draft_choice import AUTO, PLAIN_CHOICE, StreamGain, choose, read_gain
from fetchly_llm.errors import CapacityExceeded, RequestInvalid
from fetchly_llm.grammar.compiler import Grammar, GrammarCompiler
from fetchly_llm.grammar.structure import in_values
from fetchly_llm.metrics import PLAIN, Clock, GenerationStats, Share
from fetchly_llm.prefix_cache import PrefilledPrompt, PrefixCache
from fetchly_llm.request import Generation, GenerationRequest, StreamMode, Verify
from fetchly_llm.safetensors_file import read_metadata
from fetchly_llm.sampling import GumbelNoise, check_sampling
from fetchly_llm.speculation.calibration import Calibration
from fetchly_llm.speculation.draft_vocabulary import DraftTokens
from fetchly_llm.speculation.grow import FORCED
from fetchly_llm.speculation.line_ends import LineEnds
from fetchly_llm.speculation.lookup import LookupSource
from fetchly_llm.speculation.source import DraftSource
from fetchly_llm.speculation.stream_source import StreamSource
from fetchly_llm.step_cost import load_or_measure
from fetchly_llm.stream_config import STREAMS_FILE
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.turns import Turns

SOURCES = (FORCED, LookupSource.name, StreamSource.name)
"""Names of the draft sources that exist."""

SourceMaker = Callable[[GenerationRequest], DraftSource]


class Engine:
    """One model, one sequence at a time; safe to call from several threads (calls take turns).

    `generate` writes a text that is complete under the request's schema, or raises: OutputLimit, Cancelled,
    CapacityExceeded, GrammarStateLimit, SchemaRefused, RequestInvalid. `curve` is what steps cost, for back-ends whose
    bits do not depend on the number of rows; it is measured where it is not given. `gain` is what the model's streams
    have gained elsewhere. `sources` are further draft sources by name.
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        config: EngineConfig,
        *,
        curve: CostCurve | None = None,
        gain: StreamGain | None = None,
        sources: Mapping[str, SourceMaker] | None = None,
    ) -> None:
        self._backend = backend
        self.tokenizer = tokenizer
        self._eos = frozenset(backend.config.eos_token_ids) | frozenset(tokenizer.eos_token_ids)
        self._curve = curve or load_or_measure(backend) if backend.width is None else None
        self.draft_choice = choose(backend.streams, gain, self._curve)
        """What the draft source `auto` stands for."""
        # Tokens of rejection sampling follow from the trees, which a measurement must not decide.
        self._rejection_curve = curve or CostCurve.typical(self._curve.most) if self._curve else None
        rows = backend.width or (self._curve.most if self._curve else 1)
        self.context_length = min(config.context_length, backend.config.max_position - rows)
        self._tree_rows = rows
        self._grammars = GrammarCompiler(tokenizer.json_text, sorted(self._eos), backend.config.vocab_size)
        self._prefixes = PrefixCache(backend, config.prefix_entries, self.context_length + rows)
        # By draft sources, as each set of them meets other places.
        self._calibrations: defaultdict[tuple[str, ...], Calibration] = defaultdict(Calibration)
        self._other_sources = dict(sources or {})
        self._turns = Turns("the engine")
        self._closed = False

    @classmethod
    def load(cls, folder: Path, config: EngineConfig | None = None) -> Engine:
        """An engine for the model in `folder` (config.json, safetensors, tokenizer.json)."""
        from fetchly_llm.backends.registry import load_backend  # torch is loaded here, not before

        config = config or EngineConfig()
        tokenizer = Tokenizer.load(folder)
        backend = load_backend(folder, config)
        streams = config.streams_file or folder / STREAMS_FILE
        gain = read_gain(read_metadata(streams)) if backend.streams else None
        return cls(backend, tokenizer, config, gain=gain)

    @property
    def backend(self) -> Backend:
        """What runs the model."""
        return self._backend

    @property
    def tree_rows(self) -> int:
        """The most nodes that a draft tree has, its root included."""
        return self._tree_rows

    @property
    def identity(self) -> str:
        """Everything but weights, prompt, schema and sampling that the bytes of an answer depend on."""
        return self._backend.identity

    def compile(self, schema: Mapping[str, Any], source: str, allowed_escapes: str | None = None) -> Grammar:
        """The grammar of an enforced decoding schema over a page's text. Raises SchemaRefused."""
        return self._grammars.compile(schema, source, allowed_escapes=allowed_escapes)

    def prefill(self, prompt_ids: Sequence[int], shared_prefix: int = 0) -> PrefilledPrompt:
        """A cache that holds all of a prompt but its last token, for `generate` to fork as often as is wished."""
        with self._turns.take():
            self._check_open()
            self._check_prompt(prompt_ids, shared_prefix)
            return self._prefixes.prefill(prompt_ids[:-1], shared_prefix)

    def generate(self, request: GenerationRequest, prefilled: PrefilledPrompt | None = None) -> Generation:
        """Write one sequence; from a fork of `prefilled`, where it is given and holds the request's prompt."""
        with self._turns.take():
            self._check_open()
            if request.draft == (AUTO,):
                # Tokens of rejection sampling follow from the trees, which a measurement must not decide.
                sources = self.draft_choice.sources if request.verify == "match" else PLAIN_CHOICE
                request = replace(request, draft=sources)
            self._check(request)
            if prefilled is not None and prefilled.cache.length != len(request.prompt_ids) - 1:
                raise RequestInvalid("the prefilled cache is not that of the request's prompt")
            return self._generate(request, prefilled)

    def close(self) -> None:
        """Free the model. Idempotent."""
        with self._turns.take():
            if not self._closed:
                self._closed = True
                self._prefixes.clear()
                self._backend.close()

    @cached_property
    def _line_ends(self) -> LineEnds:
        return LineEnds(self._grammars.spellings)

    @cached_property
    def _draft_tokens(self) -> DraftTokens:
        return DraftTokens(self.tokenizer.token_of_spelling, self._backend.config.vocab_size)

    def _check_open(self) -> None:
        if self._closed:
            raise RequestInvalid("the engine is closed", hint="open a new client")

    def _check(self, request: GenerationRequest) -> None:
        check_sampling(request.sampling)
        if AUTO in request.draft:
            raise RequestInvalid("auto stands alone", hint="name it alone, or draft sources")
        known = (*SOURCES, *self._other_sources)
        unknown = [name for name in request.draft if name not in known]
        if unknown:
            raise RequestInvalid(f"unknown draft source {unknown[0]!r}", hint=f"{AUTO}, or some of: {', '.join(known)}")
        for name, value, allowed in (
            ("verify", request.verify, get_args(Verify)),
            ("stream_mode", request.stream_mode, get_args(StreamMode)),
        ):
            if value not in allowed:
                raise RequestInvalid(f"{name} is {value!r}", hint=f"known: {', '.join(allowed)}")
        if StreamSource.name in request.draft and not self._backend.streams:
            raise RequestInvalid("this model has no speculative streams", hint="draft without streams")
        self._check_prompt(request.prompt_ids, request.shared_prefix)

    def _check_prompt(self, prompt_ids: Sequence[int], shared_prefix: int) -> None:
        if not prompt_ids or not 0 <= shared_prefix <= len(prompt_ids):
            raise RequestInvalid("the prompt is empty or shorter than its shared prefix")
        if len(prompt_ids) >= self.context_length:
            raise CapacityExceeded(
                f"the prompt has {len(prompt_ids)} tokens, the context {self.context_length}",
                hint="lower the page budget or raise context_length",
            )

    def _generate(self, request: GenerationRequest, prefilled: PrefilledPrompt | None) -> Generation:
        clock = Clock()
        with clock.measure("compile"):
            self._matcher(request)  # compiled now, and kept
        with clock.measure("prefill"):
            if prefilled is None:
                prompt = self._prefixes.prefill(request.prompt_ids[:-1], request.shared_prefix)
            else:
                prompt = PrefilledPrompt(self._backend.fork(prefilled.cache), len(request.prompt_ids) - 1)
        with clock.measure("decode"):
            noise = GumbelNoise(request.sampling, self._backend.config.vocab_size)
            setup = DecodingSetup(
                backend=self._backend,
                eos_token_ids=self._eos,
                rows=self._tree_rows,
                curve=self._curve if request.verify == "match" else self._rejection_curve,
                calibration=self._calibration(request),
                room=self.context_length - len(request.prompt_ids),
            )
            with clock.measure("draft"):
                sources = self._sources(request, noise)
            decoding = Decoding(setup, request, lambda: self._matcher(request), prompt.cache, sources, noise, clock)
            decoding.run()
        text = self.tokenizer.decode(decoding.tokens)
        stats = self._stats(request, prompt, decoding, clock)
        return Generation(text, tuple(decoding.tokens), stats, decoding.is_complete)

    def _matcher(self, request: GenerationRequest) -> Masking:
        if request.schema is None:
            return self._grammars.free_text()
        return self.compile(request.schema, request.source, request.allowed_escapes).matcher()

    def _calibration(self, request: GenerationRequest) -> Calibration:
        """What was learnt from earlier requests; nothing for rejection sampling, whose tokens follow from the trees."""
        return self._calibrations[request.draft] if request.verify == "match" else Calibration()

    def _sources(self, request: GenerationRequest, noise: GumbelNoise) -> list[DraftSource]:
        sources: list[DraftSource] = []
        for name in dict.fromkeys(request.draft):
            if name == LookupSource.name:
                ends = self._line_ends
                sources.append(
                    LookupSource(request.prompt_ids, ends.keys, ends if request.schema is not None else None)
                )
            elif name == StreamSource.name:
                shared = noise if request.verify == "match" else None
                few = self._draft_tokens.vocabulary(request.prompt_ids) if request.schema is not None else None
                sources.append(StreamSource(request.prompt_ids, request.sampling.temperature, shared, few))
            elif name != FORCED:
                sources.append(self._other_sources[name](request))
        return sources

    def _stats(
        self, request: GenerationRequest, prompt: PrefilledPrompt, decoding: Decoding, clock: Clock
    ) -> GenerationStats:
        structure, values = Share(), Share()
        if request.schema is not None:
            spellings = [self._grammars.spellings[token] for token in decoding.tokens]
            flags = in_values(b"".join(spellings))
            at = 0
            for spelling, source in zip(spellings, decoding.token_sources, strict=True):
                hit = Share(int(source != PLAIN), 1)
                if flags[at : at + len(spelling)].any():
                    values += hit
                else:
                    structure += hit
                at += len(spelling)
        tally = decoding.tally
        return GenerationStats(
            prompt_tokens=len(request.prompt_ids),
            cached_prompt_tokens=prompt.cached_tokens,
            output_tokens=len(decoding.tokens),
            decode_steps=tally.steps,
            rows=tally.rows,
            moved_rows=tally.moved_rows,
            stream_passes=tally.stream_passes,
            tokens_by_source=dict(Counter(decoding.token_sources)),
            proposed_by_source=dict(tally.proposed),
            acceptance_by_depth=tuple(tally.by_depth),
            structure=structure,
            values=values,
            compile_ms=clock["compile"],
            prefill_ms=clock["prefill"],
            ttft_ms=clock.first_token_ms,
            decode_ms=clock["decode"],
            draft_ms=clock["draft"] - (clock["stream"] if request.stream_mode == "deferred" else 0.0),
            forward_ms=clock["forward"] + clock["head"],
            stream_ms=clock["stream"],
            mask_ms=clock["mask"],
            verify_ms=clock["verify"] - clock["mask"] - clock["head"],
            commit_ms=clock["commit"],
        )
