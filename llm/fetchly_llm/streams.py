"""What a back-end's speculative streams say about the tokens that follow a node: plain arrays, no tensors.

Speculative Streaming (Bhendawade et al. 2024, arXiv 2402.11131): streams 1..gamma start beside the main stream of a
node in the upper layers and predict the tokens two, three, ... positions ahead of it, the one after that being the main
stream's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import RequestInvalid


@dataclass(frozen=True, slots=True)
class StreamAnchor:
    """Where streams start: a node of the last step's tree, and the token that was drawn to follow it.

    `following` is None where it is not yet known (fused: the streams run beside the verification).
    """

    node: int
    following: int | None = None


class Successors(Protocol):
    """How likely one token is to follow another, on top of what the streams say (a Markov head)."""

    def bias(self, stream: int, previous: int) -> NDArray[np.float32]:
        """What to add to `StreamDraft.logits[stream]` where the token before is `previous`; shape (top,)."""


@dataclass(frozen=True, slots=True)
class StreamDraft:
    """What the streams of one anchor propose. Row j is about the token j + 2 positions after the anchor.

    `tokens` (streams, top) are ids, best first; `logits` (streams, top) are theirs, fp32; `confidence` (streams,) is
    the estimated probability, within (0, 1], that the stream's best token is right when everything before it was.
    `successors` is the Markov head, if there is one.
    """

    tokens: NDArray[np.int64]
    logits: NDArray[np.float32]
    confidence: NDArray[np.float32]
    successors: Successors | None = None

    def scores(self, stream: int, previous: int) -> NDArray[np.float32]:
        """Logits of `tokens[stream]` after the token `previous`; shape (top,)."""
        if self.successors is None:
            own: NDArray[np.float32] = self.logits[stream]
            return own
        corrected: NDArray[np.float32] = self.logits[stream] + self.successors.bias(stream, previous)
        return corrected


def choices_of(vocabulary: NDArray[np.int64] | None, top: int, vocab_size: int) -> NDArray[np.int64] | None:
    """The draft vocabulary; None for all tokens, where there is none, and where it has fewer than the `top` that a
    stream names. Raises RequestInvalid where its ids do not ascend in range."""
    if vocabulary is None or len(vocabulary) < top:
        return None
    if not (vocabulary[0] >= 0 and vocabulary[-1] < vocab_size and (np.diff(vocabulary) > 0).all()):
        raise RequestInvalid(f"a draft vocabulary is of ids below {vocab_size}, each once and ascending")
    return vocabulary
