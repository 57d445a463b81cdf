"""The C interface, called as no Python of ours would; and how the library is built."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from ctypes import byref, c_void_p
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fetchly_llm.backends.native import build as building
from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.native.build import BuildFailed, build
from fetchly_llm.backends.native.library import (
    VERSION,
    CacheView,
    HeadPass,
    LibraryMissing,
    Pass,
    Shape,
    available,
    library,
    usable_kernels,
)
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import ModelUnsupported
from fetchly_llm.tree import DraftTree
from tests.support.embedded_shape import WIDE
from tests.support.native_kernels import needs_kernels
from tests.support.native_model import random_tensors
from tests.support.tiny_model import HIDDEN, make_tiny_model

SHAPE = {
    "vocab": 40, "hidden": 32, "inner": 32, "layers": 1, "heads": 2, "kv_heads": 1, "dim": 16, "tied": 1, "int8": 1
}  # fmt: skip


class Door:
    """A whole model, and one pass whose every part is sound until a test spoils it."""

    def __init__(self, folder: Path) -> None:
        self.backend = NativeBackend.load(make_tiny_model(folder), EngineConfig(threads=2, prefill_chunk=32))
        self.cache = self.backend.new_cache(128)
        self.tokens = np.array([1, 2, 3, 4], dtype=np.int32)
        self.parents = np.array([-1, 0, 0, 2], dtype=np.int32)
        self.rows = np.array([0, 3], dtype=np.int32)
        self.normed = np.zeros((4, HIDDEN), dtype=np.float32)
        self.scores = np.zeros((2, 32), dtype=np.float32)
        self.tiles = np.array([3, 19], dtype=np.int32)
        self.angles = np.zeros((128, 8), dtype=np.float32)

    def run(self, **changes: Any) -> bytes | None:
        sound = {
            "cache": self.cache.view,
            "tokens": self.tokens.ctypes.data,
            "parents": self.parents.ctypes.data,
            "normed_rows": self.rows.ctypes.data,
            "normed": self.normed.ctypes.data,
            "cosine": self.angles.ctypes.data,
            "sine": self.angles.ctypes.data,
            "angles": 128,
            "committed": 0,
            "rows": 4,
            "normed_count": 2,
        }
        problem: bytes | None = library().native_run(self.backend._native.handle, byref(Pass(**{**sound, **changes})))
        return problem

    def score(self, **changes: Any) -> bytes | None:
        sound = {
            "normed": self.normed.ctypes.data,
            "tiles": self.tiles.ctypes.data,
            "scores": self.scores.ctypes.data,
            "rows": 2,
            "count": 2,
        }
        one_pass = HeadPass(**{**sound, **changes})
        problem: bytes | None = library().native_score(self.backend._native.handle, byref(one_pass))
        return problem


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    door = Door(tmp_path_factory.mktemp("door"))
    yield door
    door.backend.close()


@needs_kernels
def test_a_sound_pass(door: Door) -> None:
    assert door.run() is None
    assert door.normed[:2].any()
    assert not door.normed[2:].any()
    assert door.score() is None
    assert door.scores.any()


@needs_kernels
@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0}, {"rows": -1}, {"rows": 129}, {"rows": 2**31 - 1},
        {"committed": -1}, {"committed": 125}, {"committed": 2**31 - 1},
        {"angles": 3}, {"angles": -1}, {"normed_count": -1}, {"normed_count": 5},
        {"tokens": None}, {"parents": None}, {"normed_rows": None}, {"cosine": None}, {"sine": None},
        {"cache": CacheView(None, None, 2)}, {"states": 64},
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit(door: Door, changes: dict[str, Any]) -> None:
    assert door.run(**changes) is not None


@needs_kernels
@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0}, {"rows": -1}, {"rows": 129}, {"count": -1}, {"count": 21}, {"count": 2**31 - 1},
        {"normed": None}, {"scores": None},
    ],
)  # fmt: skip
def test_a_head_of_numbers_that_do_not_fit(door: Door, changes: dict[str, Any]) -> None:
    assert door.score(**changes) is not None


@needs_kernels
@pytest.mark.parametrize("values", [[3, 20], [-1, 3], [2**31 - 1, 0]])
def test_tiles_that_the_head_has_not(door: Door, values: list[int]) -> None:
    assert door.score(tiles=np.array(values, dtype=np.int32).ctypes.data) is not None


@needs_kernels
@pytest.mark.parametrize("blocks", [0, -1, -(2**62)])
def test_a_cache_of_no_blocks(door: Door, blocks: int) -> None:
    view = door.cache.view
    assert door.run(cache=CacheView(view.keys, view.values, blocks)) is not None


@needs_kernels
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokens", [1, 2, 3, 320]), ("tokens", [-1, 2, 3, 4]), ("tokens", [1, 2, 3, 2**31 - 1]),
        ("parents", [0, 0, 0, 2]), ("parents", [-1, 0, 0, 3]), ("parents", [-1, -1, 0, 2]), ("parents", [-1, 1, 0, 2]),
        ("parents", [-1, 0, 0, 2**31 - 1]), ("parents", [-2, 0, 0, 2]),
        ("normed_rows", [0, 4]), ("normed_rows", [-1, 0]), ("normed_rows", [0, -(2**31)]),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(door: Door, name: str, values: list[int]) -> None:
    array = np.array(values, dtype=np.int32)
    assert door.run(**{name: array.ctypes.data}) is not None


@needs_kernels
@pytest.mark.parametrize(("source", "target"), [(-1, 0), (0, -1), (128, 0), (0, 128), (0, 2**31 - 1)])
def test_slots_outside_the_cache(door: Door, source: int, target: int) -> None:
    moved = np.array([source, target], dtype=np.int32)
    view = door.cache.view
    address = moved.ctypes.data
    assert library().native_move(door.backend._native.handle, byref(view), address, address + 4, 1) is not None
    assert library().native_move(door.backend._native.handle, byref(view), None, None, 1) is not None
    assert library().native_move(door.backend._native.handle, byref(view), None, None, 0) is None


@needs_kernels
@pytest.mark.parametrize(
    "change",
    [
        {"vocab": 0}, {"vocab": -5}, {"hidden": 33}, {"hidden": 2**31 - 1}, {"inner": 0}, {"layers": 0},
        {"layers": 2**31 - 1}, {"heads": 3}, {"kv_heads": 0}, {"dim": 15}, {"dim": 0}, {"heads": 2**24, "dim": 2**20},
    ],
)  # fmt: skip
def test_shapes_that_cannot_be(change: dict[str, int]) -> None:
    model = c_void_p()
    shape = Shape(**{**SHAPE, **change}, epsilon=1e-5)
    if change == {"heads": 3}:
        shape.kv_heads = 2
    assert library().native_open(byref(shape), b"generic", 1, byref(model)) is not None
    assert not model


@needs_kernels
def test_models_that_cannot_be_opened() -> None:
    model = c_void_p()
    shape = Shape(**SHAPE, epsilon=1e-5)
    for kernels, threads in ((b"cray", 1), (b"", 1), (b"generic", 0), (b"generic", 257), (b"generic", -1)):
        assert library().native_open(byref(shape), kernels, threads, byref(model)) is not None
    assert library().native_open(None, b"generic", 1, byref(model)) is not None
    assert library().native_load(None, 0, 0, 0, None, 1, 1) is not None
    assert library().native_run(None, None) is not None
    assert library().native_score(None, None) is not None
    assert not model


@needs_kernels
@pytest.mark.parametrize(
    ("layer", "part", "kind", "rows", "columns"),
    [
        (0, 0, 0, 40, 31), (0, 0, 0, 41, 32), (0, 0, 0, -40, -32), (0, 0, 0, 2**62, 32), (0, 0, 3, 40, 32),
        (0, 0, -1, 40, 32), (1, 3, 0, 32, 1), (-1, 3, 0, 32, 1), (0, 18, 0, 32, 1), (0, -1, 0, 32, 1), 
        (0, 2, 0, 40, 32), (0, 7, 0, 32, 1), (0, 10, 0, 16, 1),
    ],
)  # fmt: skip
def test_tensors_that_the_model_has_not(layer: int, part: int, kind: int, rows: int, columns: int) -> None:
    model, shape, data = c_void_p(), Shape(**SHAPE, epsilon=1e-5), np.zeros(64 * 64, dtype=np.float32)
    assert library().native_open(byref(shape), b"generic", 1, byref(model)) is None
    assert library().native_load(model, layer, part, kind, data.ctypes.data, rows, columns) is not None
    assert library().native_load(model, 0, 0, 0, None, 40, 32) is not None
    assert library().native_load(model, 0, 0, 0, data.ctypes.data, 40, 32) is None
    library().native_close(model)


@needs_kernels
def test_the_caller_may_flush_small_numbers_to_zero() -> None:
    """torch.set_flush_denormal, and libraries built with fast-math, change a thread's arithmetic."""
    torch = pytest.importorskip("torch")
    tensors = random_tensors(WIDE)
    tensors[-1].data.view(np.float32)[:] = 1e-39  # the final norm
    found = []
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        try:
            backend = NativeBackend(WIDE, tensors, EngineConfig(threads=1), precision="fp32")
            cache = backend.new_cache(64)
            backend.prefill(cache, range(20))
            found.append(backend.step(cache, DraftTree.root(3), [0]).logits)
        finally:
            torch.set_flush_denormal(False)
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0].any()


