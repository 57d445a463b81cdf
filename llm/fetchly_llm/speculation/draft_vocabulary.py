"""The tokens of a prompt and of the text so far in; the tokens that streams choose from, so that the LM head reads few
of its rows for a guess, out.

A record's values are spans of the page, and its names are the schema's: the next token is one of the prompt's, but
that a value begins without the space that stood before it on the page, or one of JSON's own. Whatever a draft leaves
out, the target still writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

_LITERALS = frozenset((b"null", b"true", b"false", b" null", b" true", b" false"))
_STRUCTURE = frozenset(b' "[]{},:.')


class DraftTokens:
    """Facts about the ordinary tokens of one vocabulary, by what they spell; made once for a tokenizer. `size` is that
    of the model's logits."""

    def __init__(self, ids: Mapping[bytes, int], size: int) -> None:
        self._other = np.arange(size, dtype=np.int64)
        self._always = np.zeros(size, dtype=np.bool_)
        for spelling, token in ids.items():
            other = spelling[1:] if spelling[:1] == b" " else b" " + spelling
            self._other[token] = ids.get(other, token)
            self._always[token] = len(spelling) == 1 or spelling in _LITERALS or _STRUCTURE.issuperset(spelling)

    def vocabulary(self, prompt_ids: Iterable[int]) -> DraftVocabulary:
        """Of a sequence that begins with a prompt."""
        found = DraftVocabulary(self._always.copy(), self._other)
        found.extend(prompt_ids)
        return found


class DraftVocabulary:
    """What may be proposed in one sequence: what `DraftTokens` has of every one, and of its tokens each with a leading
    space and without."""

    def __init__(self, holds: NDArray[np.bool_], other: NDArray[np.int64]) -> None:
        self._holds = holds
        self._other = other
        self._tokens: NDArray[np.int64] | None = None

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Their ids, ascending."""
        if self._tokens is None:
            self._tokens = np.flatnonzero(self._holds)
        return self._tokens

    def extend(self, tokens: Iterable[int]) -> None:
        """The sequence has grown by `tokens`."""
        new = np.fromiter(tokens, dtype=np.int64)
        if not self._holds[new].all() or not self._holds[self._other[new]].all():
            self._holds[new] = self._holds[self._other[new]] = True
            self._tokens = None
