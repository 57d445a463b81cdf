"""The states that a step left at some nodes in; what the speculative streams from those nodes propose out.

The pass itself is source/streams.hpp's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backends.native.kv_cache import KeyValueCache, StreamStart
from fetchly_llm.backends.native.library import MOST_ROWS, StreamPass
from fetchly_llm.backends.native.model import NativeModel, address
from fetchly_llm.backends.native.rotary import RotaryTable
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.sampling import NonFiniteLogits
from fetchly_llm.stream_config import StreamConfig
from fetchly_llm.streams import StreamAnchor, StreamDraft, choices_of


class StreamDecoder:
    """Runs the streams of a model that has been given them."""

    def __init__(self, native: NativeModel, model: ModelConfig, config: StreamConfig) -> None:
        self._native = native
        self._model = model
        self.config = config
        self._taps = len({config.first_layer, *config.taps})

    def room_for_states(self, rows: int) -> NDArray[np.float32]:
        """For what a step of so many rows leaves: the residual stream after some layers, (taps, rows, hidden_size)."""
        return np.empty((self._taps, rows, self._model.hidden_size), dtype=np.float32)

    def drafts(
        self,
        cache: KeyValueCache,
        start: StreamStart,
        anchors: Sequence[StreamAnchor],
        rotary: RotaryTable,
        vocabulary: NDArray[np.int64] | None,
    ) -> tuple[StreamDraft, ...]:
        """One draft for each anchor, of tokens of `vocabulary`, in one pass where their streams are within MOST_ROWS.

        Raises RequestInvalid for a vocabulary that is not one, NonFiniteLogits where what streams propose is no number.
        """
        chosen = choices_of(vocabulary, self.config.top, self._model.vocab_size)
        choices = None if chosen is None else chosen.astype(np.int32)
        at_once = MOST_ROWS // self.config.gamma
        passes = [anchors[first : first + at_once] for first in range(0, len(anchors), at_once)]
        return tuple(draft for part in passes for draft in self._run(cache, start, part, rotary, choices))

    def _run(
        self,
        cache: KeyValueCache,
        start: StreamStart,
        anchors: Sequence[StreamAnchor],
        rotary: RotaryTable,
        choices: NDArray[np.int32] | None,
    ) -> list[StreamDraft]:
        config, count = self.config, len(anchors)
        nodes = np.array([anchor.node for anchor in anchors], dtype=np.int32)
        following = np.array([-1 if a.following is None else a.following for a in anchors], dtype=np.int32)
        parents = np.array(start.tree.parents, dtype=np.int32) if start.last is None else None
        tokens = np.empty((count, config.gamma, config.top), dtype=np.int64)
        logits = np.empty(tokens.shape, dtype=np.float32)
        confidence = np.empty(tokens.shape[:2], dtype=np.float32)
        factors = np.empty((*tokens.shape, config.markov_rank), dtype=np.float32)
        one_pass = StreamPass(
            cache.view,
            address(start.states),
            address(parents),
            address(nodes),
            address(following),
            address(choices),
            address(tokens),
            address(logits),
            address(confidence),
            address(factors),
            address(rotary.cosine),
            address(rotary.sine),
            rotary.positions,
            cache.length,
            len(start.tree),
            count,
            0 if choices is None else len(choices),
        )
        self._native.speculate(one_pass)
        if not all(np.isfinite(found).all() for found in (logits, confidence, factors)):
            raise NonFiniteLogits(
                "what the speculative streams propose is not finite",
                hint="check the model's weights and its streams file, or draft without streams",
            )
        heads = [_Successors(self._native, self._model, own) if config.markov_rank else None for own in factors]
        return [StreamDraft(*parts) for parts in zip(tokens, logits, confidence, heads, strict=True)]


class _Successors:
    """The Markov head of one anchor's streams. See `fetchly_llm.streams.Successors`."""

    def __init__(self, native: NativeModel, model: ModelConfig, factors: NDArray[np.float32]) -> None:
        self._native = native
        self._vocab_size = model.vocab_size
        self._factors = factors  # (gamma, top, rank): gate and next token together

    def bias(self, stream: int, previous: int) -> NDArray[np.float32]:
        """What `previous` adds to the logits of row `stream`; shape (top,). Raises RequestInvalid for no token."""
        if not 0 <= previous < self._vocab_size:
            raise RequestInvalid(f"token {previous} is outside the model's vocabulary of {self._vocab_size}")
        factors = self._factors[stream]
        bias: NDArray[np.float32] = factors @ self._native.successor(previous, factors.shape[-1])
        return bias
