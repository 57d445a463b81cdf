"""A model folder in; one JSON line with load time, prefill speed, step time and memory of the reference back-end out.

    python tests/benchmarks/prefill.py [--model FOLDER] [--width 8] [--chunk 128] [--threads N] [--prompt 1024]

Without --model the embedded model is taken, if it was pulled before. Times are the best and the median of --repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fetchly_llm.config import ModelConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=128)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    folder = options.model or pulled_model()
    if folder is None:
        sys.exit("no model: pull one (fetchly models pull) or name a folder with --model")
    print(json.dumps(measure(folder, options)))


def pulled_model() -> Path | None:
    """The embedded model's folder under the user cache, or None."""
    import platformdirs

    found = sorted(Path(platformdirs.user_cache_dir("fetchly")).glob("models/installed/*/model.safetensors"))
    return found[0].parent if found else None


def measure(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as load_backend does, which comes after torch here
    imported = time.perf_counter()
    import torch  # noqa: F401  (its import is reported apart)

    from fetchly_llm.backends.registry import load_backend
    from fetchly_llm.config import EngineConfig
    from fetchly_llm.tree import DraftTree

    began = time.perf_counter()
    engine = EngineConfig(device="cpu", width=options.width, prefill_chunk=options.chunk, threads=options.threads)
    backend = load_backend(folder, engine)
    loaded = time.perf_counter()
    cache = backend.new_cache(options.prompt + 64)
    tokens = random.Random(0).choices(range(backend.config.vocab_size), k=options.prompt)

    def prefill() -> None:
        backend.truncate(cache, 0)
        backend.prefill(cache, tokens)

    def step(tree: DraftTree, rows: range) -> Callable[[], object]:
        return lambda: backend.step(cache, tree, rows)

    # Interleaved, so that both meet the same machine: the limit is what one large matrix product reaches meanwhile.
    prefill_s: list[float] = []
    gemm_s: list[float] = []
    for _ in range(options.repeats):
        prefill_s += timed(prefill, 1)
        gemm_s += timed(matrix_product(), 5)
    limit = 2 * GEMM_SIZE**3 / min(gemm_s) / flop_per_token(backend.config, options.prompt)
    chain = DraftTree.chain(tokens[: options.width], "bench")
    step_s = timed(step(chain, range(options.width)), 4 * options.repeats)
    silent_s = timed(step(chain, range(0)), 4 * options.repeats)
    return {
        "identity": backend.identity,
        "torch_import_s": round(began - imported, 2),
        "load_s": round(loaded - began, 2),
        "prompt_tokens": options.prompt,
        "prefill_tok_s": round(options.prompt / min(prefill_s)),
        "prefill_tok_s_median": round(options.prompt / statistics.median(prefill_s)),
        "gemm_gflop_s": round(2 * GEMM_SIZE**3 / min(gemm_s) / 1e9, 1),
        "prefill_limit_tok_s": round(limit),
        "ratio_to_limit": round(options.prompt / min(prefill_s) / limit, 2),
        "step_ms": round(1000 * min(step_s), 1),
        "step_ms_median": round(1000 * statistics.median(step_s), 1),
        "step_without_head_ms": round(1000 * min(silent_s), 1),
        "resident_mb": resident_mb(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


GEMM_SIZE = 1024


def matrix_product() -> Callable[[], object]:
    import torch

    left, right = torch.randn(GEMM_SIZE, GEMM_SIZE), torch.randn(GEMM_SIZE, GEMM_SIZE)
    return lambda: left @ right


def flop_per_token(config: ModelConfig, prompt: int) -> float:
    """Multiply-adds of a prompt token, times two: linear layers, and attention to half the prompt on average."""
    heads = config.num_heads * config.head_dim
    qkv = config.hidden_size * (heads + 2 * config.num_kv_heads * config.head_dim)
    linears = qkv + heads * config.hidden_size + 3 * config.hidden_size * config.intermediate_size
    return 2.0 * config.num_layers * (linears + 2 * heads * prompt / 2)


def timed(work: Callable[[], object], repeats: int) -> list[float]:
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def resident_mb() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss) // 2**20


if __name__ == "__main__":
    main()
