"""A back-end in; what steps, and passes of streams, cost on this machine, measured once and kept on disk, out."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import platformdirs

from fetchly_llm.backend import Backend
from fetchly_llm.cost_curve import FUSED_ANCHORS, CostCurve
from fetchly_llm.store.atomic import write_atomically
from fetchly_llm.streams import StreamAnchor
from fetchly_llm.tree import DraftTree

ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_CONTEXT = 512
_CHOICES = 1024  # of the draft vocabulary of a page, and no two of them neighbours
_REPEATS = 5
_FILE = "step-costs.json"


def load_or_measure(backend: Backend, folder: Path | None = None) -> CostCurve:
    """The curve of this machine and model, from the user's cache (or `folder`) where it was measured before.

    A cache that cannot be read or written costs a measurement, nothing else.
    """
    file = (folder or platformdirs.user_cache_path("fetchly")) / _FILE
    key = _key(backend)
    known = _read(file)
    if key in known:
        return known[key]
    curve = measure(backend)
    _write(file, {**known, key: curve})
    return curve


def measure(backend: Backend, rows: Sequence[int] = ROWS, context: int = _CONTEXT) -> CostCurve:
    """Time steps over chains after `context` tokens, and passes of streams where there are any: the median of a few,
    interleaved, made monotone. Streams choose from as many tokens as a page has. Where a back-end leaves the LM head
    for when a logit is looked at, that is left out.

    Of `rows`, those that a model of few positions has room for.
    """
    rows = [count for count in rows if count < backend.config.max_position] or [1]
    context = min(context, backend.config.max_position - max(rows))
    cache = backend.new_cache(context + max(rows))
    backend.prefill(cache, [token % backend.config.vocab_size for token in range(context)])
    anchors = range(1, FUSED_ANCHORS + 1) if backend.streams else range(0)
    vocabulary = np.arange(0, backend.config.vocab_size, max(1, backend.config.vocab_size // _CHOICES), dtype=np.int64)
    steps: list[list[float]] = [[] for _ in rows]
    passes: list[list[float]] = [[] for _ in anchors]
    for _ in range(_REPEATS + 1):
        for spent, count in zip(steps, rows, strict=True):
            tree = DraftTree.chain([token % backend.config.vocab_size for token in range(count)], "measured")
            spent.append(_milliseconds(partial(backend.step, cache, tree, range(count))))
        for spent, count in zip(passes, anchors, strict=True):
            starts = [StreamAnchor(node % rows[-1], 0) for node in range(count)]
            spent.append(_milliseconds(partial(backend.speculate, cache, starts, vocabulary)))
    return CostCurve(tuple(rows), _rising(steps), _rising(passes))


def _milliseconds(work: partial[Any]) -> float:
    start = perf_counter()
    work()
    return 1000.0 * (perf_counter() - start)


def _rising(spent: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Medians, none of them below the one before; the first of a row warmed up."""
    return tuple(accumulate((median(each[1:]) for each in spent), max))


def _key(backend: Backend) -> str:
    facts = (
        "layers alone, streams over few tokens",  # a step's head goes with the accepted nodes, not with those drafted
        platform.node(),
        platform.processor(),
        backend.identity,
        f"{backend.threads} threads",
        f"{backend.streams} streams of {backend.stream_parameters} parameters",
        repr(backend.config),
    )
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _read(file: Path) -> dict[str, CostCurve]:
    try:
        curves = json.loads(file.read_text(encoding="utf-8"))
        return {key: _curve(entry["rows"], entry["ms"], entry["stream_ms"]) for key, entry in curves.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError):
        return {}


def _curve(rows: Sequence[int], ms: Sequence[float], stream_ms: Sequence[float]) -> CostCurve:
    numbers = all(isinstance(cost, float) for cost in (*ms, *stream_ms))
    if not all(isinstance(count, int) for count in rows) or not numbers:
        raise ValueError("rows are counted, and milliseconds are numbers")
    return CostCurve(tuple(rows), tuple(ms), tuple(stream_ms))


def _write(file: Path, curves: dict[str, CostCurve]) -> None:
    with suppress(OSError):
        write_atomically(file, json.dumps({key: asdict(curve) for key, curve in curves.items()}))
