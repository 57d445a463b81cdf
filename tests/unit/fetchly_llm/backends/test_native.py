from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from fetchly_llm.backends.native.backend import MOST_NODES, NativeBackend
from fetchly_llm.backends.native.kv_cache import KeyValueCache
from fetchly_llm.backends.native.library import usable_kernels
from fetchly_llm.backends.native.rotary import RotaryTable
from fetchly_llm.backends.native.stored_tensor import StoredTensor
from fetchly_llm.backends.registry import load_backend, native_obstacle
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.torch_reference.rotary import RotaryTable as TorchRotaryTable
from fetchly_llm.config import EngineConfig, ModelConfig, RopeScaling
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid
from fetchly_llm.tree import DraftTree
from tests.support.embedded_shape import WIDE
from tests.support.native_kernels import needs_kernels
from tests.support.native_model import random_tensors
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model

pytestmark = needs_kernels
ENGINE = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=32)
TOKENS = np.random.default_rng(2).integers(0, 320, 260).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def backend(folder: Path) -> NativeBackend:
    return NativeBackend.load(folder, ENGINE)


@pytest.fixture
def cache(backend: NativeBackend) -> KeyValueCache:
    cache = backend.new_cache(80)
    backend.prefill(cache, TOKENS[:32])
    return cache


def logits(backend: NativeBackend | TorchReferenceBackend) -> np.ndarray:
    """Of TOKENS from 100 on, across two boundaries of blocks."""
    cache = backend.new_cache(300)
    backend.prefill(cache, TOKENS[:100])
    found = []
    while cache.length + 4 <= len(TOKENS):
        chain = DraftTree.chain(TOKENS[cache.length : cache.length + 4], "test")
        found.append(backend.step(cache, chain, range(4)).logits)
        backend.commit(cache, range(4))
    return np.concatenate(found)


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_agrees_with_the_reference(tmp_path: Path, family: str) -> None:
    folder = make_tiny_model(tmp_path, family, seed=1)
    expected = logits(TorchReferenceBackend.load(folder, ENGINE))
    exact = np.abs(logits(NativeBackend.load(folder, ENGINE, precision="fp32")) - expected)
    rounded = logits(NativeBackend.load(folder, ENGINE)) - expected
    assert exact.max() < 1e-4
    assert 0.0 < rounded.std() < 0.08 * expected.std()


def test_int8_is_close_at_the_shape_of_the_embedded_model() -> None:
    tensors = random_tensors(WIDE)
    exact = logits(NativeBackend(WIDE, tensors, ENGINE, precision="fp32"))
    rounded = logits(NativeBackend(WIDE, tensors, ENGINE))
    error = np.abs(rounded - exact).max() / exact.std()
    print("largest error of a logit, in standard deviations of logits:", error)
    assert error < 0.25


