from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.torch_reference.kv_cache import KeyValueCache
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import CapacityExceeded, RequestInvalid
from fetchly_llm.store.model_store import ModelStore
from fetchly_llm.tree import DraftTree
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model

ENGINE = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=32)
TOKENS = np.random.default_rng(2).integers(0, 320, 260).tolist()


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> TorchReferenceBackend:
    return TorchReferenceBackend.load(make_tiny_model(tmp_path_factory.mktemp("llama")), ENGINE)


@pytest.fixture
def cache(backend: TorchReferenceBackend) -> KeyValueCache:
    cache = backend.new_cache(80)
    backend.prefill(cache, TOKENS[:40])
    return cache


def transformers_logits(folder: Path, tokens: list[int]) -> np.ndarray:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].numpy()


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_agrees_with_transformers(tmp_path: Path, family: str) -> None:
    folder = make_tiny_model(tmp_path, family, seed=1)
    backend = TorchReferenceBackend.load(folder, ENGINE)
    expected = transformers_logits(folder, TOKENS)
    cache = backend.new_cache(300)
    backend.prefill(cache, TOKENS[:100])
    while cache.length + 4 <= len(TOKENS):  # across two boundaries of blocks
        first = cache.length
        chain = DraftTree.chain(TOKENS[first : first + 4], "test")
        logits = backend.step(cache, chain, range(4)).logits
        assert np.abs(logits - expected[first : first + 4]).max() < 1e-4
        backend.commit(cache, [0, 1, 2])
    assert np.abs(expected).max() > 1.0


@pytest.mark.model
def test_the_embedded_model_agrees_with_transformers() -> None:
    folder = ModelStore().resolve("fetchly-135m").path
    backend = TorchReferenceBackend.load(folder, EngineConfig(device="cpu", width=4))
    tokens = np.random.default_rng(3).integers(0, backend.config.vocab_size, 150).tolist()
    cache = backend.new_cache(200)
    backend.prefill(cache, tokens[:120])
    found_logits = []
    for first in range(120, 148, 4):
        found_logits.append(backend.step(cache, DraftTree.chain(tokens[first : first + 4], "test"), range(4)).logits)
        backend.commit(cache, range(4))
    backend.close()
    expected = transformers_logits(folder, tokens[:148])
    difference = float(np.abs(np.concatenate(found_logits) - expected[120:148]).max())
    print("max |logit difference|", difference)
    assert difference < 1e-4


