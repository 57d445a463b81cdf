"""What the native back-end reads of a checkpoint's files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.native.checkpoint_tensors import Part, model_tensors
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.tree import DraftTree
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model

pytestmark = needs_kernels
ENGINE = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=32)


def logits(backend: NativeBackend) -> np.ndarray:
    """Of seven tokens at the start."""
    cache = backend.new_cache(64)
    return backend.step(cache, DraftTree.chain([5, 250, 17, 3, 99, 301, 8], "test"), range(7)).logits


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_tensors_of_two_bytes(tmp_path: Path, precision: str) -> None:
    folder, found = make_tiny_model(tmp_path / "model"), []
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        other = make_tiny_model(tmp_path / str(kind))
        tensors = {
            name: torch.from_numpy(value).to(torch.bfloat16).to(torch.float16).to(kind)
            for name, value in load_file(folder / "model.safetensors").items()
        }
        save_file(tensors, other / "model.safetensors")
        found.append(logits(NativeBackend.load(other, ENGINE, precision=precision)))  # type: ignore[arg-type]
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[2])


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_every_tensor_is_one_part_of_one_layer(tmp_path: Path, family: str) -> None:
    found = model_tensors(read_model_config(make_tiny_model(tmp_path, family)))
    assert len({(tensor.layer, tensor.part) for tensor in found}) == len(found)
    named = {tensor.name: (tensor.layer, tensor.part, tensor.rows, tensor.columns) for tensor in found}
    assert named["model.layers.1.mlp.down_proj.weight"] == (1, Part.DOWN, 64, 96)
    assert named["model.norm.weight"] == (0, Part.FINAL_NORM, 64, 1)
    assert NativeBackend.load(tmp_path, ENGINE).parameters == TorchReferenceBackend.load(tmp_path, ENGINE).parameters


def test_memory_of_the_weights(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    tensors = model_tensors(read_model_config(folder))
    vectors = sum(tensor.rows for tensor in tensors if tensor.columns == 1)
    matrices = sum(tensor.rows * tensor.columns for tensor in tensors) - vectors
    assert NativeBackend.load(folder, ENGINE, precision="fp32").weight_bytes == 4 * (matrices + vectors)
    assert NativeBackend.load(folder, ENGINE).weight_bytes == matrices + matrices // 32 * 2 + 4 * vectors


def _header(text: bytes, length: int | None = None) -> bytes:
    return (len(text) if length is None else length).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        _header(b"{}", 2**63),
        _header(b"[]"),
        _header(b"{'"),
        _header(b"[" * 200_000),
        _header(b"\xff\xff"),
        _header(b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}'),
        _header(b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}') + b"x" * 16,
        _header(b'{"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}') + b"x" * 16,
        _header(b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}}') + b"x" * 16,
        _header(b'{"a": {"dtype": 4, "shape": [4], "data_offsets": [0, 16]}}') + b"x" * 16,
        _header(b'{"a": {"dtype": "F32", "shape": 4, "data_offsets": 16}}') + b"x" * 16,
        _header(b'{"a": 7}'),
        _header(b'{"__metadata__": 7}'),
        _header(b'{"__metadata__": {"a": 7}}'),
        _header(b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}') + b"x" * 16,  # sound, but not ours
    ],
)
def test_files_that_are_not_the_model(tmp_path: Path, content: bytes) -> None:
    folder = make_tiny_model(tmp_path)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(WeightsMismatch):
        NativeBackend.load(folder, ENGINE)


def test_tensors_of_another_shape(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:-1]
    tensors["model.layers.1.mlp.up_proj.weight"] = tensors["model.layers.1.mlp.up_proj.weight"].T.copy()
    save_file({name: torch.from_numpy(value) for name, value in tensors.items()}, folder / "model.safetensors")
    with pytest.raises(WeightsMismatch, match=r"up_proj.*norm"):
        NativeBackend.load(folder, ENGINE)


@pytest.mark.parametrize("size", [2**24 + 32, 2**31, 2**32 + 64, 10**30], ids=str)
@pytest.mark.parametrize(
    "field",
    ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim"],
)
def test_absurd_sizes_are_the_model_s_error_and_named(tmp_path: Path, field: str, size: int) -> None:
    folder = make_tiny_model(tmp_path)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "head_dim": 16, field: size}))
    with pytest.raises(ModelUnsupported, match=rf"config\.json: {field} is {size}") as caught:
        NativeBackend.load(folder, ENGINE)
    assert str(folder) in caught.value.message


@pytest.mark.parametrize("field", ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim"])
def test_sizes_that_the_weights_do_not_have_are_refused_before_memory_is_asked_for(tmp_path: Path, field: str) -> None:
    folder = make_tiny_model(tmp_path)
    file = folder / "config.json"
    size = 4096 if field == "num_hidden_layers" else 1 << 22
    file.write_text(json.dumps({**json.loads(file.read_text()), field: size}))
    with pytest.raises(WeightsMismatch, match=r"do not fit its config\.json"):
        NativeBackend.load(folder, ENGINE)


def test_all_channels_together_have_a_limit(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "num_attention_heads": 1 << 14, "head_dim": 1 << 14}))
    with pytest.raises(ModelUnsupported, match=r"config\.json: num_attention_heads times head_dim is 268435456"):
        NativeBackend.load(folder, ENGINE)
