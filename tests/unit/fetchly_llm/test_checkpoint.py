from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fetchly_llm.checkpoint import read_model_config, weight_files
from fetchly_llm.config import RopeScaling
from fetchly_llm.errors import ModelMissing, ModelUnsupported, WeightsMismatch

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "rope_theta": 100000,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
}
LLAMA3 = {
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def write(folder: Path, generation: dict[str, Any] | None = None, **changes: Any) -> Path:
    raw = {name: value for name, value in (LLAMA | changes).items() if value != "absent"}
    (folder / "config.json").write_text(json.dumps(raw))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def test_reads_a_small_llama(tmp_path: Path) -> None:
    config = read_model_config(write(tmp_path))
    assert (config.family, config.head_dim, config.num_kv_heads, config.rope_theta) == ("llama", 64, 3, 100000.0)
    assert (config.tie_word_embeddings, config.qkv_bias, config.qk_norm) == (True, False, False)
    assert (config.max_position, config.eos_token_ids, config.rope_scaling) == (8192, (2,), None)


def test_null_means_absent(tmp_path: Path) -> None:
    config = read_model_config(write(tmp_path, num_key_value_heads=None, head_dim=None, rope_scaling=None))
    assert (config.num_kv_heads, config.head_dim) == (9, 64)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": 500000.0, "rope_scaling": LLAMA3},
        {"rope_theta": "absent", "rope_parameters": {**LLAMA3, "rope_theta": 500000.0}},
        {"rope_theta": 500000.0, "rope_scaling": {**LLAMA3, "type": "llama3", "rope_type": "llama3"}},
    ],
)
def test_rope_of_old_and_new_configurations(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = read_model_config(write(tmp_path, **changes))
    assert config.rope_theta == 500000.0
    assert config.rope_scaling == RopeScaling(32.0, 1.0, 4.0, 8192)


@pytest.mark.parametrize("kind", ["yarn", "dynamic", "linear", "longrope"])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_other_rope_scalings_are_refused_by_name(tmp_path: Path, kind: str, place: str) -> None:
    with pytest.raises(ModelUnsupported, match=kind):
        read_model_config(write(tmp_path, **{place: {"rope_type": kind, "factor": 4.0}}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_act": "gelu"}, "gelu"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_size": "absent"}, "hidden_size"),
        ({"num_hidden_layers": "30"}, "num_hidden_layers"),
        ({"num_hidden_layers": 5000}, r"config\.json: num_hidden_layers is 5000"),
        ({"vocab_size": 2**31}, r"config\.json: vocab_size is 2147483648"),
        ({"max_position_embeddings": 10**30}, r"config\.json: max_position_embeddings is 10{30}"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
        ({"eos_token_id": "</s>"}, "eos_token_id"),
        ({"rope_theta": "x"}, "rope_theta"),
        ({"rope_theta": 0}, "rope_theta"),
        ({"rms_norm_eps": -1e-6}, "rms_norm_eps"),
    ],
)
def test_what_cannot_run_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ModelUnsupported, match=named):
        read_model_config(write(tmp_path, **changes))


@pytest.mark.parametrize(
    ("family", "changes", "expected"),
    [
        ("mistral", {"sliding_window": None}, 8192),
        ("mistral", {"sliding_window": 1024}, 1024),
        ("mistral", {}, 4096),
        ("qwen2", {"sliding_window": 1024, "use_sliding_window": False}, 8192),
        ("qwen2", {"sliding_window": 1024, "use_sliding_window": True}, 1024),
        ("qwen3", {"sliding_window": None, "use_sliding_window": False}, 8192),
    ],
)
def test_an_active_sliding_window_bounds_the_positions(
    tmp_path: Path, family: str, changes: dict[str, Any], expected: int
) -> None:
    assert read_model_config(write(tmp_path, model_type=family, **changes)).max_position == expected


def test_what_the_families_differ_in(tmp_path: Path) -> None:
    by_family = {
        family: read_model_config(write(tmp_path, model_type=family, attention_bias=True))
        for family in ("llama", "mistral", "qwen2", "qwen3")
    }
    assert {family: config.qkv_bias for family, config in by_family.items()} == {
        "llama": True,
        "mistral": False,
        "qwen2": True,
        "qwen3": True,
    }
    assert [family for family, config in by_family.items() if config.qk_norm] == ["qwen3"]
    assert by_family["qwen3"].head_dim == 128
    assert read_model_config(write(tmp_path, model_type="qwen2")).qkv_bias


@pytest.mark.parametrize(
    ("generation", "own", "expected"),
    [
        ({"eos_token_id": [151645, 151643]}, 151643, (151645, 151643)),
        ({"eos_token_id": 7}, [2, 3], (7, 2, 3)),
        ({}, None, ()),
        (None, [2, 2], (2,)),
    ],
)
def test_every_end_is_known(
    tmp_path: Path, generation: dict[str, Any] | None, own: Any, expected: tuple[int, ...]
) -> None:
    assert read_model_config(write(tmp_path, generation, eos_token_id=own)).eos_token_ids == expected


def test_another_architecture_gives_what_is_readable(tmp_path: Path) -> None:
    gpt2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    (tmp_path / "config.json").write_text(json.dumps(gpt2))
    config = read_model_config(tmp_path)
    assert (config.family, config.vocab_size, config.hidden_size, config.head_dim) == ("other", 50257, 768, 64)
    assert (config.max_position, config.intermediate_size) == (1024, 0)


def test_a_nested_text_configuration_is_read(tmp_path: Path) -> None:
    raw = {"model_type": "gemma3", "text_config": {"hidden_size": 64, "vocab_size": 99, "eos_token_id": 1}}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    config = read_model_config(tmp_path)
    assert (config.hidden_size, config.vocab_size, config.eos_token_ids) == (64, 99, (1,))


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"config\.json"):
        read_model_config(tmp_path)
    with pytest.raises(ModelMissing, match="safetensors"):
        weight_files(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "[" * 200_000])
def test_a_broken_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelUnsupported, match=r"config\.json"):
        read_model_config(tmp_path)


def test_weight_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    assert weight_files(tmp_path) == (tmp_path / "model.safetensors",)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {"a": "two.safetensors", "b": "one.safetensors", "c": "two.safetensors"}})
    )
    with pytest.raises(WeightsMismatch, match=r"one\.safetensors, two\.safetensors"):
        weight_files(tmp_path)
    (tmp_path / "one.safetensors").touch()
    (tmp_path / "two.safetensors").touch()
    assert weight_files(tmp_path) == (tmp_path / "one.safetensors", tmp_path / "two.safetensors")


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": {"a": 1}}, {"weight_map": {"a": "../b"}}])
def test_a_broken_index(tmp_path: Path, index: dict[str, Any]) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(WeightsMismatch):
        weight_files(tmp_path)
