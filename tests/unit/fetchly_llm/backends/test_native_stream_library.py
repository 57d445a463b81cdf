"""The C interface of streams, called as no Python of ours would."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from ctypes import byref, c_int32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.native.library import CacheView, Shape, StreamPass, StreamShape, library
from fetchly_llm.backends.native.stream_tensors import StreamPart
from fetchly_llm.config import EngineConfig
from fetchly_llm.tree import DraftTree
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams

pytestmark = needs_kernels
SHAPE = {
    "vocab": 40, "hidden": 32, "inner": 32, "layers": 2, "heads": 2, "kv_heads": 1, "dim": 16, "tied": 1, "int8": 1
}  # fmt: skip
TAPS = (c_int32 * 3)(0, 1, 2)
STREAMS = {
    "taps": TAPS, "tap_count": 3, "gamma": 2, "first_layer": 1, "insertion_rank": 3, "anchor_rank": 4,
    "adapter_rank": 5, "markov_rank": 6, "confidence": 1, "top": 7, "adapter_scale": 1.0,
}  # fmt: skip


class Door:
    """A model with streams after a step of four nodes, and one pass that is sound until a test spoils a part of it."""

    def __init__(self, folder: Path) -> None:
        make_tiny_streams(make_tiny_model(folder))
        self.backend = NativeBackend.load(folder, EngineConfig(threads=2, prefill_chunk=32))
        self.cache = self.backend.new_cache(128)
        self.backend.step(self.cache, DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4), [])
        assert self.cache.start is not None
        self.states = self.cache.start.states
        self.parents = np.array([-1, 0, 0, 2], dtype=np.int32)
        self.nodes = np.array([3, 0], dtype=np.int32)
        self.following = np.array([5, -1], dtype=np.int32)
        self.tokens = np.zeros((2, 3, 32), dtype=np.int64)
        self.logits = np.zeros((2, 3, 32), dtype=np.float32)
        self.confidence = np.zeros((2, 3), dtype=np.float32)
        self.factors = np.zeros((2, 3, 32, 7), dtype=np.float32)
        self.angles = np.zeros((140, 8), dtype=np.float32)

    def run(self, **changes: Any) -> bytes | None:
        arrays = ("states", "parents", "nodes", "following", "tokens", "logits", "confidence", "factors")
        sound = {
            "cache": self.cache.view,
            **{name: getattr(self, name).ctypes.data for name in arrays},
            "cosine": self.angles.ctypes.data,
            "sine": self.angles.ctypes.data,
            "angles": 140,
            "committed": 0,
            "rows": 4,
            "anchors": 2,
        }
        one_pass = StreamPass(**{**sound, **changes})
        problem: bytes | None = library().native_speculate(self.backend._native.handle, byref(one_pass))
        return problem


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    door = Door(tmp_path_factory.mktemp("door"))
    yield door
    door.backend.close()


def test_a_sound_pass(door: Door) -> None:
    assert door.run() is None
    assert door.logits.any()
    assert door.factors.any()
    assert (door.confidence > 0.0).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"anchors": 0}, {"anchors": -1}, {"anchors": 43}, {"anchors": 2**31 - 1},
        {"rows": 0}, {"rows": 3}, {"rows": 65}, {"rows": 2**31 - 1}, {"rows": -1},
        {"committed": -1}, {"committed": 125}, {"committed": 2**31 - 1},
        {"angles": 6}, {"angles": -1}, {"angles": -(2**62)},
        {"parents": None}, {"parents": None, "committed": 129}, {"parents": None, "committed": -(2**31)},
        {"parents": None, "committed": 4, "angles": 6}, {"cache": CacheView(None, None, 2)},
        *({name: None} for name in ("states", "nodes", "following", "tokens", "logits", "confidence", "factors")),
        {"cosine": None}, {"sine": None},
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit(door: Door, changes: dict[str, Any]) -> None:
    assert door.run(**changes) is not None


@pytest.mark.parametrize("blocks", [0, -1, -(2**62)])
def test_a_cache_of_no_blocks(door: Door, blocks: int) -> None:
    view = door.cache.view
    assert door.run(cache=CacheView(view.keys, view.values, blocks)) is not None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("parents", [0, 0, 0, 2]), ("parents", [-1, 0, 0, 3]), ("parents", [-1, -1, 0, 2]), ("parents", [-2, 0, 0, 2]),
        ("parents", [-1, 0, 0, 2**31 - 1]), ("nodes", [3, 4]), ("nodes", [-1, 0]), ("nodes", [0, -(2**31)]),
        ("following", [320, 0]), ("following", [0, -2]), ("following", [2**31 - 1, 0]),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(door: Door, name: str, values: list[int]) -> None:
    array = np.array(values, dtype=np.int32)
    assert door.run(**{name: array.ctypes.data}) is not None


@pytest.mark.parametrize(
    "ids", [range(31), [*range(31), 30], [*range(31), 320], [-1, *range(31)], [*range(31), -(2**31)], [5, *range(31)]]
)
def test_a_draft_vocabulary_that_is_not_one(door: Door, ids: Iterable[int]) -> None:
    array = np.array(list(ids), dtype=np.int32)
    assert door.run(vocabulary=array.ctypes.data, choices=len(array)) is not None
    enough = np.arange(0, 320, 10, dtype=np.int32)
    assert door.run(vocabulary=enough.ctypes.data, choices=32) is None
    for choices in (31, 0, -1, -(2**31)):
        assert door.run(vocabulary=enough.ctypes.data, choices=choices) is not None


def test_the_end_of_the_cache_and_the_table(door: Door) -> None:
    """As far as there are slots and angles, and no further."""
    for committed, parents in ((124, door.parents.ctypes.data), (128, None), (1, None)):
        end = committed + (4 if parents else 0)
        assert door.run(committed=committed, parents=parents, angles=end + 3) is None
        assert door.run(committed=committed, parents=parents, angles=end + 2) is not None


def opened(**changes: Any) -> bytes | None:
    """What is said to streams of such a shape."""
    model, shape = c_void_p(), Shape(**SHAPE, epsilon=1e-5)
    assert library().native_open(byref(shape), b"generic", 1, byref(model)) is None
    problem: bytes | None = library().native_open_streams(model, byref(StreamShape(**{**STREAMS, **changes})))
    library().native_close(model)
    return problem


def test_a_sound_shape() -> None:
    assert opened() is None
    assert opened(taps=None, tap_count=0, insertion_rank=0, markov_rank=0, adapter_rank=0, first_layer=0) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": 0}, {"gamma": -1}, {"gamma": 129}, {"gamma": 2**31 - 1},
        {"first_layer": -1}, {"first_layer": 2}, {"first_layer": 2**31 - 1},
        *({name: value} for name in ("insertion_rank", "anchor_rank", "adapter_rank", "markov_rank")
          for value in (-1, 1025, 2**31 - 1)),
        {"top": 0}, {"top": 41}, {"top": -1}, {"insertion_rank": 0}, {"tap_count": 0}, {"tap_count": 4},
        {"tap_count": -1}, {"taps": None}, {"taps": (c_int32 * 3)(0, 0, 1)}, {"taps": (c_int32 * 3)(1, 0, 2)},
        {"taps": (c_int32 * 3)(0, 1, 3)}, {"taps": (c_int32 * 3)(-1, 0, 1)},
        {"adapter_scale": float("nan")}, {"adapter_scale": float("inf")},
    ],
)  # fmt: skip
def test_shapes_that_cannot_be(changes: dict[str, Any]) -> None:
    assert opened(**changes) is not None


def test_streams_are_opened_once_and_loaded_before_they_run(door: Door) -> None:
    handle, streams = door.backend._native.handle, StreamShape(**STREAMS)
    assert library().native_open_streams(handle, byref(streams)) is not None
    assert library().native_open_streams(None, byref(streams)) is not None
    assert library().native_open_streams(handle, None) is not None
    assert library().native_speculate(None, None) is not None
    factor = np.zeros(7, dtype=np.float32)
    for token, address in ((-1, factor.ctypes.data), (320, factor.ctypes.data), (0, None)):
        assert library().native_successor(handle, token, address) is not None
    assert library().native_successor(None, 0, factor.ctypes.data) is not None
    model, shape = c_void_p(), Shape(**SHAPE, epsilon=1e-5)
    assert library().native_open(byref(shape), b"generic", 1, byref(model)) is None
    assert library().native_speculate(model, byref(StreamPass())) is not None
    assert library().native_successor(model, 0, factor.ctypes.data) is not None
    assert library().native_load_stream(model, 0, 0, 0, factor.ctypes.data, 7, 1) is not None
    assert library().native_open_streams(model, byref(streams)) is None
    assert library().native_speculate(model, byref(StreamPass())) is not None
    assert library().native_successor(model, 0, factor.ctypes.data) is not None
    library().native_close(model)


@pytest.mark.parametrize(
    ("layer", "part", "kind", "rows", "columns"),
    [
        (0, StreamPart.EMBEDDING, 0, 63, 1), (0, StreamPart.EMBEDDING, 0, 64, 2), (1, StreamPart.EMBEDDING, 0, 64, 1),
        (0, StreamPart.EMBEDDING, 3, 64, 1), (0, StreamPart.EMBEDDING, -1, 64, 1), (0, -1, 0, 64, 1),
        (0, len(StreamPart), 0, 64, 1), (0, 2**31 - 1, 0, 64, 1), (0, StreamPart.INSERTION_DOWN, 0, 3, 32),
        (0, StreamPart.MARKOV_GATE, 0, 2**62, 32), (0, StreamPart.Q_DOWN, 0, 5, 32), (2, StreamPart.Q_DOWN, 0, 5, 32),
        (-1, StreamPart.Q_DOWN, 0, 5, 32), (2**31 - 1, StreamPart.Q_DOWN, 0, 5, 32), (1, StreamPart.Q_DOWN, 0, 5, 31),
        (1, StreamPart.K_UP, 0, 32, 5), (1, StreamPart.K_UP, 0, -16, -5),
    ],
)  # fmt: skip
def test_tensors_that_the_streams_have_not(layer: int, part: int, kind: int, rows: int, columns: int) -> None:
    model, shape, data = c_void_p(), Shape(**SHAPE, epsilon=1e-5), np.zeros(64 * 64, dtype=np.float32)
    assert library().native_open(byref(shape), b"generic", 1, byref(model)) is None
    assert library().native_open_streams(model, byref(StreamShape(**STREAMS))) is None
    assert library().native_load_stream(model, layer, part, kind, data.ctypes.data, rows, columns) is not None
    assert library().native_load_stream(model, 0, StreamPart.EMBEDDING, 0, None, 64, 1) is not None
    assert library().native_load_stream(model, 0, StreamPart.EMBEDDING, 0, data.ctypes.data, 64, 1) is None
    assert library().native_load_stream(model, 1, StreamPart.K_UP, 0, data.ctypes.data, 16, 5) is None
    library().native_close(model)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 3e38])
def test_numbers_that_are_not_finite_when_they_are_scaled(value: float) -> None:
    model, shape, data = c_void_p(), Shape(**SHAPE, epsilon=1e-5), np.zeros(16 * 5, dtype=np.float32)
    assert library().native_open(byref(shape), b"generic", 1, byref(model)) is None
    streams = StreamShape(**{**STREAMS, "adapter_scale": 2.0})
    assert library().native_open_streams(model, byref(streams)) is None
    data[-1] = value
    problem = library().native_load_stream(model, 1, StreamPart.K_UP, 0, ctypes.c_void_p(data.ctypes.data), 16, 5)
    assert problem == b"not every number is finite"
    library().native_close(model)
