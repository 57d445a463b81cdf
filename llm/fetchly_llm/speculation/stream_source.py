"""What the model's own streams say of the next positions in; candidates for a draft tree out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.speculation.draft import Proposal
from fetchly_llm.speculation.draft_vocabulary import DraftVocabulary
from fetchly_llm.speculation.source import Candidate
from fetchly_llm.streams import StreamDraft

_CANDIDATES = 4
_GRADES = 8  # of a stream's candidates, by their estimates


class StreamSource:
    """Speculative streams (arXiv 2402.11131) as a draft source.

    A stream's draft is made only when it is asked for at the tree's root, where the first stream looks: where a forced
    token comes first, those that look further ahead are right too seldom to pay for a pass.
    With `noise`, candidates are ranked by logit + T * g as the target's are: g(position) is the noise that the target's
    token there will be drawn with, which sample-and-match may share (Gumbel coupling, Daliri et al. 2024, arXiv
    2408.07978), and rejection sampling may not. `vocabulary` is what streams propose of; any token where there is none.
    """

    name = "streams"

    def __init__(
        self,
        prompt_ids: Sequence[int],
        temperature: float,
        noise: Callable[[int], NDArray[np.float64]] | None = None,
        vocabulary: DraftVocabulary | None = None,
    ) -> None:
        self._next = len(prompt_ids)  # the absolute position of the token that comes after the output so far
        self._temperature = temperature
        self._noise = noise if temperature > 0.0 else None
        self._vocabulary = vocabulary
        self._last = prompt_ids[-1]
        self._make: Callable[[], StreamDraft] | None = None
        self._draft: StreamDraft | None = None

    @property
    def vocabulary(self) -> NDArray[np.int64] | None:
        """The tokens that a pass of streams is to choose from, ascending; None for all."""
        return self._vocabulary.tokens if self._vocabulary is not None else None

    def load(self, make: Callable[[], StreamDraft] | None) -> None:
        """`make` runs the streams of the last accepted node; None where they were not run."""
        self._make = make
        self._draft = None

    def extend(self, tokens: Sequence[int]) -> None:
        """The output has grown by `tokens`."""
        self._next += len(tokens)
        self._last = tokens[-1] if tokens else self._last
        if self._vocabulary is not None:
            self._vocabulary.extend(tokens)

    def propose(self, path: Sequence[int]) -> Sequence[Candidate]:
        """The best candidates of the stream that looks at the position after `path`."""
        scored = self._scored(path)
        if scored is None:
            return ()
        tokens, scores, confidence = scored
        if self._noise is not None:
            scores = scores + self._temperature * self._noise(self._next + len(path))[tokens]
        order = np.argsort(-scores, kind="stable")[:_CANDIDATES]
        shares = _softmax(scores)[order]
        # What the confidence says of the best, the others share as their softmax says.
        shares *= confidence / max(float(shares[0]), 1e-9) if confidence < shares[0] else 1.0
        depth = len(path) * _GRADES
        return tuple(
            Candidate(int(tokens[rank]), max(float(share), 1e-6), depth + min(int(share * _GRADES), _GRADES - 1))
            for rank, share in zip(order, shares, strict=True)
        )

    def distribution(self, path: Sequence[int]) -> Proposal | None:
        """What the stream would draw from, for rejection sampling: the softmax of its candidates."""
        scored = self._scored(path)
        if scored is None:
            return None
        tokens, scores, _ = scored
        return Proposal(tokens, _softmax(scores / max(self._temperature, 1e-3)))

    def _scored(self, path: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float64], float] | None:
        if self._make is not None and not path:
            self._draft, self._make = self._make(), None
        if self._draft is None or len(path) >= len(self._draft.tokens):
            return None
        previous = path[-1] if path else self._last
        scores = self._draft.scores(len(path), previous).astype(np.float64)
        return self._draft.tokens[len(path)], scores, float(self._draft.confidence[len(path)])


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares
