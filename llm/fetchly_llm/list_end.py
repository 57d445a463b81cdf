"""A vocabulary and a number of nats in; logits with the ends of lists of strings raised by it, out.

Decoding without sampling goes on with a list while another item is likelier than none, and a small model that is as
unsure after every item writes lists that do not end. Yet "another" is not "another that is right", and an item pays
only where it is right with more than half of the F1 that lists reach (Lipton et al. 2014, arXiv 1402.1892): the end
deserves a head start, which a model's maker measures and notes in its generation_config.json.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class ListEnd:
    """What a model adds to the tokens that end a string and its list at once. `size` is that of the model's logits.

    It is part of the target: plain and drafted decoding see the same logits. Tokens that begin with a quote and a
    bracket are nothing else anywhere in a record, as no string holds a bare quote; a bracket alone may be part of one,
    and is left as it is.
    """

    def __init__(self, spellings: Sequence[bytes], size: int, nats: float) -> None:
        self._bias = np.zeros(size, dtype=np.float32)
        self._bias[[token for token, spelling in enumerate(spellings) if spelling.startswith(b'"]')]] = nats

    def raised(self, scores: NDArray[np.float32], legal: NDArray[np.int64]) -> NDArray[np.float32]:
        """`scores` of the tokens `legal`, those of the ends raised; both of shape (legal,)."""
        raised: NDArray[np.float32] = scores + self._bias[legal]
        return raised
