"""A back-end in; what its steps cost by their number of rows, beside the limit that memory sets, out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Backend, Cache
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.tree import DraftTree

ROWS = (1, 2, 4, 8, 16)
_READ_BYTES = 1 << 28  # more than caches hold
_PREFILLS = 3


@dataclass(frozen=True, slots=True)
class StepRow:
    """Steps of `rows` rows after `context` tokens, medians. The limit is the time in which the weights, at one byte a
    parameter, and the context's keys and values, at two bytes a number, are read from memory at `bandwidth_gb_s`."""

    bench: str
    backend: str
    rows: int
    context: int
    ms: float
    ratio_to_one_row: float
    bandwidth_gb_s: float
    limit_ms: float
    ratio_to_limit: float
    prefill_tokens_per_s: float
    threads: int

    def line(self) -> dict[str, Any]:
        """As one printed line."""
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}


def measure_steps(
    backend: Backend, context: int = 1024, rows: Sequence[int] = ROWS, rounds: int = 15
) -> tuple[StepRow, ...]:
    """A row for each number of rows; where steps are padded, all within the width cost the same.

    Rounds are interleaved, so that all numbers meet the same machine; the first one is not counted. Raises
    RequestInvalid where context or rows are beyond the back-end.
    """
    counts = sorted({1, *rows})
    most = backend.width or counts[-1]
    if counts[0] < 1 or counts[-1] > most:
        raise RequestInvalid(f"a step has from 1 to {most} rows here, not {counts[0] if counts[0] < 1 else counts[-1]}")
    config = backend.config
    cache = backend.new_cache(context + most)
    prompt = [token % config.vocab_size for token in range(context)]
    trees = {count: DraftTree.chain([token % config.vocab_size for token in range(count)], "bench") for count in counts}
    prefills = [_prefill(backend, cache, prompt) for _ in range(_PREFILLS)]
    spent: dict[int, list[float]] = {count: [] for count in counts}
    reads: list[float] = []
    memory = np.ones(_READ_BYTES // 4, dtype=np.float32)
    for number in range(rounds + 1):
        reads.append(_bandwidth(memory, backend.threads))
        for count in counts:
            milliseconds = _milliseconds(partial(_step, backend, cache, trees[count]))
            if number:
                spent[count].append(milliseconds)
    bandwidth = median(reads)
    keys = 2 * config.num_layers * config.num_kv_heads * config.head_dim * context
    limit = 1000.0 * (backend.parameters + 2 * keys) / bandwidth
    one = median(spent[1])
    return tuple(
        StepRow(
            bench="step",
            backend=backend.identity,
            rows=count,
            context=context,
            ms=median(spent[count]),
            ratio_to_one_row=median(spent[count]) / one,
            bandwidth_gb_s=bandwidth / 1e9,
            limit_ms=limit,
            ratio_to_limit=median(spent[count]) / limit,
            prefill_tokens_per_s=1000.0 * context / median(prefills),
            threads=backend.threads,
        )
        for count in counts
    )


def _step(backend: Backend, cache: Cache, tree: DraftTree) -> None:
    """A step with the logits of all its nodes, whole."""
    assert len(backend.step(cache, tree, range(len(tree))).logits) == len(tree)


def _prefill(backend: Backend, cache: Cache, prompt: Sequence[int]) -> float:
    backend.truncate(cache, 0)
    return _milliseconds(partial(backend.prefill, cache, prompt))


def _milliseconds(work: partial[Any]) -> float:
    start = perf_counter()
    work()
    return 1000.0 * (perf_counter() - start)


def _bandwidth(memory: NDArray[np.float32], threads: int) -> float:
    """Bytes a second that so many threads read from memory together."""
    parts = np.array_split(memory, threads)
    with ThreadPoolExecutor(threads) as workers:
        start = perf_counter()
        list(workers.map(lambda part: np.dot(part, part), parts))
        return memory.nbytes / (perf_counter() - start)
