from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.errors import WeightsMismatch
from tests.support.tiny_model import make_tiny_model, tiny_weights

CPU = torch.device("cpu")
Tensors = dict[str, NDArray[np.float32]]


@pytest.fixture
def tensors() -> Tensors:
    return tiny_weights("llama-untied", 0, 320)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path, "llama-untied")


def refusal(folder: Path, tensors: Tensors) -> str:
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(WeightsMismatch) as caught:
        load_weights(folder, read_model_config(folder), CPU)
    return caught.value.message


def test_projections_are_fused(folder: Path, tensors: Tensors) -> None:
    weights = load_weights(folder, read_model_config(folder), CPU)
    prefix = "model.layers.1."
    qkv = np.concatenate([tensors[f"{prefix}self_attn.{name}_proj.weight"] for name in "qkv"])
    gate_up = np.concatenate([tensors[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up")])
    assert np.array_equal(weights.layers[1].qkv.numpy(), qkv)
    assert np.array_equal(weights.layers[1].gate_up.numpy(), gate_up)
    assert np.array_equal(weights.head.numpy(), tensors["lm_head.weight"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_fp32(folder: Path, tensors: Tensors, dtype: torch.dtype) -> None:
    halves = {name: torch.from_numpy(value).to(dtype) for name, value in tensors.items()}
    save_torch_file(halves, folder / "model.safetensors")
    weights = load_weights(folder, read_model_config(folder), CPU)
    assert weights.embedding.dtype == torch.float32
    assert torch.equal(weights.embedding, halves["model.embed_tokens.weight"].float())


def test_shards(folder: Path, tensors: Tensors) -> None:
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    weights = load_weights(folder, read_model_config(folder), CPU)
    assert np.array_equal(weights.final_norm.numpy(), tensors["model.norm.weight"])


def test_a_missing_tensor_is_named(folder: Path, tensors: Tensors) -> None:
    del tensors["model.layers.0.mlp.up_proj.weight"]
    assert "missing: model.layers.0.mlp.up_proj.weight" in refusal(folder, tensors)


def test_an_unexpected_tensor_is_named(folder: Path, tensors: Tensors) -> None:
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(64, dtype=np.float32)
    assert "unexpected: model.layers.0.self_attn.q_proj.bias" in refusal(folder, tensors)


def test_a_wrong_shape_is_named(folder: Path, tensors: Tensors) -> None:
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:-1].copy()
    assert "lm_head.weight is (319, 64), not (320, 64)" in refusal(folder, tensors)


def test_a_long_list_is_cut(folder: Path) -> None:
    assert "more" in refusal(folder, {"nothing": np.zeros(1, dtype=np.float32)})


def test_what_the_configuration_implies_may_be_stored_too(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path, "llama")
    tensors = tiny_weights("llama", 0, 320)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.zeros(8, dtype=np.float32)
    save_file(tensors, folder / "model.safetensors")
    weights = load_weights(folder, read_model_config(folder), CPU)
    assert weights.head is weights.embedding


def test_a_file_that_is_not_safetensors(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(WeightsMismatch, match=r"model\.safetensors cannot be read"):
        load_weights(folder, read_model_config(folder), CPU)
