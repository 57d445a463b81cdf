"""What an adapter's file must be, and what merging one gives."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file as load_numpy
from safetensors.torch import load_file, save_file

from fetchly_llm.adapter import (
    ADAPTER_VERSION,
    Adapter,
    adapted_linear,
    adapter_shapes,
    merged,
    read_adapter,
    read_adapter_config,
    write_adapter,
)
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.stream_config import LINEARS
from tests.support.embedded_shape import EMBEDDED
from tests.support.tiny_adapter import BASE, make_tiny_adapter, tiny_adapter, updates
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model

METADATA = {"format": ADAPTER_VERSION, "rank": "3", "alpha": "4.0", "base": BASE, "prompt_format": "7"}
FIRST = "layers.0.down_proj.lora_A"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    return read_model_config(make_tiny_model(tmp_path_factory.mktemp("model"), "llama"))


def refusal(file: Path, model: ModelConfig) -> str:
    with pytest.raises(WeightsMismatch) as caught:
        read_adapter(file, model)
    assert caught.value.hint
    assert str(file) in caught.value.message
    return caught.value.message


def changed(file: Path, model: ModelConfig, tensors: dict[str, torch.Tensor | None], **metadata: str | None) -> Path:
    """An adapter's file with tensors and metadata put in or, where they are None, taken out."""
    found = load_file(make_tiny_adapter(file, model)) | tensors
    settings = METADATA | metadata
    save_file(
        {name: tensor for name, tensor in found.items() if tensor is not None},
        file,
        metadata={name: value for name, value in settings.items() if value is not None},
    )
    return file


def test_every_linear_of_every_layer_is_adapted() -> None:
    shapes = adapter_shapes(tiny_adapter(EMBEDDED, rank=16).config, EMBEDDED)
    assert len(shapes) == EMBEDDED.num_layers * len(LINEARS) * 2
    assert shapes["layers.0.q_proj.lora_A"] == (16, 576)
    assert shapes["layers.29.k_proj.lora_B"] == (192, 16)
    assert shapes["layers.29.down_proj.lora_A"] == (16, 1536)
    assert sum(np.prod(shape) for shape in shapes.values()) == 4_884_480


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_a_file_is_read_as_it_was_written(tmp_path: Path, family: str) -> None:
    model = read_model_config(make_tiny_model(tmp_path / "model", family))
    adapter = tiny_adapter(model)
    write_adapter(tmp_path / "a.safetensors", adapter, model)
    found = read_adapter(tmp_path / "a.safetensors", model)
    assert found.config == adapter.config == read_adapter_config(tmp_path / "a.safetensors")
    assert found.tensors.keys() == adapter.tensors.keys()
    for name, values in adapter.tensors.items():
        rounded = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
        assert found.tensors[name].dtype == np.float32
        assert np.array_equal(found.tensors[name], rounded), name
    write_adapter(tmp_path / "again.safetensors", found, model)
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


def test_a_file_says_what_it_is(tmp_path: Path, model: ModelConfig) -> None:
    with safe_open(make_tiny_adapter(tmp_path / "a.safetensors", model), framework="numpy") as stored:
        assert stored.metadata() == METADATA
        assert {stored.get_slice(name).get_dtype() for name in stored.keys()} == {"BF16"}  # noqa: SIM118


def test_fp32_is_read_to_the_last_bit(tmp_path: Path, model: ModelConfig) -> None:
    values = tiny_adapter(model, seed=3).tensors
    file = changed(tmp_path / "a.safetensors", model, {name: torch.from_numpy(value) for name, value in values.items()})
    assert load_numpy(file)[FIRST].dtype == np.float32
    found = read_adapter(file, model).tensors
    assert all(np.array_equal(found[name], value) for name, value in values.items())


