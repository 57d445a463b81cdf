"""A tokenizer and an expected answer in; a back-end whose logits spell that answer, without any weights, out.

What is left of a decode step is drafting, verification and the grammar: a bench of those takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Cache, StepOutput, WholeOutput
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import CapacityExceeded, RequestInvalid
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tokenizer import Tokenizer
from fetchly_llm.tree import DraftTree

_OFF_PATH = -1
# Far enough apart that no sampling noise (at most some 50 times the temperature) can reorder them.
_FAR, _PER_BYTE, _FIRST = np.float32(-1e6), np.float32(1e3), np.float32(1e6)


class ReplayCache:
    """The committed tokens of one sequence, each as the number of bytes of the answer that are written after it.

    `prompt` of them were prefilled; the prompt's last token is the root of the first step.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.prompt = 0
        self.written: list[int] = []
        self.pending: list[int] = []

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.written)


@dataclass(frozen=True, slots=True)
class _Favourites:
    """The tokens that may follow, and their logits; all others are far below."""

    tokens: NDArray[np.int64]
    logits: NDArray[np.float32]


class ReplayBackend:
    """Writes what `expect` was given. See `fetchly_llm.backend.Backend`.

    After a path that spells a prefix of the answer, the best token is the first of the tokenizer's own encoding of the
    rest, then come other tokens that the rest begins with, longer ones first; an end of sequence where nothing is
    left. So whatever spelling a grammar asks for is followed. `StepOutput.logits` is valid until the next step.
    """

    branching = True
    streams = 0
    stream_parameters = 0
    parameters = 0
    weight_bytes = 0
    threads = 1

    def __init__(self, config: ModelConfig, tokenizer: Tokenizer, engine: EngineConfig) -> None:
        if engine.width < 1:
            raise RequestInvalid(f"width must be at least 1, not {engine.width}")
        self.config = config
        self.width = engine.width
        self.prefill_chunk = engine.prefill_chunk
        self._tokenizer = tokenizer
        self._eos = np.array(sorted({*config.eos_token_ids, *tokenizer.eos_token_ids}), dtype=np.int64)
        ordinary = [token for token in range(tokenizer.vocab_size) if token not in tokenizer.special_token_ids]
        self._spelling = {token: tokenizer.decode_bytes((token,)) for token in ordinary}
        self._token = {spelling: token for token, spelling in reversed(self._spelling.items()) if spelling}
        self._longest = max(map(len, self._token))
        self._logits = np.full((self.width, config.vocab_size), _FAR, dtype=np.float32)
        self._raised: list[_Favourites] = []
        self.expect("")

    @property
    def identity(self) -> str:
        """For reports."""
        return f"replay/W{self.width}"

    def expect(self, answer: str) -> None:
        """What the next sequences are to be."""
        self._answer = answer.encode()
        self._favourites: dict[int, _Favourites] = {}

    def new_cache(self, capacity: int) -> ReplayCache:
        """An empty cache."""
        return ReplayCache(capacity)

    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Append prompt tokens, whatever they are."""
        own = _own(cache)
        own.written += [0] * len(tokens)
        own.prompt = len(own.written)

    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        """Follow the answer along every path. Raises RequestInvalid for a tree of more than W nodes."""
        own = _own(cache)
        if len(tree) > self.width:
            raise RequestInvalid(f"a tree of {len(tree)} nodes is wider than the engine's {self.width} rows")
        if own.length + len(tree) > own.capacity:
            raise CapacityExceeded(f"{len(tree)} more tokens do not fit a cache of {own.capacity}")
        first = own.length == own.prompt
        own.pending = [0 if first else self._after(own.written[-1], tree.tokens[0])]
        for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
            own.pending.append(self._after(own.pending[parent], token))
        for row, favourites in enumerate(self._raised):
            self._logits[row, favourites.tokens] = _FAR
        self._raised = [self._following(own.pending[node]) for node in logit_rows]
        for row, favourites in enumerate(self._raised):
            self._logits[row, favourites.tokens] = favourites.logits
        return WholeOutput(self._logits[: len(logit_rows)])

    def speculate(
        self, cache: Cache, anchors: Sequence[StreamAnchor], vocabulary: NDArray[np.int64] | None = None
    ) -> tuple[StreamDraft, ...]:
        """Raises RequestInvalid: there are no streams."""
        raise RequestInvalid("a replay has no streams")

    def commit(self, cache: Cache, path: Sequence[int]) -> None:
        """Keep the nodes `path` of the last step."""
        own = _own(cache)
        own.written += [own.pending[node] for node in path]
        own.pending = []

    def fork(self, cache: Cache) -> ReplayCache:
        """An independent cache with the same committed tokens."""
        own = _own(cache)
        twin = ReplayCache(own.capacity)
        twin.prompt, twin.written = own.prompt, list(own.written)
        return twin

    def truncate(self, cache: Cache, length: int) -> None:
        """Forget everything after the first `length` committed tokens."""
        own = _own(cache)
        del own.written[length:]
        own.prompt = min(own.prompt, length)

    def close(self) -> None:
        """There is nothing to free."""

    def _after(self, written: int, token: int) -> int:
        spelling = self._spelling.get(token, b"")
        if written == _OFF_PATH or not spelling or not self._answer.startswith(spelling, written):
            return _OFF_PATH
        return written + len(spelling)

    def _following(self, written: int) -> _Favourites:
        if written not in self._favourites:
            self._favourites[written] = self._found(written)
        return self._favourites[written]

    def _found(self, written: int) -> _Favourites:
        if written == _OFF_PATH:
            return _Favourites(np.empty(0, np.int64), np.empty(0, np.float32))
        rest = self._answer[written:]
        if not rest:
            return _Favourites(self._eos, np.full(len(self._eos), _FIRST))
        starts = (rest[:size] for size in range(1, min(self._longest, len(rest)) + 1))
        logits = {self._token[start]: _PER_BYTE * len(start) for start in starts if start in self._token}
        with suppress(UnicodeDecodeError):  # within a character there is no encoding of the rest, but there are bytes
            best = self._tokenizer.encode(rest.decode())[0]
            if self._after(written, best) != _OFF_PATH:
                logits[best] = _FIRST
        return _Favourites(np.array(list(logits), np.int64), np.array(list(logits.values()), np.float32))


def _own(cache: Cache) -> ReplayCache:
    if not isinstance(cache, ReplayCache):
        raise RequestInvalid(f"a {type(cache).__name__} is not a cache of this back-end")
    return cache
