"""A model folder in; the model's configuration and the list of its weight files out. No tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fetchly_llm.config import Family, ModelConfig, RopeScaling
from fetchly_llm.errors import ModelMissing, ModelUnsupported, WeightsMismatch

_FAMILIES: Final[dict[str, Family]] = {"llama": "llama", "mistral": "mistral", "qwen2": "qwen2", "qwen3": "qwen3"}
_CONFIG = "config.json"
_GENERATION_CONFIG = "generation_config.json"
_LARGEST = 2**31 - 1
_MOST_LAYERS = 4096
"""More, and what a checkpoint ought to hold could not even be listed."""
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def read_model_config(folder: Path) -> ModelConfig:
    """Read config.json, and the end-of-generation ids of generation_config.json, of a Hugging Face style folder.

    Architectures outside the Llama family give family "other" with what their configuration says; a number that it
    does not say is 0. Raises ModelMissing where there is no config.json, and ModelUnsupported, by name, for settings
    that the Llama family's implementation here does not have.
    """
    raw = _read_json(folder / _CONFIG)
    eos = _eos_ids(folder, raw)
    family = _FAMILIES.get(str(raw.get("model_type")))
    if family is None:
        return _other(raw, eos)
    fields = _Fields(raw, folder / _CONFIG)
    _refuse_unsupported(raw, family)
    heads = fields.integer("num_attention_heads")
    hidden = fields.integer("hidden_size")
    rope = _rope_parameters(raw)
    return ModelConfig(
        family=family,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=fields.integer("num_hidden_layers", most=_MOST_LAYERS),
        num_heads=heads,
        num_kv_heads=fields.integer("num_key_value_heads", heads if family == "llama" else None),
        head_dim=fields.integer("head_dim", 128 if family == "qwen3" else hidden // heads),
        rope_theta=fields.positive("rope_theta", rope.get("rope_theta", 10000.0)),
        rms_norm_eps=fields.positive("rms_norm_eps", raw.get("rms_norm_eps", 1e-6)),
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        # Qwen2 has the biases without saying so; Mistral never has them.
        qkv_bias=family == "qwen2" or (family != "mistral" and bool(raw.get("attention_bias", False))),
        qk_norm=family == "qwen3",
        max_position=_max_position(raw, fields, family),
        eos_token_ids=eos,
        rope_scaling=_rope_scaling(rope),
    )


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint: model.safetensors, or the shards that its index names.

    Raises ModelMissing where there are none, WeightsMismatch where the index is broken or names a file that is not
    there.
    """
    index = folder / _INDEX
    if not index.is_file():
        single = folder / _SINGLE
        if not single.is_file():
            raise ModelMissing(
                f"no {_SINGLE} and no {_INDEX} in {folder}",
                hint="Only safetensors are read; convert other formats first.",
            )
        return (single,)
    names = _read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise WeightsMismatch(f"{index} has no weight_map from tensor names to files", hint="Pull the model again.")
    files = tuple(folder / name for name in sorted(set(names.values())))
    outside = [file.name for file in files if file.resolve().parent != folder.resolve() and not file.is_symlink()]
    if outside:
        raise WeightsMismatch(f"{index} names files outside its folder: {', '.join(outside)}")
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise WeightsMismatch(
            f"{index} names files that are not there: {', '.join(missing)}", hint="Pull the model again."
        )
    return files