@pytest.mark.parametrize("scaling", [None, RopeScaling(8.0, 1.0, 4.0, 64)])
def test_angles_are_those_of_the_reference(scaling: RopeScaling | None) -> None:
    config = replace(WIDE, rope_scaling=scaling)
    expected, found = TorchRotaryTable(config, 4096, torch.device("cpu")), RotaryTable(config, 4096)
    half = config.head_dim // 2
    assert np.abs(expected.cosine[:, :half].numpy() - found.cosine).max() < 2e-3  # of 4096 turns, rounded once or twice
    assert np.abs(expected.sine[:, half:].numpy() - found.sine).max() < 2e-3
    assert np.abs(expected.cosine[:64, :half].numpy() - found.cosine[:64]).max() < 1e-5


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("vocab_size", [WIDE.vocab_size, WIDE.vocab_size - 5])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_logit_has_the_same_bits_whatever_else_is_asked(
    precision: Literal["int8", "fp32"], vocab_size: int, threads: int
) -> None:
    config = replace(WIDE, vocab_size=vocab_size)
    drawn = np.random.default_rng(7)
    asked = [np.array([vocab_size - 1]), np.array([0, 15, 16, 17]), np.arange(vocab_size)]
    asked += [np.sort(drawn.choice(vocab_size, size, replace=False)) for size in (1, 2, 40, 300, vocab_size // 2)]
    for kernels in usable_kernels():
        engine = EngineConfig(threads=threads, prefill_chunk=32)
        backend = NativeBackend(config, random_tensors(config), engine, precision=precision, kernels=kernels)
        cache = backend.new_cache(80)
        backend.prefill(cache, [token % vocab_size for token in TOKENS[:32]])
        tree = DraftTree((1, 2, 3), (-1, 0, 0), ("test",) * 3)
        every = backend.step(cache, tree, range(3)).logits
        output = backend.step(cache, tree, [2, 0])
        for tokens in asked:
            assert output.scores(0, tokens).tobytes() == every[2, tokens].tobytes()
            assert output.scores(1, tokens).tobytes() == every[0, tokens].tobytes()
        backend.step(cache, DraftTree.root(5), [0])  # what a step left stays, whatever runs after it
        assert output.logits.tobytes() == every[[2, 0]].tobytes()
        assert output.scores(0, asked[1]).tobytes() == every[2, asked[1]].tobytes()
        backend.close()


def test_logits_of_the_asked_rows(backend: NativeBackend, cache: KeyValueCache) -> None:
    tree = DraftTree((1, 2, 3), (-1, 0, 0), ("test",) * 3)
    every = backend.step(cache, tree, range(3)).logits
    assert every.dtype == np.float32
    assert every.shape == (3, 320)
    assert np.array_equal(backend.step(cache, tree, [2, 0]).logits, every[[2, 0]])
    assert np.array_equal(backend.step(cache, tree, [1, 1]).logits, every[[1, 1]])
    assert backend.step(cache, tree, []).logits.shape == (0, 320)


def test_a_commit_moves_only_rows_that_lie_elsewhere(backend: NativeBackend, cache: KeyValueCache) -> None:
    tree = DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4)
    cache.keys[..., 32:] = 0.0  # what was never written may be anything
    backend.step(cache, tree, [])
    before = cache.keys.copy()
    backend.commit(cache, [0, 2, 3])
    assert cache.length == 35
    block, before = cache.keys[:, :, 0], before[:, :, 0]
    assert np.flatnonzero((block != before).any(axis=(0, 1, 2))).tolist() == [33, 34]
    assert np.array_equal(block[..., 33:35], before[..., 34:36])
    backend.step(cache, tree, [])
    before = cache.keys.copy()
    backend.commit(cache, [0, 1])
    assert np.array_equal(cache.keys[:, :, 0], before[:, :, 0])


@pytest.mark.parametrize("path", [[], [1], [0, 3], [0, 1, 2], [0, 4], [0, -1], [0, 0]])
def test_a_path_that_is_none(backend: NativeBackend, cache: KeyValueCache, path: list[int]) -> None:
    backend.step(cache, DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4), [])
    with pytest.raises(RequestInvalid):
        backend.commit(cache, path)
    assert cache.length == 32


def test_a_step_is_committed_once(backend: NativeBackend, cache: KeyValueCache) -> None:
    with pytest.raises(RequestInvalid):
        backend.commit(cache, [0])
    backend.step(cache, DraftTree.root(1), [0])
    backend.commit(cache, [0])
    for forget in (lambda: None, lambda: backend.truncate(cache, 32), lambda: backend.prefill(cache, [1])):
        forget()
        with pytest.raises(RequestInvalid):
            backend.commit(cache, [0])


@pytest.mark.parametrize("tokens", [[-1], [320], [2**31], [-(2**40)]])
def test_unknown_tokens(backend: NativeBackend, cache: KeyValueCache, tokens: list[int]) -> None:
    with pytest.raises(RequestInvalid):
        backend.prefill(cache, tokens)
    with pytest.raises(RequestInvalid):
        backend.step(cache, DraftTree.chain(tokens, "test"), [0])
    assert cache.length == 32


def test_what_does_not_fit(backend: NativeBackend, cache: KeyValueCache) -> None:
    with pytest.raises(CapacityExceeded):
        backend.prefill(cache, TOKENS[:49])
    with pytest.raises(CapacityExceeded):
        backend.step(cache, DraftTree.chain(TOKENS[:49], "test"), [0])
    with pytest.raises(CapacityExceeded):
        backend.new_cache(4096 + MOST_NODES + 1)
    for capacity in (0, -1):
        with pytest.raises(RequestInvalid):
            backend.new_cache(capacity)
    backend.step(cache, DraftTree.chain(TOKENS[:48], "test"), [47])


