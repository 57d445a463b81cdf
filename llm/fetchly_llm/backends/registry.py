"""A model folder and an engine configuration in; the back-end that runs them, imported when it is chosen, out."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from fetchly_llm.backend import Backend
from fetchly_llm.backends.processors import default_threads, within_quota
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import ModelUnsupported


def load_backend(folder: Path, engine: EngineConfig) -> Backend:
    """Load the model in `folder`: the Llama family natively, other architectures through transformers.

    `engine.device` "auto" is cuda where torch sees a GPU; else native, without torch, where the kernels are there and
    run the model; else cpu, which is torch. Speculative streams are loaded for the Llama family alone, from
    `engine.streams_file` or from the model's folder. Raises ModelMissing, WeightsMismatch, ModelUnsupported (also where
    a library is missing: the hint names the extra to install), and RequestInvalid for settings that cannot be.
    """
    family = read_model_config(folder).family
    if engine.device == "native" or (engine.device == "auto" and family != "other" and _native_is_best()):
        from fetchly_llm.backends.native.backend import NativeBackend

        try:
            return NativeBackend.load(folder, engine)
        except ModelUnsupported:
            if engine.device == "native":
                raise
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


def native_obstacle() -> str | None:
    """Why the native back-end is not used on this machine, in a few words; None where it is."""
    from fetchly_llm.backends.native.library import available

    return available()


def describe_device() -> str:
    """What device "auto" comes to here, in words; empty where neither native kernels nor torch can run a model."""
    if native_obstacle() is None and not _torch_sees_gpu():
        from fetchly_llm.backends.native.library import usable_kernels

        return f"CPU, {default_threads()} threads, native kernels {usable_kernels()[0]}"
    try:
        import torch
    except ImportError:
        return ""
    if torch.cuda.is_available():
        return f"GPU {torch.cuda.get_device_name(0)} (CUDA {torch.version.cuda})"
    return f"CPU, {within_quota(torch.get_num_threads())} threads, {torch.backends.cpu.get_cpu_capability()}"


def _native_is_best() -> bool:
    """Kernels that are there, and no GPU."""
    return native_obstacle() is None and not _torch_sees_gpu()


def _torch_sees_gpu() -> bool:
    """Ask the driver first: torch takes seconds to import, and without a GPU there is nothing to ask it."""
    if _driver_gpus() == 0:
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _driver_gpus() -> int:
    """GPUs that the NVIDIA driver lists; 0 where there is none."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    listed = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if listed else 0
