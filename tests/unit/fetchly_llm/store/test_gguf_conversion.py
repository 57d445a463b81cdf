from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer as Library

from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.store import gguf_file
from fetchly_llm.store.entry import SilentProgress
from fetchly_llm.store.gguf_config import _llama3_scaling
from fetchly_llm.store.gguf_conversion import convert_gguf
from fetchly_llm.tokenizer import Tokenizer
from tests.support.tiny_gguf import TinyModel


def convert(model: TinyModel, folder: Path) -> dict[str, Any]:
    """The converted config.json; the folder holds the rest."""
    out = folder / "out"
    out.mkdir()
    convert_gguf(model.write(folder / "model.gguf"), out, SilentProgress())
    config: dict[str, Any] = json.loads((out / "config.json").read_text())
    return config


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_values_and_names_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, tied: bool
) -> None:
    monkeypatch.setattr(gguf_file, "CHUNK_ELEMENTS", 640)  # ten rows at a time, so that blocks have to be joined
    model = TinyModel(architecture, tied=tied)
    config = convert(model, tmp_path)
    converted = load_file(tmp_path / "out" / "model.safetensors")
    assert converted.keys() == model.tensors.keys()
    for name, values in model.tensors.items():
        np.testing.assert_array_equal(converted[name], values, err_msg=name)
    assert config["model_type"] == architecture
    assert config["tie_word_embeddings"] is tied
    assert config["attention_bias"] is (architecture == "qwen2")
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (4, 2, 16)
    assert (config["rope_theta"], config["rms_norm_eps"]) == (50_000.0, 1e-05)
    assert config["vocab_size"] == len(model.tokens())
    assert config["eos_token_id"] == 2


def test_quantised_rows_are_widened(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "q.gguf", "llama")
    quantised = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("token_embd.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensor = gguf_file.GgufFile(tmp_path / "q.gguf").tensors["token_embd.weight"]
    assert tensor.shape == (8, 64)
    np.testing.assert_allclose(tensor.values(), values, atol=0.03)
    order = np.arange(8)[::-1]
    np.testing.assert_array_equal(np.concatenate(list(tensor.chunks(order))), tensor.values()[::-1])


def test_the_written_tokenizer_is_the_file_s(tmp_path: Path) -> None:
    model = TinyModel(unused_tokens=3)
    convert(model, tmp_path)
    tokenizer = Tokenizer.load(tmp_path / "out")
    text = "hello world 1212 <|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.vocab_size == len(model.tokens()) - 3
    assert tokenizer.eos_token_ids == (2,)
    assert tokenizer.special_token_ids == {0, 1, 2}
    assert "[PAD0]" not in json.loads(tokenizer.json_text)["model"]["vocab"]


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("smollm", ["I", "'ve", " paid", " ", "1", "2", "3", "4", "€.", "\n", "\n", "OK", " "]),
        ("gpt-2", ["I", "'ve", " paid", " 1234", "€.", "\n", "\n", "OK", " "]),
        ("qwen2", ["I", "'ve", " paid", " ", "1", "2", "3", "4", "€.\n\n", "OK", " "]),
        ("llama-bpe", ["I", "'ve", " paid", " ", "123", "4", "€.\n\n", "OK", " "]),
    ],
)
def test_words_are_cut_as_the_file_says(tmp_path: Path, pre: str, words: list[str]) -> None:
    convert(TinyModel(pre=pre), tmp_path)
    library = Library.from_file(str(tmp_path / "out" / "tokenizer.json"))
    text = "I've paid 1234€.\n\nOK "
    cut = [text[start:end] for _, (start, end) in library.pre_tokenizer.pre_tokenize_str(text)]
    assert cut == words


def test_qwen_text_is_composed(tmp_path: Path) -> None:
    convert(TinyModel("qwen2", pre="qwen2"), tmp_path)
    tokenizer = Tokenizer.load(tmp_path / "out")
    assert tokenizer.encode("e\u0301") == tokenizer.encode("é")


@pytest.mark.parametrize(
    ("model", "error", "complaint"),
    [
        (TinyModel(pre="tekken"), ModelUnsupported, "'tekken'"),
        (TinyModel("gemma"), ModelUnsupported, "'gemma'"),
        (TinyModel(extra={"llama.expert_count": 8}), ModelUnsupported, "experts"),
        (TinyModel(extra={"llama.rope.scaling.type": "yarn"}), ModelUnsupported, "yarn"),
        (TinyModel(extra={"llama.rope.dimension_count": 8}), ModelUnsupported, "partly rotated"),
        (TinyModel(extra={"split.count": 3}), ModelUnsupported, "one part of several"),
    ],
)
def test_what_is_refused(tmp_path: Path, model: TinyModel, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        convert(model, tmp_path)


def test_a_missing_and_a_misplaced_tensor(tmp_path: Path) -> None:
    class Short(TinyModel):
        def _shapes(self) -> dict[str, tuple[int, ...]]:
            return {name: shape for name, shape in super()._shapes().items() if "layers.1.mlp.up" not in name}

    class Long(TinyModel):
        def _shapes(self) -> dict[str, tuple[int, ...]]:
            return super()._shapes() | {"model.layers.0.self_attn.q_norm.weight": (16,)}

    class Bent(TinyModel):
        def _shapes(self) -> dict[str, tuple[int, ...]]:
            return super()._shapes() | {"model.norm.weight": (32,)}

    for index, (model, error, complaint) in enumerate(
        [
            (Short(), WeightsMismatch, "layers.1.mlp.up_proj"),
            (Long(), ModelUnsupported, "attn_q_norm"),
            (Bent(), WeightsMismatch, "output_norm"),
        ]
    ):
        folder = tmp_path / str(index)
        folder.mkdir()
        with pytest.raises(error, match=complaint):
            convert(model, folder)


@pytest.mark.parametrize("keep", [0, 3, 100, 3000, -200])
def test_damaged_files(tmp_path: Path, keep: int) -> None:
    path = TinyModel().write(tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsMismatch, match="not a whole GGUF file"):
        gguf_file.GgufFile(path)


def test_llama_3_frequencies_are_recognised() -> None:
    wavelengths = 2 * np.pi * 500_000.0 ** (np.arange(0, 64, 2) / 64)
    # As published for Llama 3.1: high frequencies kept, low ones divided by 8, a straight line in between.
    factors = np.ones(32, dtype=np.float32)
    for index, wavelength in enumerate(wavelengths):
        if wavelength > 8192 / 1:
            factors[index] = 8.0
        elif wavelength > 8192 / 4:
            smooth = (8192 / wavelength - 1) / 3
            factors[index] = 1 / ((1 - smooth) / 8 + smooth)
    assert _llama3_scaling(factors, 500_000.0, 64)["factor"] == 8.0
    with pytest.raises(ModelUnsupported):
        _llama3_scaling(factors + 0.1, 500_000.0, 64)