def test_logits_of_the_asked_rows(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    tree = DraftTree((1, 2, 3), (-1, 0, 0), ("test",) * 3)
    every = backend.step(cache, tree, range(3)).logits
    assert every.dtype == np.float32
    assert every.shape == (3, 320)
    assert np.array_equal(backend.step(cache, tree, [2, 0]).logits, every[[2, 0]])
    assert backend.step(cache, tree, []).logits.shape == (0, 320)


def test_a_step_commits_nothing(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    first = backend.step(cache, DraftTree.root(5), [0]).logits
    backend.step(cache, DraftTree.chain([6, 7, 8, 9], "test"), [])
    assert cache.length == 40
    assert np.array_equal(backend.step(cache, DraftTree.root(5), [0]).logits, first)


def test_tapped_hidden_states(tmp_path: Path) -> None:
    backend = TorchReferenceBackend.load(make_tiny_model(tmp_path), ENGINE, tapped_layers=(0, 1, 2))
    cache = backend.new_cache(40)
    output = backend.step(cache, DraftTree.chain([5, 6, 7], "test"), [0, 1, 2])
    assert {layer: tuple(state.shape) for layer, state in output.hidden.items()} == dict.fromkeys((0, 1, 2), (3, 64))
    assert backend.tapped_layers == (0, 1, 2)
    again = backend.step(cache, DraftTree.chain([5, 6], "test"), [])
    for layer, state in again.hidden.items():
        assert torch.equal(state, output.hidden[layer][:2])
    assert not torch.equal(output.hidden[1], output.hidden[2])
    with pytest.raises(RequestInvalid, match=r"0\.\.2"):
        TorchReferenceBackend.load(tmp_path, ENGINE, tapped_layers=(3,))


def test_commit_takes_a_path_from_the_root(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    tree = DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4)
    with pytest.raises(RequestInvalid, match="no step"):
        backend.commit(cache, [0])
    for path in ([], [1], [0, 3], [0, 1, 2], [0, 0], [0, 2, 3, 4], [-1]):
        backend.step(cache, tree, [])
        with pytest.raises(RequestInvalid, match="not a path"):
            backend.commit(cache, path)
    backend.commit(cache, [0, 2, 3])
    assert cache.length == 43
    with pytest.raises(RequestInvalid, match="no step"):
        backend.commit(cache, [0])


def test_prefill_starts_at_whole_chunks(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    with pytest.raises(RequestInvalid, match="multiple of 32"):
        backend.prefill(cache, [1])
    backend.truncate(cache, 32)
    backend.prefill(cache, TOKENS[32:40])
    assert cache.length == 40


def test_truncate_forgets(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    expected = backend.step(cache, DraftTree.root(5), [0]).logits
    backend.step(cache, DraftTree.chain([7, 8, 9], "test"), [])
    backend.commit(cache, [0, 1, 2])
    backend.truncate(cache, 40)
    assert np.array_equal(backend.step(cache, DraftTree.root(5), [0]).logits, expected)
    for length in (41, -1):
        with pytest.raises(RequestInvalid, match="cannot be cut"):
            backend.truncate(cache, length)


def test_a_fork_is_independent(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    expected = backend.step(cache, DraftTree.root(5), [0]).logits
    twin = backend.fork(cache)
    assert (twin.length, twin.capacity) == (40, 80)
    with pytest.raises(RequestInvalid, match="no step"):
        backend.commit(twin, [0])  # the tree of the step stays with the original
    backend.truncate(twin, 0)
    backend.prefill(twin, TOKENS[100:150])
    assert np.array_equal(backend.step(cache, DraftTree.root(5), [0]).logits, expected)


def test_capacity_and_positions(backend: TorchReferenceBackend, cache: KeyValueCache) -> None:
    with pytest.raises(CapacityExceeded, match="4101"):
        backend.new_cache(4096 + 5)
    with pytest.raises(RequestInvalid, match="holds nothing"):
        backend.new_cache(0)
    backend.truncate(cache, 0)
    with pytest.raises(CapacityExceeded, match="80 positions"):
        backend.prefill(cache, TOKENS[:81])
    assert cache.length == 0
    backend.prefill(cache, TOKENS[:78])
    backend.step(cache, DraftTree.chain([1, 2], "test"), [])
    with pytest.raises(CapacityExceeded, match="80 positions"):
        backend.step(cache, DraftTree((1, 2, 3), (-1, 0, 0), ("test",) * 3), [])


def test_the_model_s_last_position(tmp_path: Path) -> None:
    config = make_tiny_model(tmp_path) / "config.json"
    config.write_text(config.read_text().replace("4096", "50"))
    backend = TorchReferenceBackend.load(tmp_path, ENGINE)
    cache = backend.new_cache(54)
    backend.prefill(cache, TOKENS[:49])
    backend.step(cache, DraftTree.root(1), [0])
    with pytest.raises(CapacityExceeded, match="position 50"):
        backend.step(cache, DraftTree.chain([1, 2], "test"), [])
    backend.truncate(cache, 0)
    with pytest.raises(CapacityExceeded, match="position 50"):
        backend.prefill(cache, TOKENS[:51])


@pytest.mark.parametrize(
    ("tree", "rows", "named"),
    [
        (DraftTree.chain(range(5), "test"), [], "5 nodes"),
        (DraftTree.root(1), [1], "logit rows"),
        (DraftTree.root(320), [], "token 320"),
        (DraftTree.root(-1), [], "token -1"),
    ],
)
def test_steps_that_cannot_be(
    backend: TorchReferenceBackend, cache: KeyValueCache, tree: DraftTree, rows: list[int], named: str
) -> None:
    with pytest.raises(RequestInvalid, match=named):
        backend.step(cache, tree, rows)


@pytest.mark.parametrize("engine", [EngineConfig(width=0), EngineConfig(prefill_chunk=0)])
def test_settings_that_cannot_be(tmp_path: Path, engine: EngineConfig) -> None:
    with pytest.raises(RequestInvalid, match="at least 1"):
        TorchReferenceBackend.load(make_tiny_model(tmp_path), engine)


def test_identity_names_what_bits_depend_on(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    identities = {
        TorchReferenceBackend.load(folder, engine).identity
        for engine in (
            EngineConfig(device="cpu", threads=1),
            EngineConfig(device="cpu", threads=1, width=4),
            EngineConfig(device="cpu", threads=1, prefill_chunk=64),
        )
    }
    assert len(identities) == 3
    for part in ("torch_reference", "fp32", "cpu", "1t"):
        assert all(part in identity for identity in identities)


def test_close_is_idempotent(tmp_path: Path) -> None:
    backend = TorchReferenceBackend.load(make_tiny_model(tmp_path), ENGINE)
    cache = backend.new_cache(10)
    backend.close()
    backend.close()
    with pytest.raises(RequestInvalid, match="closed"):
        backend.step(cache, DraftTree.root(1), [0])


@pytest.mark.parametrize("threads", [0, -1, 257, 999_999])
def test_a_number_of_threads_that_no_machine_has_is_refused(tmp_path: Path, threads: int) -> None:
    # Hundreds of thousands end the process inside OpenMP, without a word.
    with pytest.raises(RequestInvalid, match="from 1 to 256"):
        TorchReferenceBackend.load(make_tiny_model(tmp_path), EngineConfig(threads=threads))


def test_an_unknown_device_is_not_taken_for_auto(tmp_path: Path) -> None:
    with pytest.raises(RequestInvalid, match="'tpu'"):
        TorchReferenceBackend.load(make_tiny_model(tmp_path), EngineConfig(device="tpu"))  # type: ignore[arg-type]


def test_another_width_shares_the_weights_and_is_its_own_back_end(backend: TorchReferenceBackend) -> None:
    narrow = backend.with_width(1)
    assert (narrow.width, backend.width) == (1, 4)
    assert narrow.parameters == backend.parameters
    assert narrow.identity == backend.identity.replace("/W4/", "/W1/")
    cache = narrow.new_cache(80)
    narrow.prefill(cache, TOKENS[:40])
    logits = narrow.step(cache, DraftTree.root(TOKENS[40]), [0]).logits
    other = backend.new_cache(80)
    backend.prefill(other, TOKENS[:40])
    assert np.abs(logits - backend.step(other, DraftTree.root(TOKENS[40]), [0]).logits).max() < 1e-4
    narrow.close()
    backend.step(other, DraftTree.root(TOKENS[40]), [0])
