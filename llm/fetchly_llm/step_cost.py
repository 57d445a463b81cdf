"""A back-end in; what a step of so many rows costs on this machine, measured once and kept on disk, out."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import perf_counter

import platformdirs

from fetchly_llm.backend import Backend
from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.store.atomic import write_atomically
from fetchly_llm.tree import DraftTree

ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_CONTEXT = 512
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
    """Time steps over chains after `context` tokens: the median of a few, interleaved, made monotone.

    Of `rows`, those that a model of few positions has room for.
    """
    rows = [count for count in rows if count < backend.config.max_position] or [1]
    context = min(context, backend.config.max_position - max(rows))
    cache = backend.new_cache(context + max(rows))
    backend.prefill(cache, [token % backend.config.vocab_size for token in range(context)])
    spent: dict[int, list[float]] = {count: [] for count in rows}
    for repeat in range(_REPEATS + 1):
        for count in rows:
            tree = DraftTree.chain([token % backend.config.vocab_size for token in range(count)], "measured")
            start = perf_counter()
            backend.step(cache, tree, range(count))
            if repeat:  # the first round warms up
                spent[count].append(1000.0 * (perf_counter() - start))
    ms: list[float] = []
    for count in rows:
        ms.append(max([median(spent[count]), *ms[-1:]]))
    return CostCurve(tuple(rows), tuple(ms))


def _key(backend: Backend) -> str:
    facts = (
        platform.node(),
        platform.processor(),
        backend.identity,
        f"{backend.threads} threads",
        repr(backend.config),
    )
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _read(file: Path) -> dict[str, CostCurve]:
    try:
        curves = json.loads(file.read_text(encoding="utf-8"))
        return {key: _curve(entry["rows"], entry["ms"]) for key, entry in curves.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError):
        return {}


def _curve(rows: Sequence[int], ms: Sequence[float]) -> CostCurve:
    if not all(isinstance(count, int) for count in rows) or not all(isinstance(cost, float) for cost in ms):
        raise ValueError("rows are counted, and milliseconds are numbers")
    return CostCurve(tuple(rows), tuple(ms))


def _write(file: Path, curves: dict[str, CostCurve]) -> None:
    text = json.dumps({key: {"rows": curve.rows, "ms": curve.ms} for key, curve in curves.items()})
    with suppress(OSError):
        write_atomically(file, text)
