"""A folder in the Hugging Face layout in; whether an engine can load it, and what it is, out. No weights are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly_llm.errors import ModelMissing, ModelUnsupported, WeightsMismatch
from fetchly_llm.safetensors_file import count_parameters
from fetchly_llm.stream_config import STREAMS_FILE

_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What config.json and the weights' headers say."""

    architecture: str | None
    parameters: int
    context_length: int | None


def check_folder(folder: Path) -> None:
    """Raise ModelMissing or ModelUnsupported, naming the file, unless everything that an engine reads is there."""
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            hint = "a model needs config.json, tokenizer.json and *.safetensors"
            if name == "tokenizer.json" and (folder / "tokenizer.model").is_file():
                raise ModelUnsupported(f"{folder} has a tokenizer.model and no tokenizer.json", hint=hint)
            raise ModelMissing(f"{folder} holds no {name}", hint=hint)
    for path in weight_files(folder):
        if not path.is_file():
            raise ModelMissing(f"{folder} lacks {path.name}", hint="copy or fetch the model again")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that make up the model's own weights, by name; streams are apart.

    Raises ModelMissing, ModelUnsupported.
    """
    index = folder / _INDEX
    if index.is_file():
        places = _read_object(index).get("weight_map")
        if not isinstance(places, dict):
            raise WeightsMismatch(f"{index} has no weight_map")
        names = {str(name) for name in places.values()}
        outside = [name for name in names if Path(name).name != name]
        if outside:
            raise WeightsMismatch(f"{index} points outside its folder: {outside[0]}")
        return sorted(folder / name for name in names)
    found = sorted(path for path in folder.glob("*.safetensors") if path.name != STREAMS_FILE)
    if not found:
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
            raise ModelUnsupported(f"{folder} has pickled weights only", hint="use a model published as safetensors")
        raise ModelMissing(f"{folder} holds no *.safetensors", hint="copy or fetch the model again")
    return found


def facts(folder: Path) -> CheckpointFacts:
    """Architecture, number of parameters, longest context. Raises WeightsMismatch for damaged files."""
    config = _read_object(folder / "config.json")
    return CheckpointFacts(
        architecture=config.get("model_type"),
        parameters=sum(count_parameters(path) for path in weight_files(folder)),
        context_length=config.get("max_position_embeddings"),
    )


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsMismatch(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise WeightsMismatch(f"{path} is not a JSON object")
    return value
