"""Tokens in, and what may follow them out, where there is no grammar: any text, ended by an end-of-sequence token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.grammar import bitmask
from fetchly_llm.grammar.vocabulary import Vocabulary


class FreeText:
    """What `Matcher` is under a grammar: the same verbs. Special tokens are no text."""

    def __init__(self, vocabulary: Vocabulary, eos_token_ids: tuple[int, ...]) -> None:
        self._eos = frozenset(eos_token_ids)
        self._legal = vocabulary.text_tokens.copy()
        bitmask.set_bits(self._legal, eos_token_ids)
        self._tokens: list[int] = []
        self._is_ended = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The accepted tokens, end-of-sequence apart."""
        return tuple(self._tokens)

    @property
    def is_terminated(self) -> bool:
        """An end-of-sequence was accepted."""
        return self._is_ended

    def accept(self, token: int) -> None:
        """Append `token`. Raises AssertionError where it is not legal."""
        assert self.is_legal(token), f"token {token} is no text"
        if token in self._eos:
            self._is_ended = True
        else:
            self._tokens.append(token)

    def rollback(self, count: int) -> None:
        """Forget the last `count` accepted tokens, an end-of-sequence with them."""
        assert 0 <= count <= len(self._tokens), f"cannot forget {count} of {len(self._tokens)} tokens"
        self._is_ended = False
        del self._tokens[len(self._tokens) - count :]

    def fill_bitmask(self, row: NDArray[np.int32]) -> None:
        """Write the legal tokens into `row`, int32 of shape (ceil(vocab_size / 32),)."""
        row[:] = self._legal

    def forced_tokens(self) -> tuple[int, ...]:
        """Never anything."""
        return ()

    def is_legal(self, token: int) -> bool:
        """Whether the mask has `token`."""
        return not self._is_ended and bitmask.is_set(self._legal, token)
