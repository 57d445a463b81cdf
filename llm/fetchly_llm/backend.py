"""The step interface: token ids and a draft tree in, logits out. Every back-end implements it, bit-stable per path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.config import ModelConfig
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree


class StepOutput(Protocol):
    """What one forward pass over a draft tree gives; row r belongs to node `logit_rows[r]`."""

    @property
    def logits(self) -> NDArray[np.float32]:
        """Of every token: (len(logit_rows), vocab_size), fp32."""

    @property
    def hidden(self) -> Mapping[int, Any]:
        """By tapped layer, the back-end's own array of shape (nodes, hidden_size)."""

    def scores(self, row: int, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """The logits of `tokens` (ascending) in `row`, fp32: the same bits as in `logits`, and less work for few."""


@dataclass(frozen=True, slots=True)
class WholeOutput:
    """A `StepOutput` of a pass that has computed all logits."""

    logits: NDArray[np.float32]
    hidden: Mapping[int, Any] = field(default_factory=dict)

    def scores(self, row: int, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Shape (len(tokens),)."""
        found: NDArray[np.float32] = self.logits[row, tokens]
        return found


class Cache(Protocol):
    """The keys and values of one sequence, owned by the back-end that made it."""

    @property
    def length(self) -> int:
        """Committed tokens: those whose keys and values are written for good."""

    @property
    def capacity(self) -> int:
        """Positions that fit, the rows of a draft tree included."""


class Backend(Protocol):
    """One way to run the model.

    The bits of a node's logits depend on the tokens of its own path alone: not on the number, place or contents of
    other rows, nor on where in the cache its ancestors lie. `width` is the fixed number of rows that every step is
    padded to, or None where bits do not depend on the number of rows. `prefill_chunk` is C: prefill runs in chunks
    that start at absolute multiples of C and are padded to C, so that a cold and a warm start give the same bits.
    `identity` names everything about the back-end that an output's bytes depend on.
    """

    @property
    def config(self) -> ModelConfig:
        """Shape of the model."""

    @property
    def width(self) -> int | None:
        """Rows of every step, or None for any number."""

    @property
    def branching(self) -> bool:
        """Whether trees may branch; else only chains are taken."""

    @property
    def prefill_chunk(self) -> int:
        """C, in tokens."""

    @property
    def identity(self) -> str:
        """For cache keys and reports."""

    @property
    def streams(self) -> int:
        """How many speculative streams the model has; 0 for none."""

    @property
    def stream_parameters(self) -> int:
        """Parameters that the streams add to the model's own: embeddings, insertion layer, adapters, heads."""

    @property
    def parameters(self) -> int:
        """The model's own parameters, streams apart."""

    @property
    def weight_bytes(self) -> int:
        """Memory of those."""

    @property
    def threads(self) -> int:
        """Of the processor, that a pass runs on."""

    def new_cache(self, capacity: int) -> Cache:
        """An empty cache for `capacity` positions. Raises CapacityExceeded above the model's limit."""

    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Append prompt tokens; `cache.length` must be a multiple of C before the call."""

    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        """One forward pass over all nodes of `tree`, whose root is the first uncommitted token.

        Writes nothing that a later `commit` does not claim; `cache.length` is unchanged.
        """

    def speculate(
        self, cache: Cache, anchors: Sequence[StreamAnchor], vocabulary: NDArray[np.int64] | None = None
    ) -> tuple[StreamDraft, ...]:
        """Run the streams from `anchors`, one draft each. Changes no bit of the main stream and nothing in the cache.

        They propose of the tokens `vocabulary`, ascending; of all where there is none, or it has fewer than a stream
        names. Allowed between a step and the next: before `commit` from any node of its tree, after it from the last
        node of the committed path. Raises RequestInvalid otherwise, and where the model has no streams.
        """

    def commit(self, cache: Cache, path: Sequence[int]) -> None:
        """Make the nodes `path` (root first, as of the last step) the next committed tokens.

        Rows are moved only where a node's slot differs from its final position.
        """

    def fork(self, cache: Cache) -> Cache:
        """An independent cache with the same committed tokens and capacity."""

    def truncate(self, cache: Cache, length: int) -> None:
        """Forget everything after the first `length` committed tokens."""

    def close(self) -> None:
        """Free the weights. Idempotent."""
