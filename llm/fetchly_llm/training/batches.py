"""Examples and a seed in; which of them each optimizer step learns from, and in what rectangles, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.training.token_file import TokenExample

PADDING = 0
"""The token behind a sequence: nothing before it sees it."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Sequences of one forward pass. `tokens` (count, longest) is int64, padded at the end; `rows`, flat indices into
    it, are the places whose next token is a choice, `targets` those tokens."""

    tokens: NDArray[np.int64]
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]


class Batches:
    """`size` examples a step; every example once in an epoch, each epoch in an order of its own.

    What a step learns from follows from the seed and its number alone, so that a run can go on where it was stopped.
    """

    def __init__(self, examples: Sequence[TokenExample], size: int, seed: int) -> None:
        self._examples = examples
        self._size = size
        self._seed = seed
        self._epoch = -1
        self._order: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def steps_per_epoch(self) -> float:
        """Optimizer steps in which every example is seen once."""
        return len(self._examples) / self._size

    def step(self, number: int) -> list[TokenExample]:
        """The examples of optimizer step `number`, the first is 0."""
        first = number * self._size
        return [self._example(place) for place in range(first, first + self._size)]

    def _example(self, place: int) -> TokenExample:
        epoch, index = divmod(place, len(self._examples))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng((self._seed, epoch)).permutation(len(self._examples))
        return self._examples[int(self._order[index])]


def micro_batches(examples: Sequence[TokenExample], most_tokens: int) -> Iterator[MicroBatch]:
    """The examples in rectangles of at most `most_tokens` places, padding included; sequences of like length together.

    A sequence that is longer is a rectangle of its own.
    """
    waiting = sorted(examples, key=len, reverse=True)
    while waiting:
        count = max(1, min(len(waiting), most_tokens // len(waiting[0])))
        yield _rectangle(waiting[:count])
        del waiting[:count]


def _rectangle(examples: Sequence[TokenExample]) -> MicroBatch:
    longest = max(map(len, examples))
    tokens = np.full((len(examples), longest), PADDING, dtype=np.int64)
    rows: list[NDArray[np.int64]] = []
    targets: list[NDArray[np.int64]] = []
    for number, example in enumerate(examples):
        tokens[number, : len(example)] = example.tokens
        places = np.flatnonzero(example.chosen)
        rows.append(number * longest + places - 1)
        targets.append(example.tokens[places].astype(np.int64))
    return MicroBatch(tokens, np.concatenate(rows), np.concatenate(targets))