@needs_kernels
def test_the_library_is_that_of_these_sources() -> None:
    assert library().native_version() == VERSION
    assert "generic" in usable_kernels()


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "kernels.so"
    monkeypatch.setattr("fetchly_llm.backends.native.library._FILE", file)
    library.cache_clear()
    yield file
    library.cache_clear()


def test_without_a_library(no_library: Path, tmp_path: Path) -> None:
    assert "not built" in (available() or "")
    with pytest.raises(LibraryMissing):
        usable_kernels()
    with pytest.raises(ModelUnsupported, match="not built"):
        NativeBackend.load(make_tiny_model(tmp_path / "model"), EngineConfig(device="native"))
    no_library.write_bytes(b"not a library")
    assert "cannot be loaded" in (available() or "")


@pytest.fixture
def hook() -> ModuleType:
    file = Path(building.__file__).parents[4] / "hatch_build.py"
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_library_builds(tmp_path: Path) -> None:
    try:
        building._compiler()
    except BuildFailed as failure:
        pytest.skip(str(failure))
    file = build(tmp_path)
    assert ctypes.CDLL(str(file)).native_version() == VERSION
    assert [entry.name for entry in tmp_path.iterdir()] == ["kernels.so"]


@pytest.mark.parametrize("compiler", ["false", "/nothing/here", f"{sys.executable} -c 1/0", '"g++'])
def test_compilers_that_do_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(BuildFailed) as caught:
        build(tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_build_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", f"{sys.executable} -c 'import sys; open(sys.argv[-1], chr(119))'")
    monkeypatch.setattr(building, "_link_flags", lambda: ())
    with pytest.raises(BuildFailed, match="cannot be written"):
        build(tmp_path / "nowhere")


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="no C\\+\\+ compiler"):
        build(tmp_path)


def test_the_hook_goes_on_without_kernels(tmp_path: Path, hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    native = tmp_path / "llm/fetchly_llm/backends/native"
    native.mkdir(parents=True)
    (native / "kernels.so").write_bytes(b"of older sources")
    (native / "source").mkdir()
    for name in ("build.py", "source/api.cpp"):
        (native / name).write_bytes((Path(building.__file__).parent / name).read_bytes())
    monkeypatch.setenv("CXX", "false")
    warnings: list[str] = []

    class App:
        display_warning = staticmethod(warnings.append)

    made = hook.KernelHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel", App())
    data: dict[str, Any] = {"artifacts": [], "pure_python": True}
    made.initialize("standard", data)
    assert data == {"artifacts": [], "pure_python": True}
    assert len(warnings) == 1
    assert not (native / "kernels.so").exists()
