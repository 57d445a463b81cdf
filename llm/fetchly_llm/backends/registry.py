"""A model folder and an engine configuration in; the back-end that runs them, imported when it is chosen, out."""

from __future__ import annotations

import os
from pathlib import Path

from fetchly_llm.backend import Backend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import ModelUnsupported


def load_backend(folder: Path, engine: EngineConfig) -> Backend:
    """Load the model in `folder`: the Llama family natively, other architectures through transformers.

    `engine.device` "auto" is cuda where torch sees a GPU, else cpu. Raises ModelMissing, WeightsMismatch,
    ModelUnsupported (also where a library is missing: the hint names the extra to install), and RequestInvalid for
    settings that cannot be.
    """
    family = read_model_config(folder).family
    # torch's threads meet some hundred times a step. By default they spin for milliseconds while they wait, which
    # starves whatever shares the cores, ourselves included: beside two busy processes prefill fell from 100 to 20
    # tokens/s. A short spin keeps the speed of an idle machine. GNU OpenMP reads this when torch loads, unless a policy
    # is set.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        import torch  # noqa: F401  (imported here so that its absence is told apart from other failures)
    except ImportError as error:
        raise ModelUnsupported(
            f"running a model needs torch, which cannot be imported: {error}", hint="Install fetchly[torch]."
        ) from error
    if family == "other":
        from fetchly_llm.backends.transformers_adapter.backend import TransformersBackend

        return TransformersBackend.load(folder, engine)
    from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend

    return TorchReferenceBackend.load(folder, engine)


def describe_device() -> str:
    """What torch would run on, in words; empty where torch cannot be imported."""
    try:
        import torch
    except ImportError:
        return ""
    if torch.cuda.is_available():
        return f"GPU {torch.cuda.get_device_name(0)} (CUDA {torch.version.cuda})"
    return f"CPU, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