def test_requests_that_cannot_be(backend: NativeBackend, cache: KeyValueCache) -> None:
    with pytest.raises(RequestInvalid):
        backend.step(cache, DraftTree.chain([1] * (MOST_NODES + 1), "test"), [0])
    for rows in ([1], [-1]):
        with pytest.raises(RequestInvalid):
            backend.step(cache, DraftTree.root(1), rows)
    with pytest.raises(RequestInvalid):
        backend.truncate(cache, 33)
    with pytest.raises(RequestInvalid):
        backend.truncate(cache, -1)
    with pytest.raises(RequestInvalid):
        backend.speculate(cache, [])
    with pytest.raises(RequestInvalid):
        backend.step(object(), DraftTree.root(1), [0])  # type: ignore[arg-type]
    backend.truncate(cache, 31)
    with pytest.raises(RequestInvalid, match="multiple of 32"):
        backend.prefill(cache, [1])


def test_the_last_position(tmp_path: Path) -> None:
    backend = NativeBackend.load(make_tiny_model(tmp_path), ENGINE)
    cache = backend.new_cache(4096 + MOST_NODES)
    backend.prefill(cache, [5] * 4095)
    broad = DraftTree((1, *[2] * 63), (-1, *[0] * 63), ("test",) * 64)
    with pytest.raises(CapacityExceeded):
        backend.step(cache, broad, [0])
    assert np.isfinite(backend.step(cache, DraftTree.root(1), [0]).logits).all()
    backend.commit(cache, [0])
    with pytest.raises(CapacityExceeded):
        backend.step(cache, DraftTree.root(1), [0])
    backend.truncate(cache, 4094)
    assert np.isfinite(backend.step(cache, broad, range(64)).logits).all()  # more rows than positions that are left


@pytest.mark.parametrize("part", ["EMBEDDING", "DOWN", "FINAL_NORM", "KEY"])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_make_logits_that_are_none(part: str, precision: str, value: float) -> None:
    tensors = random_tensors(replace(WIDE, num_layers=1))
    damaged = []
    for stored in tensors:
        data = stored.data
        if stored.tensor.part.name == part:
            values = data.view(np.float32).copy()
            values[: stored.tensor.columns] = value
            data = values.view(np.uint8)
        damaged.append(StoredTensor(stored.tensor, 0, data))
    backend = NativeBackend(replace(WIDE, num_layers=1), damaged, ENGINE, precision=precision)  # type: ignore[arg-type]
    cache = backend.new_cache(100)
    backend.prefill(cache, [0] * 32)
    assert not np.isfinite(backend.step(cache, DraftTree.root(0), [0]).logits).all()


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e20, 3e38])
def test_sizes_at_the_ends_of_floats(size: float) -> None:
    """No number of a checkpoint may end the process; what comes out is finite or not, nothing else."""
    config = replace(WIDE, num_layers=1)
    with np.errstate(over="ignore", under="ignore"):
        scaled = [
            StoredTensor(stored.tensor, 0, (stored.data.view(np.float32) * np.float32(size)).view(np.uint8))
            for stored in random_tensors(config)
        ]
    for precision in ("int8", "fp32"):
        backend = NativeBackend(config, scaled, ENGINE, precision=precision)  # type: ignore[arg-type]
        cache = backend.new_cache(100)
        backend.prefill(cache, TOKENS[:32])
        found = backend.step(cache, DraftTree.root(0), [0]).logits
        assert found.shape == (1, 320)
        if size < 1.0:
            assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "change", [{"hidden_size": 584}, {"intermediate_size": 1530}, {"head_dim": 63}, {"num_kv_heads": 2}]
)
def test_shapes_that_the_kernels_do_not_have(change: dict[str, int]) -> None:
    with pytest.raises(ModelUnsupported):
        NativeBackend(replace(WIDE, **change), [], ENGINE)


def test_settings_that_cannot_be(folder: Path) -> None:
    for change in ({"threads": 0}, {"threads": 257}, {"prefill_chunk": 0}):
        with pytest.raises(RequestInvalid):
            NativeBackend.load(folder, replace(ENGINE, **change))
    with pytest.raises(RequestInvalid, match="generic"):
        NativeBackend.load(folder, ENGINE, kernels="cray")


def test_tensors_that_are_missing(backend: NativeBackend) -> None:
    config = backend.config
    incomplete = NativeBackend(config, random_tensors(config)[:-1], ENGINE)
    with pytest.raises(RequestInvalid, match="missing"):
        incomplete.prefill(incomplete.new_cache(10), [1])


