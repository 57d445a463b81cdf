"""A vocabulary size in, packed rows of legal-token bits out.

Layout: bit `token % 32` of the int32 word `token // 32` says that `token` is legal (little end first), which is the
layout of llguidance and xgrammar, so that a row can go to a native kernel unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 32


def words(vocab_size: int) -> int:
    """int32 words in a row: ceil(vocab_size / 32)."""
    return -(-vocab_size // WORD_BITS)


def allocate(rows: int, vocab_size: int) -> NDArray[np.int32]:
    """A bitmask of shape (rows, words), nothing legal."""
    return np.zeros((rows, words(vocab_size)), dtype=np.int32)


def is_set(row: NDArray[np.int32], token: int) -> bool:
    """Whether `token` is legal in `row`, of shape (words,). A token outside the row is not."""
    if not 0 <= token < row.shape[0] * WORD_BITS:
        return False
    return bool((int(row[token // WORD_BITS]) >> (token % WORD_BITS)) & 1)


def set_bits(row: NDArray[np.int32], tokens: Sequence[int]) -> None:
    """Make `tokens` legal in `row`, of shape (words,)."""
    view = row.view(np.uint32)
    for token in tokens:
        view[token // WORD_BITS] |= np.uint32(1 << (token % WORD_BITS))


def clear_bits(row: NDArray[np.int32], tokens: NDArray[np.int64]) -> None:
    """Make `tokens` (any order, repetitions allowed) illegal in `row`, of shape (words,)."""
    keep = ~(np.uint32(1) << (tokens % WORD_BITS).astype(np.uint32))
    np.bitwise_and.at(row.view(np.uint32), tokens // WORD_BITS, keep)


def legal_among(row: NDArray[np.int32], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of `tokens` that are legal in `row`, in the given order."""
    bits = (row.view(np.uint32)[tokens // WORD_BITS] >> (tokens % WORD_BITS).astype(np.uint32)) & 1
    chosen: NDArray[np.int64] = tokens[bits.astype(bool)]
    return chosen


def legal_tokens(row: NDArray[np.int32]) -> NDArray[np.int64]:
    """Every legal token of `row`, ascending."""
    return np.flatnonzero(unpack(row, row.shape[0] * WORD_BITS)).astype(np.int64)


def unpack(row: NDArray[np.int32], vocab_size: int) -> NDArray[np.bool_]:
    """The first `vocab_size` bits of `row` as booleans."""
    octets = row.astype("<i4", copy=False).view(np.uint8)
    return np.unpackbits(octets, count=vocab_size, bitorder="little").view(np.bool_)
