"""A number of threads in; one JSON line with what steps, streams and prefill cost natively, beside the limit, out.

    python -m tests.benchmarks.native_step [--threads N] [--context 1024] [--kernels avx2] [--precision fp32]

The model has the embedded one's shape, random weights and streams of all parts, which start from one node to three. L
is the time that reading the weights (one byte each) and the keys and values (two bytes each) takes at the bandwidth
that this process measures. Times are medians in ms; rounds are interleaved, so that all meet the same machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.native.library import KERNELS
from fetchly_llm.backends.native.stream_tensors import StoredStreams, read_streams
from fetchly_llm.backends.processors import default_threads
from fetchly_llm.config import EngineConfig
from fetchly_llm.stream_config import StreamConfig, stream_metadata
from fetchly_llm.streams import StreamAnchor
from fetchly_llm.tree import DraftTree
from tests.support import tiny_streams
from tests.support.embedded_shape import EMBEDDED
from tests.support.native_model import random_tensors

ROWS = (1, 2, 4, 8, 16, 32)
ANCHORS = (1, 2, 3)
STREAMS = StreamConfig(
    gamma=4,
    first_layer=20,
    taps=(5, 12, 20),
    insertion_rank=64,
    anchor_rank=64,
    lora_rank=32,
    lora_alpha=32.0,
    markov_rank=64,
    confidence=True,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kernels", choices=KERNELS)
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    print(json.dumps(measure(parser.parse_args())))


def measure(options: argparse.Namespace) -> dict[str, object]:
    tensors = random_tensors(EMBEDDED)
    engine = EngineConfig(threads=options.threads)
    began = time.perf_counter()
    backend = NativeBackend(
        EMBEDDED, tensors, engine, precision=options.precision, kernels=options.kernels, streams=streams()
    )
    loaded = time.perf_counter() - began
    del tensors
    cache = backend.new_cache(options.context + max(ROWS))
    prompt = [token % EMBEDDED.vocab_size for token in range(options.context)]

    def prefill() -> None:
        backend.truncate(cache, 0)
        backend.prefill(cache, prompt)

    prefill_ms = statistics.median(milliseconds(prefill) for _ in range(5))
    steps: dict[int, list[float]] = {rows: [] for rows in ROWS}
    passes: dict[int, list[float]] = {count: [] for count in ANCHORS}
    bandwidths = []
    for number in range(options.rounds + 1):
        bandwidths.append(bandwidth(options.threads))
        for rows in ROWS:
            tree = DraftTree.chain(prompt[:rows], "measured")
            spent = milliseconds(lambda tree=tree, rows=rows: backend.step(cache, tree, range(rows)))
            if number:  # the first round warms up
                steps[rows].append(spent)
        for count in ANCHORS:
            anchors = [StreamAnchor(node, 0) for node in range(count)]
            spent = milliseconds(lambda anchors=anchors: backend.speculate(cache, anchors))
            if number:
                passes[count].append(spent)
    step_ms = {rows: statistics.median(spent) for rows, spent in steps.items()}
    keys = 2 * EMBEDDED.num_layers * EMBEDDED.num_kv_heads * EMBEDDED.head_dim * options.context
    limit_ms = 1000.0 * (backend.parameters + 2 * keys) / statistics.median(bandwidths)
    return {
        "identity": backend.identity,
        "kernels": backend.kernels,
        "threads": options.threads,
        "context": options.context,
        "load_s": round(loaded, 2),
        "bandwidth_gb_s": round(statistics.median(bandwidths) / 1e9, 1),
        "prefill_tokens_s": round(1000.0 * options.context / prefill_ms),
        "limit_ms": round(limit_ms, 2),
        "step_ms": {rows: round(spent, 2) for rows, spent in step_ms.items()},
        "best_ms": {rows: round(min(spent), 2) for rows, spent in steps.items()},
        "step_by_limit": {rows: round(spent / limit_ms, 2) for rows, spent in step_ms.items()},
        "step_by_one_row": {rows: round(spent / step_ms[1], 2) for rows, spent in step_ms.items()},
        "streams_ms": {count: round(statistics.median(spent), 2) for count, spent in passes.items()},
        "streams_best_ms": {count: round(min(spent), 2) for count, spent in passes.items()},
    }


def streams() -> StoredStreams:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "streams.safetensors"
        save_file(tiny_streams.random_tensors(STREAMS, EMBEDDED), file, metadata=stream_metadata(STREAMS, EMBEDDED))
        return read_streams(file, EMBEDDED)


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000.0 * (time.perf_counter() - began)


_READ = np.ones(1 << 26, dtype=np.float32)  # 256 MB, more than caches hold


def bandwidth(threads: int) -> float:
    """Bytes per second that `threads` threads read from memory together."""
    parts = np.array_split(_READ, threads)
    with ThreadPoolExecutor(threads) as workers:
        spent = milliseconds(lambda: list(workers.map(lambda part: np.dot(part, part), parts)))
    return 1000.0 * _READ.nbytes / spent


if __name__ == "__main__":
    main()
