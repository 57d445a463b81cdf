from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.transformers_adapter.backend import TransformersBackend
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid
from fetchly_llm.tree import DraftTree
from tests.support.tiny_model import make_tiny_model

ENGINE = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=16)
TOKENS = np.random.default_rng(5).integers(3, 259, 120).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def backend(folder: Path) -> TransformersBackend:
    return TransformersBackend.load(folder, ENGINE)


def plain(backend: TransformersBackend, first: int, last: int) -> list[bytes]:
    """Logits of positions `first` to `last` of TOKENS, decoded one by one."""
    cache = backend.new_cache(200)
    backend.prefill(cache, TOKENS[:first])
    rows = []
    for token in TOKENS[first:last]:
        rows.append(backend.step(cache, DraftTree.root(token), [0]).logits[0].tobytes())
        backend.commit(cache, [0])
    return rows


def test_agrees_with_the_reference(folder: Path, backend: TransformersBackend) -> None:
    reference = TorchReferenceBackend.load(folder, ENGINE)
    ours, theirs = reference.new_cache(200), backend.new_cache(200)
    reference.prefill(ours, TOKENS[:53])
    backend.prefill(theirs, TOKENS[:53])
    for first in range(53, 100, 3):
        chain = DraftTree.chain(TOKENS[first : first + 4], "test")
        difference = reference.step(ours, chain, range(4)).logits - backend.step(theirs, chain, range(4)).logits
        assert np.abs(difference).max() < 1e-4
        for side, cache in ((reference, ours), (backend, theirs)):
            side.commit(cache, [0, 1, 2])
    assert ours.length == theirs.length


@pytest.mark.parametrize("first", [0, 1, 16, 30, 31, 33])
def test_chains_have_the_bits_of_plain_decoding(backend: TransformersBackend, first: int) -> None:
    expected = plain(backend, first, first + 24)
    cache = backend.new_cache(200)
    backend.prefill(cache, TOKENS[:first])
    found: list[bytes] = []
    for accepted in (1, 4, 3, 2, 4, 4, 1):
        wrong = [(token + 1) % 256 for token in TOKENS[first + len(found) + accepted :]]
        chain = [*TOKENS[first + len(found) : first + len(found) + accepted], *wrong][:4]
        rows = backend.step(cache, DraftTree.chain(chain, "test"), range(4)).logits
        backend.commit(cache, range(accepted))
        found += [row.tobytes() for row in rows[:accepted]]
    assert found == expected[: len(found)]


def test_a_fork_goes_its_own_way(backend: TransformersBackend) -> None:
    cache = backend.new_cache(200)
    backend.prefill(cache, TOKENS[:35])
    twin = backend.fork(cache)
    backend.step(twin, DraftTree.chain([9, 9, 9], "test"), [])
    backend.commit(twin, [0, 1, 2])
    backend.truncate(twin, 32)
    backend.prefill(twin, TOKENS[32:35])
    rows = [backend.step(side, DraftTree.root(7), [0]).logits.tobytes() for side in (cache, twin)]
    assert rows[0] == rows[1]


def test_what_cannot_be(backend: TransformersBackend) -> None:
    cache = backend.new_cache(20)
    with pytest.raises(RequestInvalid, match="branching"):
        backend.step(cache, DraftTree((1, 2, 3), (-1, 0, 0), ("t",) * 3), [])
    with pytest.raises(RequestInvalid, match="wider"):
        backend.step(cache, DraftTree.chain(range(5), "t"), [])
    with pytest.raises(RequestInvalid, match="no step"):
        backend.commit(cache, [0])
    with pytest.raises(CapacityExceeded, match="do not fit"):
        backend.prefill(cache, TOKENS[:21])
    backend.prefill(cache, TOKENS[:3])
    with pytest.raises(RequestInvalid, match="multiple of 16"):
        backend.prefill(cache, TOKENS[:3])
    with pytest.raises(RequestInvalid, match="vocabulary"):
        backend.step(cache, DraftTree.root(320), [])


def test_needs_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelUnsupported) as caught:
        TransformersBackend.load(folder, ENGINE)
    assert "fetchly[transformers]" in (caught.value.hint or "")


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "never-heard-of", "vocab_size": 8}))
    with pytest.raises(ModelUnsupported, match="never-heard-of"):
        load_backend(tmp_path, ENGINE)


def test_another_family_runs_through_the_registry(tmp_path: Path) -> None:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=320, max_position_embeddings=64, **shape)).save_pretrained(tmp_path)
    backend = load_backend(tmp_path, ENGINE)
    assert isinstance(backend, TransformersBackend)
    assert backend.config.family == "other"
    assert (backend.config.vocab_size, backend.config.max_position) == (320, 64)
    cache = backend.new_cache(64)
    backend.prefill(cache, TOKENS[:17])
    assert backend.step(cache, DraftTree.chain(TOKENS[17:20], "t"), [0, 2]).logits.shape == (2, 320)


def test_a_model_with_another_memory_is_refused(tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    MambaForCausalLM(MambaConfig(vocab_size=320, hidden_size=16, num_hidden_layers=1, state_size=4)).save_pretrained(
        tmp_path
    )
    with pytest.raises(ModelUnsupported, match="Mamba"):
        load_backend(tmp_path, ENGINE)