def test_closed(folder: Path) -> None:
    backend = NativeBackend.load(folder, ENGINE)
    cache = backend.new_cache(10)
    backend.close()
    backend.close()
    with pytest.raises(RequestInvalid, match="closed"):
        backend.step(cache, DraftTree.root(1), [0])
    with pytest.raises(RequestInvalid, match="closed"):
        backend.prefill(cache, [1])


def test_closing_waits_for_the_pass_that_another_thread_has_begun() -> None:
    """In a process of its own: freed memory would end it."""
    program = (
        "import sys, threading, time\n"
        "from fetchly_llm.backends.native.backend import NativeBackend\n"
        "from fetchly_llm.config import EngineConfig\n"
        "from fetchly_llm.errors import RequestInvalid\n"
        "from tests.support.embedded_shape import WIDE\n"
        "from tests.support.native_model import random_tensors\n"
        "tensors, said = random_tensors(WIDE), []\n"
        "def work(backend):\n"
        "    try:\n"
        "        while True:\n"
        "            backend.prefill(backend.new_cache(1000), range(300))\n"
        "    except RequestInvalid as error:\n"
        "        said.append(error.message)\n"
        "for _ in range(20):\n"
        "    backend = NativeBackend(WIDE, tensors, EngineConfig(threads=2))\n"
        "    threads = [threading.Thread(target=work, args=(backend,)) for _ in range(2)]\n"
        "    for thread in threads: thread.start()\n"
        "    time.sleep(0.01)\n"
        "    backend.close()\n"
        "    for thread in threads: thread.join()\n"
        "print(len(said), set(said))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "40 {'the back-end is closed'}\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_fork_has_no_threads_to_wait_for(folder: Path) -> None:
    """In a process of its own, as other tests' threads make Python warn of forks."""
    program = (
        "import os, sys; from pathlib import Path\n"
        "from fetchly_llm.backends.native.backend import NativeBackend\n"
        "from fetchly_llm.config import EngineConfig\n"
        f"backend = NativeBackend.load(Path({str(folder)!r}), EngineConfig(threads=3))\n"
        "cache = backend.new_cache(128)\n"
        "if os.fork() == 0:\n"
        "    backend.prefill(cache, [5] * 100)\n"
        "    backend.close()\n"
        "    sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "7\n"


def test_it_is_the_first_choice_on_a_processor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchly_llm.backends.registry._driver_gpus", lambda: 0)
    assert native_obstacle() is None
    auto = load_backend(folder, EngineConfig(threads=1))
    named = load_backend(folder, EngineConfig(device="native", threads=2))
    assert auto.identity == named.identity
    assert auto.identity.startswith("native/int8/")
    assert auto.width is None
    monkeypatch.setattr("fetchly_llm.backends.native.library.available", lambda: "no compiler")
    assert isinstance(load_backend(folder, EngineConfig(threads=1)), TorchReferenceBackend)


def test_models_that_only_torch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchly_llm.backends.registry._driver_gpus", lambda: 0)
    folder = make_tiny_model(tmp_path)
    tensors = {
        name: torch.from_numpy(value).to(torch.float64)
        for name, value in load_file(folder / "model.safetensors").items()
    }
    save_file(tensors, folder / "model.safetensors")
    assert isinstance(load_backend(folder, EngineConfig(threads=1)), TorchReferenceBackend)
    with pytest.raises(ModelUnsupported, match="F64"):
        load_backend(folder, EngineConfig(device="native"))


def test_it_starts_without_torch(folder: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from fetchly_llm.backends.registry import load_backend\n"
        "from fetchly_llm.config import EngineConfig\n"
        f"backend = load_backend(Path({str(folder)!r}), EngineConfig(device='native', threads=2))\n"
        "cache = backend.new_cache(64)\n"
        "backend.prefill(cache, [1, 2, 3])\n"
        "print(backend.identity)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("native/")


def test_no_matrix_is_left_out_of_a_wide_vocabulary() -> None:
    """A vocabulary that does not fill its last tile, and logits row by row."""
    config: ModelConfig = replace(WIDE, vocab_size=333, num_layers=1, tie_word_embeddings=False)
    backends = [
        NativeBackend(config, random_tensors(config), ENGINE, precision=precision)  # type: ignore[arg-type]
        for precision in ("fp32", "int8")
    ]
    found = []
    for backend in backends:
        cache = backend.new_cache(100)
        found.append(backend.step(cache, DraftTree.chain([332, 0, 331], "test"), range(3)).logits)
    assert found[0].shape == (3, 333)
    assert np.abs(found[0] - found[1]).max() < 0.25 * found[0].std()
