"""Where streams start in a sequence in; which row of main and speculative streams sees which, and its position, out.

The row order of a whole sequence with streams, which training and the slow reference of the tests use: the main rows
0..length-1 first, then the streams grouped by anchor, in the order of `anchors`, and within a group stream 1..gamma.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def stream_mask(length: int, anchors: Sequence[int], gamma: int) -> NDArray[np.bool_]:
    """The block-causal mask of multi-stream attention (Speculative Streaming, arXiv 2402.11131, equations 1 and 2).

    `anchors` are the positions that streams start from (`range(length)` for all of them), `gamma` the number of streams
    of each. The result has shape (rows, rows), rows = length + len(anchors) * gamma; entry (q, k) says that row q sees
    row k. Main row t sees main rows <= t, never a stream; stream j of anchor t sees main rows <= t and the streams
    1..j of the same anchor. For length 3, anchors 0, 1, 2 and gamma 2 (x: sees):

                        main     of 0   of 1   of 2
                        0 1 2    1 2    1 2    1 2
        main       0    x . .    . .    . .    . .
                   1    x x .    . .    . .    . .
                   2    x x x    . .    . .    . .
        streams    1    x . .    x .    . .    . .
        of 0       2    x . .    x x    . .    . .
        streams    1    x x .    . .    x .    . .
        of 1       2    x x .    . .    x x    . .
        streams    1    x x x    . .    . .    x .
        of 2       2    x x x    . .    . .    x x
    """
    starts = np.asarray(anchors, dtype=np.int64)
    assert gamma >= 1
    assert ((starts >= 0) & (starts < length)).all(), "streams start from positions of the sequence"
    main = np.tri(length, dtype=np.bool_)
    mask = np.zeros((length + len(starts) * gamma,) * 2, dtype=np.bool_)
    mask[:length, :length] = main
    mask[length:, :length] = np.repeat(main[starts], gamma, axis=0)
    mask[length:, length:] = np.kron(np.eye(len(starts), dtype=np.bool_), np.tri(gamma, dtype=np.bool_))
    return mask


def row_positions(length: int, anchors: Sequence[int], gamma: int) -> NDArray[np.int64]:
    """Rotary positions of the rows of `stream_mask`, shape (rows,): t of main row t, t + j of stream j of anchor t."""
    starts = np.asarray(anchors, dtype=np.int64)
    ahead = starts[:, None] + np.arange(1, gamma + 1, dtype=np.int64)
    return np.concatenate((np.arange(length, dtype=np.int64), ahead.ravel()))