class _Fields:
    """Checked access to the numbers of a configuration."""

    def __init__(self, raw: Mapping[str, Any], path: Path) -> None:
        self._raw = raw
        self._path = path

    def integer(self, name: str, default: int | None = None, most: int = _LARGEST) -> int:
        """A positive whole number up to `most`; null counts as absent, as in transformers."""
        value = self._raw.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelUnsupported(f"{self._path} does not say {name}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelUnsupported(f"{self._path}: {name} must be a positive whole number, not {value!r}")
        if value > most:
            raise ModelUnsupported(f"{self._path}: {name} is {value}, and more than {most} is no model's")
        return value

    def positive(self, name: str, value: Any) -> float:
        """`value` of field `name`, a positive finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
            raise ModelUnsupported(f"{self._path}: {name} must be a positive number, not {value!r}")
        return float(value)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelMissing(f"no {path.name} in {path.parent}", hint="Name a folder that holds a model.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelUnsupported(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelUnsupported(f"{path} is not a JSON object")
    return value


def _refuse_unsupported(raw: Mapping[str, Any], family: Family) -> None:
    """Settings that transformers knows in these families and the implementation here does not."""
    for name in ("mlp_bias", "quantization_config"):
        if raw.get(name):
            raise ModelUnsupported(f"{family} checkpoints with {name} are not supported")
    activation = raw.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ModelUnsupported(f"the activation {activation!r} is not supported, only silu")
    partial = _rope_parameters(raw).get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
    if partial not in (None, 1.0):
        raise ModelUnsupported(f"partial_rotary_factor {partial} is not supported, only 1.0")


def _rope_parameters(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Theta and scaling in one mapping: transformers 5's `rope_parameters`, or what stood in two places before."""
    parameters = dict(raw.get("rope_scaling") or {})
    parameters.update(raw.get("rope_parameters") or {})
    if parameters.get("rope_theta") is None:
        parameters.pop("rope_theta", None)
        if raw.get("rope_theta") is not None:
            parameters["rope_theta"] = raw["rope_theta"]
    return parameters


def _rope_scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind in (None, "default"):
        return None
    if kind != "llama3":
        raise ModelUnsupported(
            f"the rope scaling {kind!r} is not supported, only llama3",
            hint="Remove rope_scaling from config.json to run the model within its original context.",
        )
    try:
        return RopeScaling(
            factor=float(rope["factor"]),
            low_freq_factor=float(rope["low_freq_factor"]),
            high_freq_factor=float(rope["high_freq_factor"]),
            original_max_position=int(rope["original_max_position_embeddings"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnsupported(f"the llama3 rope scaling lacks or garbles {error}") from error


def _max_position(raw: Mapping[str, Any], fields: _Fields, family: Family) -> int:
    """Positions within which full attention equals the checkpoint's own: an active sliding window ends them."""
    positions = fields.integer("max_position_embeddings")
    if family == "llama" or (family != "mistral" and not raw.get("use_sliding_window", False)):
        return positions
    # Mistral's first configurations left out the window that its code assumed.
    window = fields.integer("sliding_window", 4096)
    explicitly_none = raw.get("sliding_window", window) is None
    return positions if explicitly_none else min(positions, window)


def _eos_ids(folder: Path, raw: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids of generation_config.json first, then those that config.json adds, without repetition."""
    sources = [raw, raw.get("text_config") or {}]
    generation = folder / _GENERATION_CONFIG
    if generation.is_file():
        sources.insert(0, _read_json(generation))
    ids: list[int] = []
    for source in sources:
        value = source.get("eos_token_id")
        for token in value if isinstance(value, list) else [value]:
            if token is None:
                continue
            if not isinstance(token, int) or isinstance(token, bool):
                raise ModelUnsupported(f"eos_token_id of the model in {folder} must be ids, not {token!r}")
            if token not in ids:
                ids.append(token)
    return tuple(ids)


def _other(raw: Mapping[str, Any], eos: tuple[int, ...]) -> ModelConfig:
    """What is readable of an architecture that only transformers can run. 0 means: not said."""
    text = {**raw, **(raw.get("text_config") or {})}

    def first(*names: str) -> int:
        return next((int(text[name]) for name in names if isinstance(text.get(name), int)), 0)

    heads, hidden = first("num_attention_heads", "n_head"), first("hidden_size", "n_embd", "d_model")
    return ModelConfig(
        family="other",
        vocab_size=first("vocab_size"),
        hidden_size=hidden,
        intermediate_size=first("intermediate_size", "n_inner"),
        num_layers=first("num_hidden_layers", "n_layer"),
        num_heads=heads,
        num_kv_heads=first("num_key_value_heads") or heads,
        head_dim=first("head_dim") or (hidden // heads if heads else 0),
        rope_theta=float(_rope_parameters(text).get("rope_theta", 0.0)),
        rms_norm_eps=float(text.get("rms_norm_eps") or 0.0),
        tie_word_embeddings=bool(text.get("tie_word_embeddings", False)),
        qkv_bias=bool(text.get("attention_bias", False)),
        qk_norm=False,
        max_position=first("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"),
        eos_token_ids=eos,
    )
