"""A GGUF file's metadata in; the config.json of the same model in the Hugging Face layout out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.store.gguf_file import GgufFile

# llama.cpp files Mistral under "llama": same layers, same permuted heads.
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def config_json(file: GgufFile) -> dict[str, Any]:
    """The model's shape and constants. Raises ModelUnsupported for what no back-end runs."""
    _refuse_unsupported(file)
    heads: int = file.hyper_required("attention.head_count")
    hidden: int = file.hyper_required("embedding_length")
    head_dim: int = file.hyper("attention.key_length", hidden // heads)
    theta = _shortest(file.hyper("rope.freq_base", 10000.0))
    config: dict[str, Any] = {
        "architectures": [CLASSES[file.architecture]],
        "model_type": file.architecture,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": file.hyper_required("feed_forward_length"),
        "num_hidden_layers": file.hyper_required("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.hyper("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": _shortest(file.hyper_required("attention.layer_norm_rms_epsilon")),
        "rope_theta": theta,
        "max_position_embeddings": file.hyper_required("context_length"),
        "vocab_size": _embedding_rows(file),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "bos_token_id": file.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": eos_token_ids(file),
        "pad_token_id": file.get("tokenizer.ggml.padding_token_id"),
    }
    if "rope_freqs.weight" in file.tensors:
        config["rope_scaling"] = _llama3_scaling(file.tensors["rope_freqs.weight"].values(), theta, head_dim)
    return {key: value for key, value in config.items() if value is not None}


def eos_token_ids(file: GgufFile) -> int | list[int]:
    """The id that ends a text, or a list where the end of a turn is another token."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = sorted({end for key in keys if (end := file.get(f"tokenizer.ggml.{key}")) is not None})
    if not ends:
        raise ModelUnsupported("the GGUF file names no end-of-text token")
    return ends[0] if len(ends) == 1 else ends


def _refuse_unsupported(file: GgufFile) -> None:
    if file.architecture not in CLASSES:
        raise ModelUnsupported(
            f"the GGUF architecture {file.architecture!r} cannot be converted (known: {', '.join(CLASSES)})",
            hint="use the model's safetensors folder, or hf:ORG/NAME",
        )
    if file.hyper("expert_count", 0):
        raise ModelUnsupported("mixtures of experts are not supported")
    scaling = file.hyper("rope.scaling.type", "none")
    if scaling != "none":
        raise ModelUnsupported(f"rope scaling {scaling!r} is not supported")
    heads, hidden = file.hyper_required("attention.head_count"), file.hyper_required("embedding_length")
    if not isinstance(heads, int) or not isinstance(file.hyper_required("feed_forward_length"), int):
        raise ModelUnsupported("layers of different shapes are not supported")
    key_length = file.hyper("attention.key_length", hidden // heads)
    if file.hyper("attention.value_length", key_length) != key_length:
        raise ModelUnsupported("keys and values of different lengths are not supported")
    if file.hyper("rope.dimension_count", key_length) != key_length:
        raise ModelUnsupported("partly rotated heads are not supported")


def _embedding_rows(file: GgufFile) -> int:
    if "token_embd.weight" not in file.tensors:
        raise WeightsMismatch("the GGUF file has no token_embd.weight")
    return file.tensors["token_embd.weight"].shape[0]


def _shortest(value: float) -> float:
    """The shortest decimal of a number that was stored in fp32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _llama3_scaling(factors: NDArray[np.float32], theta: float, head_dim: int) -> dict[str, Any]:
    """Llama 3.1's frequency scaling, which llama.cpp stores as one divisor per frequency.

    The divisors do not name their parameters: the only published set of bounds (1, 4, 8192) is tried with the largest
    divisor as the factor, and anything else is refused.
    """
    factor = float(factors.max())
    wavelengths = 2 * math.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = np.clip((8192 / wavelengths - 1.0) / (4.0 - 1.0), 0.0, 1.0)
    expected = 1.0 / ((1 - smooth) / factor + smooth)
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-3):
        raise ModelUnsupported("the GGUF file scales its rotary frequencies in an unknown way")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
