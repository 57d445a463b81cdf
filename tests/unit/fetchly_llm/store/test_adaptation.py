"""Merging an adapter into a checkpoint folder of a user's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch_file

from fetchly_llm.adapter import read_adapter
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.store import SilentProgress
from fetchly_llm.store.adaptation import adapt_folder
from fetchly_llm.store.checkpoint_folder import check_folder
from tests.support.tiny_adapter import make_tiny_adapter, updates
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model
from tests.support.tiny_streams import make_tiny_streams

Q = "model.layers.1.self_attn.q_proj.weight"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path / "base", "llama")


def adapted(base: Path) -> Path:
    """The folder of the adapted model."""
    folder = base.parent / "adapted"
    folder.mkdir()
    adapter = make_tiny_adapter(base.parent / "a.safetensors", read_model_config(base))
    adapt_folder(base, folder, adapter, SilentProgress())
    return folder


def merged(base: Path, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    added = updates(read_adapter(base.parent / "a.safetensors", read_model_config(base)))
    summed = {name: (values + added.get(name, 0)).astype(np.float32) for name, values in weights.items()}
    return {name: values.astype(np.float16) for name, values in summed.items()}


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_every_family(tmp_path: Path, family: str) -> None:
    base = make_tiny_model(tmp_path / "base", family)
    folder = adapted(base)
    check_folder(folder)
    assert read_model_config(folder) == read_model_config(base)
    assert_equal(load_file(folder / "model.safetensors"), merged(base, load_file(base / "model.safetensors")))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_weights_of_two_bytes(base: Path, kind: torch.dtype) -> None:
    weights = {name: torch.from_numpy(value).to(kind) for name, value in load_file(base / "model.safetensors").items()}
    save_torch_file(weights, base / "model.safetensors")
    wide = {name: value.float().numpy() for name, value in weights.items()}
    assert_equal(load_file(adapted(base) / "model.safetensors"), merged(base, wide))


def test_several_files_become_one_and_streams_stay_behind(base: Path) -> None:
    make_tiny_streams(base)
    weights = load_file(base / "model.safetensors")
    (base / "model.safetensors").unlink()
    places = {}
    for number, names in enumerate((sorted(weights)[:5], sorted(weights)[5:])):
        save_file({name: weights[name] for name in names}, base / f"model-{number}.safetensors")
        places |= dict.fromkeys(names, f"model-{number}.safetensors")
    (base / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    folder = adapted(base)
    assert [path.name for path in folder.glob("*.safetensors*")] == ["model.safetensors"]
    assert_equal(load_file(folder / "model.safetensors"), merged(base, weights))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({Q: None}, "missing: layers.1.q_proj"),
        ({Q.replace("1", "2"): np.zeros((64, 64), np.float32)}, "unexpected: layers.2.q_proj"),
        ({Q: np.zeros((65, 64), np.float32)}, r"layers.1.q_proj is \(65, 64\), not \(64, 64\)"),
        ({Q: np.zeros((64, 0), np.float32)}, r"layers.1.q_proj is \(64, 0\)"),
    ],
)
def test_weights_of_another_model(base: Path, change: dict[str, np.ndarray | None], complaint: str) -> None:
    weights = load_file(base / "model.safetensors") | change
    save_file({name: value for name, value in weights.items() if value is not None}, base / "model.safetensors")
    with pytest.raises(WeightsMismatch, match=complaint):
        adapted(base)


def test_what_no_back_end_wants_is_carried_along(base: Path) -> None:
    extra = {"rotary.scale": np.array(3.0, np.float32), "empty": np.zeros((4, 0), np.float32)}
    save_file(load_file(base / "model.safetensors") | extra, base / "model.safetensors")
    found = load_file(adapted(base) / "model.safetensors")
    assert found["rotary.scale"] == 3.0
    assert found["empty"].shape == (4, 0)


def test_other_types(base: Path) -> None:
    weights = load_file(base / "model.safetensors") | {Q: np.zeros((64, 64), np.int8)}
    save_file(weights, base / "model.safetensors")
    with pytest.raises(ModelUnsupported, match="stored as I8"):
        adapted(base)


@pytest.mark.parametrize("keep", [4, 100, -1])
def test_damaged_weights(base: Path, keep: int) -> None:
    file = base / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(WeightsMismatch, match="cannot be read as safetensors"):
        adapted(base)
