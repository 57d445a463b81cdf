"""A law of the next token in; a back-end without tensors out, which counts what is asked of it and has its own clock.

The law looks at the last two tokens of a row's own path. Streams resemble it, contradict it, or anything between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Cache, StepOutput, WholeOutput
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.engine import Engine
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.tree import DraftTree
from tests.support.tiny_tokenizer import byte_level_json

END_OF_TEXT, END_OF_TURN = 0, 2
EOS_IDS = (END_OF_TEXT, END_OF_TURN)
VOCAB_SIZE = 272  # the logits' width: a few ids above the tokenizer's own 267
UNLIKELY = -1000.0
"""A logit whose token has probability 0 beside any other."""

Law = Callable[[int, int], NDArray[np.float32]]
"""Logits, shape (VOCAB_SIZE,), after a token and the one before it."""


def table_law(seed: int, alphabet: Sequence[int] | None = None, spread: float = 1.0, order: int = 2) -> Law:
    """Normal logits times `spread`, another row for every `order` last tokens; only `alphabet` is likely, if given."""
    table: dict[tuple[int, int], NDArray[np.float32]] = {}

    def law(before: int, last: int) -> NDArray[np.float32]:
        key = (before if order == 2 else 0, last)
        if key not in table:
            drawn = spread * np.random.default_rng([seed, *key]).standard_normal(VOCAB_SIZE)
            row = np.full(VOCAB_SIZE, UNLIKELY, dtype=np.float32)
            likely = range(VOCAB_SIZE) if alphabet is None else alphabet
            row[list(likely)] = drawn[list(likely)]
            table[key] = row
        return table[key]

    return law


def constant_law(probabilities: Mapping[int, float]) -> Law:
    """Every token is drawn from the same `probabilities`, at temperature 1."""
    row = np.full(VOCAB_SIZE, UNLIKELY, dtype=np.float32)
    for token, probability in probabilities.items():
        row[token] = np.log(probability)
    return lambda before, last: row


@dataclass(frozen=True, slots=True)
class ToyStreams:
    """How the streams of a toy model are: `count` of them, each naming its `top` tokens.

    `likeness` 1: the target's own logits after its likeliest continuation; 0: their negation; 1/2: noise. With
    `markov`, a head looks at the token before.
    """

    count: int = 3
    likeness: float = 1.0
    top: int = 4
    confidence: float = 0.9
    markov: bool = False
    seed: int = 0


@dataclass(slots=True)
class ToyCache:
    """The committed tokens of one sequence. `pending` is the tree to commit from, `last` where a commit ended in it."""

    capacity: int
    committed: list[int] = field(default_factory=list)
    pending: DraftTree | None = None
    tree: DraftTree | None = None
    base: int = 0
    last: int | None = None

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.committed)


class _Markov:
    """Adds what `law` says of one token after another."""

    def __init__(self, law: Law, tokens: NDArray[np.int64]) -> None:
        self._law = law
        self._tokens = tokens

    def bias(self, stream: int, previous: int) -> NDArray[np.float32]:
        """Shape (top,)."""
        return self._law(0, previous)[self._tokens[stream]]


class ToyBackend:
    """See `fetchly_llm.backend.Backend`. Every call is checked against the protocol, as the real ones check it.

    `elapsed` is simulated time: c(M) of `curve` for every step of M rows (of `width` rows, where that is fixed), 1 ms
    a step without a curve; and what the curve says of passes of streams.
    """

    def __init__(
        self,
        law: Law,
        *,
        width: int | None = 8,
        branching: bool = True,
        streams: ToyStreams | None = None,
        curve: CostCurve | None = None,
        vocab_size: int = VOCAB_SIZE,
        prefill_chunk: int = 4,
        max_position: int = 100_000,
    ) -> None:
        self.law = law
        self._width = width
        self._branching = branching
        self._streams = streams
        self._curve = curve
        self._chunk = prefill_chunk
        self._config = ModelConfig(
            family="other",
            vocab_size=vocab_size,
            hidden_size=1,
            intermediate_size=1,
            num_layers=1,
            num_heads=1,
            num_kv_heads=1,
            head_dim=1,
            rope_theta=1.0,
            rms_norm_eps=1.0,
            tie_word_embeddings=True,
            qkv_bias=False,
            qk_norm=False,
            max_position=max_position,
            eos_token_ids=EOS_IDS,
        )
        markov = streams is not None and streams.markov
        self._markov = table_law(streams.seed + 1, order=1) if streams is not None and markov else None
        self._drafts: dict[tuple[int, ...], StreamDraft] = {}
        self.steps = self.rows = self.passes = 0
        self.elapsed = 0.0
        self.cache: ToyCache | None = None  # of the last step
        self.trees: list[DraftTree] = []  # of the last hundred steps
        self.closed = False

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def width(self) -> int | None:
        return self._width

    @property
    def branching(self) -> bool:
        return self._branching

    @property
    def prefill_chunk(self) -> int:
        return self._chunk

    @property
    def identity(self) -> str:
        return f"toy/W{self._width}"

    @property
    def streams(self) -> int:
        return self._streams.count if self._streams else 0

    @property
    def stream_parameters(self) -> int:
        return 0

    @property
    def parameters(self) -> int:
        return 0

    @property
    def weight_bytes(self) -> int:
        return 0

    @property
    def threads(self) -> int:
        return 1

    def new_cache(self, capacity: int) -> ToyCache:
        return ToyCache(capacity)

    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        own = _own(cache)
        assert own.length % self._chunk == 0
        assert own.length + len(tokens) <= own.capacity
        self._check_tokens(tokens)
        own.committed += tokens
        own.pending = own.tree = own.last = None

    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        own = _own(cache)
        assert self._width is None or len(tree) <= self._width, "a tree is not wider than the back-end"
        assert own.length + len(tree) <= own.capacity, "a tree fits its cache"
        assert self._branching or list(tree.parents) == list(range(-1, len(tree) - 1)), "only chains are taken"
        self._check_tokens(tree.tokens)
        self.steps += 1
        self.rows += len(tree)
        self.elapsed += self._curve.cost(self._width or len(tree)) if self._curve else 1.0
        self.cache = own
        self.trees = [*self.trees[-99:], tree]
        own.pending, own.tree, own.base, own.last = tree, tree, own.length, None
        logits = np.empty((len(logit_rows), self._config.vocab_size), dtype=np.float32)
        for row, node in enumerate(logit_rows):
            logits[row] = self.law(*self._before(own, node), tree.tokens[node])[: self._config.vocab_size]
        return WholeOutput(logits)

    def speculate(
        self, cache: Cache, anchors: Sequence[StreamAnchor], vocabulary: NDArray[np.int64] | None = None
    ) -> tuple[StreamDraft, ...]:
        own = _own(cache)
        if self._streams is None or own.tree is None:
            raise RequestInvalid("there is no step for streams to start from, or there are no streams")
        self.passes += 1
        self.elapsed += self._curve.stream_cost(len(anchors)) if self._curve else 0.0
        drafts = []
        for anchor in anchors:
            assert 0 <= anchor.node < len(own.tree)
            assert own.last in (None, anchor.node), "after a commit streams start from its last node"
            before = self._before(own, anchor.node)
            drafts.append(self._draft(self._streams, *before, own.tree.tokens[anchor.node], anchor.following))
        return tuple(drafts)

    def commit(self, cache: Cache, path: Sequence[int]) -> None:
        own = _own(cache)
        assert own.pending is not None, "there is a step to commit"
        assert [own.pending.parents[node] for node in path] == [-1, *path[:-1]], "a path starts at the root"
        own.committed += [own.pending.tokens[node] for node in path]
        own.pending, own.last = None, path[-1]

    def fork(self, cache: Cache) -> ToyCache:
        own = _own(cache)
        return ToyCache(own.capacity, list(own.committed))

    def truncate(self, cache: Cache, length: int) -> None:
        own = _own(cache)
        assert 0 <= length <= own.length
        del own.committed[length:]
        own.pending = own.tree = own.last = None

    def close(self) -> None:
        self.closed = True

    def _before(self, cache: ToyCache, node: int) -> tuple[int]:
        """The token before a node of the last step's tree; -1 as 0 where there is none."""
        assert cache.tree is not None
        parent = cache.tree.parents[node]
        if parent >= 0:
            return (cache.tree.tokens[parent],)
        return (cache.committed[cache.base - 1] if cache.base else 0,)

    def _draft(self, streams: ToyStreams, before: int, last: int, following: int | None) -> StreamDraft:
        key = (before, last, -1 if following is None else following)
        if key not in self._drafts:
            first = int(np.argmax(self.law(before, last))) if following is None else following
            path = [last, first]
            rows, names = [], []
            for stream in range(streams.count):
                target = self.law(path[-2], path[-1]).astype(np.float64)
                noise = np.random.default_rng([streams.seed, stream, *path]).standard_normal(len(target))
                weight = 2.0 * streams.likeness - 1.0
                likely = np.flatnonzero(target > UNLIKELY / 2)
                mixed = weight * target[likely] + (1.0 - abs(weight)) * noise[likely]
                best = np.argsort(-mixed, kind="stable")[: streams.top]
                names.append(likely[best])
                rows.append(mixed[best])
                path.append(int(np.argmax(target)))
            tokens = np.array(names, dtype=np.int64)
            confidence = np.full(streams.count, streams.confidence, dtype=np.float32)
            markov = _Markov(self._markov, tokens) if self._markov else None
            self._drafts[key] = StreamDraft(tokens, np.array(rows, dtype=np.float32), confidence, markov)
        return self._drafts[key]

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        assert all(0 <= token < self._config.vocab_size for token in tokens), "every token is in the vocabulary"


def toy_tokenizer() -> Tokenizer:
    """Of 267 ids: the specials, a token for (almost) every byte, and parts of "hello" and " world"."""
    return Tokenizer(byte_level_json(), eos_token_ids=EOS_IDS)


E = TypeVar("E", bound=Engine)


def toy_engine(backend: ToyBackend, curve: CostCurve | None = None, *, kind: type[E] = Engine, **more: Any) -> E:
    """An engine of a toy back-end; one that takes any number of rows has to be given a cost curve."""
    assert backend.width is not None or curve is not None, "a toy's steps are not worth measuring"
    config = EngineConfig(context_length=50_000, prefill_chunk=backend.prefill_chunk, prefix_entries=0)
    return kind(backend, toy_tokenizer(), config, curve=curve, **more)


def straight_curve(slope: float, most: int = 16) -> CostCurve:
    """c(M) = 1 + slope * (M - 1)."""
    rows = tuple(range(1, most + 1))
    return CostCurve(rows, tuple(1.0 + slope * (count - 1) for count in rows))


def _own(cache: Cache) -> ToyCache:
    assert isinstance(cache, ToyCache)
    return cache
