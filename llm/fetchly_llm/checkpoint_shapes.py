"""A model's configuration in; the names and shapes of the tensors of its checkpoint out. No tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fetchly_llm.config import ModelConfig
from fetchly_llm.safetensors_file import check_shapes

# Derived from the configuration; older checkpoints store them all the same.
_DERIVED_SUFFIXES: Final = (".rotary_emb.inv_freq", ".attn.bias", ".masked_bias")


def checkpoint_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Names, as Hugging Face's, and shapes of all tensors of the Llama family, in the order in which a step reads them.

    Matrices are (outputs, inputs); those of layer N are `model.layers.N.*`.
    """
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.num_heads * dim, config.num_kv_heads * dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.qkv_bias:
        layer |= {f"self_attn.{name}_proj.bias": (size,) for name, size in (("q", queries), ("k", keys), ("v", keys))}
    if has_output_bias(config):
        layer["self_attn.o_proj.bias"] = (hidden,)
    if config.qk_norm:
        layer |= {"self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for number in range(config.num_layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def has_output_bias(config: ModelConfig) -> bool:
    """Whether the attention's output projection has a bias too: `attention_bias` of Llama and Qwen3, never of Qwen2."""
    return config.qkv_bias and config.family in ("llama", "qwen3")


def check_checkpoint(where: str, expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise WeightsMismatch where the tensors `found` in the folder `where` are not `expected`.

    Rotary frequencies, and the head of a tied checkpoint, may be there too: copies of what the configuration says.
    """
    needed = {
        name: shape
        for name, shape in found.items()
        if name in expected or not (name.endswith(_DERIVED_SUFFIXES) or name == "lm_head.weight")
    }
    check_shapes(
        f"the weights in {where} do not fit its config.json",
        expected,
        needed,
        hint="Check that config.json and the weights belong to the same model, or pull the model again.",
    )