def test_names_of_linears() -> None:
    names = {
        "model.layers.3.self_attn.q_proj.weight": "layers.3.q_proj",
        "model.layers.12.self_attn.o_proj.weight": "layers.12.o_proj",
        "model.layers.0.mlp.gate_proj.weight": "layers.0.gate_proj",
        "model.layers.0.self_attn.q_proj.bias": None,
        "model.layers.0.self_attn.q_norm.weight": None,
        "model.layers.0.input_layernorm.weight": None,
        "model.embed_tokens.weight": None,
        "lm_head.weight": None,
    }
    assert {name: adapted_linear(name) for name in names} == names


def test_merging_adds_the_product(model: ModelConfig) -> None:
    adapter = tiny_adapter(model)
    for name, update in updates(adapter).items():
        linear = adapted_linear(name)
        assert linear is not None
        weight = np.random.default_rng(1).standard_normal(update.shape, dtype=np.float32)
        found = merged(weight, adapter, linear)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, weight + update, rtol=0, atol=1e-6, err_msg=name)
        assert np.abs(found - weight).max() > 0.01


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), rank=st.integers(1, 8), cuts=st.data())
def test_the_bits_of_a_merged_weight_do_not_depend_on_blocks(
    rows: int, columns: int, rank: int, cuts: st.DataObject
) -> None:
    random = np.random.default_rng([rows, columns, rank])

    def bf16(*shape: int) -> np.ndarray:
        values = torch.from_numpy(random.standard_normal(shape, dtype=np.float32) * np.float32(0.1))
        return values.to(torch.bfloat16).float().numpy()

    config = replace(tiny_adapter(EMBEDDED).config, rank=rank, alpha=5.0)
    tensors = {"layers.0.q_proj.lora_A": bf16(rank, columns), "layers.0.q_proj.lora_B": bf16(rows, rank)}
    adapter, weight = Adapter(config, tensors), random.standard_normal((rows, columns), dtype=np.float32)
    whole = merged(weight, adapter, "layers.0.q_proj")
    cut = cuts.draw(st.integers(0, rows))
    blocks = [merged(weight[:cut], adapter, "layers.0.q_proj"), merged(weight[cut:], adapter, "layers.0.q_proj", cut)]
    assert np.array_equal(np.concatenate(blocks), whole)
    # Added up in the other direction, one rank at a time, as another machine might.
    down, up = (values.astype(np.float64) for values in tensors.values())
    total = np.zeros((rows, columns))
    for number in reversed(range(rank)):
        total += np.outer(up[:, number], down[number])
    assert np.array_equal((weight + total * (5.0 / rank)).astype(np.float32), whole)


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"format": "fetchly-adapter-2"}, "is of format 'fetchly-adapter-2', not 'fetchly-adapter-1'"),
        ({"format": None}, "is of format None"),
        ({"rank": None}, "lacks ['rank']"),
        ({"note": "x"}, "unknown ['note']"),
        ({"rank": "three"}, "garbled"),
        ({"rank": "0"}, "rank must be at least 1"),
        ({"rank": "-3"}, "rank must be at least 1"),
        ({"rank": "4"}, "wrong shape"),
        ({"alpha": ""}, "garbled"),
        ({"alpha": "0"}, "alpha must be a positive number"),
        ({"alpha": "nan"}, "alpha must be a positive number"),
        ({"alpha": "inf"}, "alpha must be a positive number"),
        ({"base": "smollm2"}, "base must be a sha256"),
        ({"base": BASE.upper()}, "base must be a sha256"),
        ({"prompt_format": ""}, "prompt_format must not be empty"),
    ],
)
def test_settings_that_cannot_be(
    tmp_path: Path, model: ModelConfig, metadata: dict[str, str | None], complaint: str
) -> None:
    file = changed(tmp_path / "a.safetensors", model, {}, **metadata)
    assert complaint in refusal(file, model)


