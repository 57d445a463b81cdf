"""What a step left for the LM head in; the logits of the tokens that are asked for out.

A grammar leaves few tokens legal after most nodes, and of a tree only the accepted path is looked at: the head, a fifth
of a small model's weights, is read where a logit is wanted, by tiles of tokens. A logit's bits are the same either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backends.native.library import TILE
from fetchly_llm.backends.native.model import NativeModel


class HeadOutput:
    """See `fetchly_llm.backend.StepOutput`."""

    hidden: Mapping[int, Any] = {}

    def __init__(self, native: NativeModel, vocab_size: int, normed: NDArray[np.float32]) -> None:
        self._native = native
        self._vocab_size = vocab_size
        self._tiles = -(-vocab_size // TILE)
        self._normed = normed  # (rows, hidden_size)

    @property
    def logits(self) -> NDArray[np.float32]:
        """Of all tokens after all rows: the weights are read once."""
        if not len(self._normed):
            return np.empty((0, self._vocab_size), dtype=np.float32)
        logits: NDArray[np.float32] = self._native.score(self._normed, self._tiles)[:, : self._vocab_size]
        return logits

    def scores(self, row: int, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Logits of `tokens`, ascending, after the node of `row`."""
        of_token = tokens // TILE
        is_first = np.empty(len(tokens), dtype=np.bool_)
        is_first[:1] = True
        np.not_equal(of_token[1:], of_token[:-1], out=is_first[1:])
        tiles = of_token[is_first].astype(np.int32)
        found = self._native.score(self._normed[row : row + 1], len(tiles), tiles)[0]
        scores: NDArray[np.float32] = found[(np.cumsum(is_first) - 1) * TILE + tokens % TILE]
        return scores
