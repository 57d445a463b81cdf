"""A tokenizer in; the bytes of every token, and the tokens that begin with or contain given bytes, out."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from llguidance import LLTokenizer
from numpy.typing import NDArray

from fetchly_llm.grammar import bitmask


class Vocabulary:
    """Bytes by token id. Special tokens, and ids above the real vocabulary, have none: no text is spelt with them.

    `text_tokens` is a bitmask row, of shape (ceil(vocab_size / 32),), of the tokens that have bytes.
    """

    def __init__(self, tokenizer: LLTokenizer, eos_token_ids: Sequence[int]) -> None:
        special = frozenset(eos_token_ids)
        self._bytes = tuple(
            b"" if token in special or tokenizer.is_special_token(token) else tokenizer.decode_bytes([token])
            for token in range(tokenizer.vocab_size)
        )
        ranked = sorted((spelling, token) for token, spelling in enumerate(self._bytes) if spelling)
        self._sorted = [spelling for spelling, _ in ranked]
        self._ids = np.array([token for _, token in ranked], dtype=np.int64)
        self.text_tokens = bitmask.allocate(1, len(self._bytes))[0]
        bitmask.set_bits(self.text_tokens, self._ids.tolist())
        self._matching: dict[re.Pattern[bytes], NDArray[np.int64]] = {}
        self._single = frozenset(spelling[0] for spelling in self._sorted if len(spelling) == 1)

    def __len__(self) -> int:
        return len(self._bytes)

    def __getitem__(self, token: int) -> bytes:
        return self._bytes[token]

    def starting_with(self, prefix: bytes) -> NDArray[np.int64]:
        """Ids of the tokens whose bytes start with `prefix` (not empty), in no particular order."""
        low = bisect_left(self._sorted, prefix)
        last = prefix.rstrip(b"\xff")
        high = bisect_left(self._sorted, last[:-1] + bytes([last[-1] + 1]), low) if last else len(self._sorted)
        return self._ids[low:high]

    def matching(self, pattern: re.Pattern[bytes]) -> NDArray[np.int64]:
        """Ids of the tokens in whose bytes `pattern` is found, ascending; kept: a scan takes 20 ms or more."""
        found = self._matching.get(pattern)
        if found is None:
            tokens = [token for token, spelling in enumerate(self._bytes) if pattern.search(spelling)]
            found = self._matching[pattern] = np.array(tokens, dtype=np.int64)
        return found

    @property
    def spellings(self) -> tuple[bytes, ...]:
        """The bytes of every id."""
        return self._bytes

    def can_spell(self, text: str) -> bool:
        """Whether every byte of `text` is a token of its own, so that no prefix of it is a dead end."""
        return self._single.issuperset(text.encode())
