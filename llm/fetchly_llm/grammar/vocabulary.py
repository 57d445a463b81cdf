"""A tokenizer in; the bytes of every token, and the tokens that begin with or contain given bytes, out."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from llguidance import LLTokenizer
from numpy.typing import NDArray

from fetchly_llm.grammar import bitmask

_UTF8 = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}


class Vocabulary:
    """Bytes by token id. Special tokens, and ids above the real vocabulary, have none: no text is spelt with them.

    `text_tokens` is a bitmask row, of shape (ceil(vocab_size / 32),), of the tokens that have bytes; `used_bytes` are
    the bytes that stand in some token.
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
        self._longest = max(map(len, self._sorted), default=0)
        self._matching: dict[re.Pattern[bytes], NDArray[np.int64]] = {}
        self._single = frozenset(spelling[0] for spelling in self._sorted if len(spelling) == 1)
        self._spelt = frozenset(self._sorted)
        self._longest = max(map(len, self._sorted), default=0)
        self.used_bytes = frozenset(b"".join(self._sorted))

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

    def beginnings(self, text: bytes) -> list[int]:
        """Ids of the tokens whose bytes `text` starts with."""
        longest = min(len(text), self._longest)
        return [token for size in range(1, longest + 1) for token in self._by_bytes.get(text[:size], ())]

    @cached_property
    def _by_bytes(self) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for spelling, token in zip(self._sorted, self._ids.tolist(), strict=True):
            found.setdefault(spelling, []).append(token)
        return found

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

    @property
    def is_complete(self) -> bool:
        """Whether every byte of UTF-8 text is a token of its own."""
        return self._single >= _UTF8

    def spells(self, text: str) -> bool:
        """Whether tokens spell `text`, and no way to begin it is a dead end."""
        if self.can_spell(text):
            return True
        raw = text.encode()
        begun = [False] * len(raw) + [True]  # from here on to the end
        steps = [
            [end for end in range(at + 1, min(at + self._longest, len(raw)) + 1) if raw[at:end] in self._spelt]
            for at in range(len(raw))
        ]
        for at in reversed(range(len(raw))):
            begun[at] = any(begun[end] for end in steps[at])
        reached = {0}
        for at, ends in enumerate(steps):
            reached.update(ends if at in reached else ())
        return all(begun[at] for at in reached)