@pytest.mark.parametrize(
    ("tensors", "complaint"),
    [
        ({FIRST: None}, f"missing: {FIRST}"),
        ({"layers.2.q_proj.lora_A": torch.zeros(3, 64)}, "unexpected: layers.2.q_proj.lora_A"),
        ({FIRST: torch.zeros(3, 95)}, f"wrong shape: {FIRST} is (3, 95), not (3, 96)"),
        ({FIRST: torch.zeros(3 * 96)}, f"wrong shape: {FIRST} is (288,), not (3, 96)"),
        ({FIRST: torch.zeros(3, 96, dtype=torch.float16)}, "are F16, not BF16 or F32"),
        ({FIRST: torch.zeros(3, 96, dtype=torch.int64)}, "are I64, not BF16 or F32"),
        ({FIRST: torch.full((3, 96), torch.nan)}, f"not finite: {FIRST}"),
        ({FIRST: torch.full((3, 96), -torch.inf, dtype=torch.bfloat16)}, f"not finite: {FIRST}"),
    ],
)
def test_tensors_that_do_not_fit(
    tmp_path: Path, model: ModelConfig, tensors: dict[str, torch.Tensor | None], complaint: str
) -> None:
    assert complaint in refusal(changed(tmp_path / "a.safetensors", model, tensors), model)


@pytest.mark.parametrize("keep", [0, 7, 8, 100, -1])
def test_damaged_files(tmp_path: Path, model: ModelConfig, keep: int) -> None:
    file = make_tiny_adapter(tmp_path / "a.safetensors", model)
    file.write_bytes(file.read_bytes()[:keep])
    assert "cannot be read as safetensors" in refusal(file, model)


@given(place=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, model: ModelConfig, place: int, byte: int
) -> None:
    file = make_tiny_adapter(tmp_path_factory.mktemp("changed") / "a.safetensors", model)
    contents = bytearray(file.read_bytes())
    contents[place] = byte
    file.write_bytes(contents)
    with suppress(WeightsMismatch):
        read_adapter(file, model)


def test_no_file(tmp_path: Path, model: ModelConfig) -> None:
    with pytest.raises(ModelMissing, match="no adapter"):
        read_adapter(tmp_path / "a.safetensors", model)


@pytest.mark.parametrize("value", [np.nan, np.inf, -3.4e38])
def test_what_bf16_cannot_hold_is_not_written(tmp_path: Path, model: ModelConfig, value: float) -> None:
    file = make_tiny_adapter(tmp_path / "a.safetensors", model)
    before, adapter = file.read_bytes(), tiny_adapter(model, seed=1)
    adapter.tensors[FIRST][2, 5] = value
    with pytest.raises(WeightsMismatch, match=FIRST):
        write_adapter(file, adapter, model)
    assert file.read_bytes() == before


def test_what_does_not_fit_is_not_written(tmp_path: Path, model: ModelConfig) -> None:
    file, adapter = tmp_path / "a.safetensors", tiny_adapter(model)
    for wrong in (
        replace(adapter, config=replace(adapter.config, rank=4)),
        replace(adapter, config=replace(adapter.config, alpha=-1.0)),
        replace(adapter, tensors={name: value for name, value in adapter.tensors.items() if name != FIRST}),
    ):
        with pytest.raises(WeightsMismatch):
            write_adapter(file, wrong, model)
    assert not list(tmp_path.iterdir())


def test_whoever_reads_the_old_file_keeps_it(tmp_path: Path, model: ModelConfig) -> None:
    file = make_tiny_adapter(tmp_path / "a.safetensors", model)
    before = file.read_bytes()
    with file.open("rb") as held:
        make_tiny_adapter(file, model, seed=1)
        assert held.read() == before
    assert file.read_bytes() != before


def test_a_crash_leaves_the_old_file(tmp_path: Path, model: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_tiny_adapter(tmp_path / "a.safetensors", model)
    before = file.read_bytes()

    def broken(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(KeyboardInterrupt):
        make_tiny_adapter(file, model, seed=1)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]
