"""A build under way in; the native back-end's kernels compiled beside their sources, and a wheel tagged for them, out.

Where no compiler is found, or compiling fails, the build goes on without: the engine then runs on torch.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NATIVE = "llm/fetchly_llm/backends/native"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """For wheels and for editable installations."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the files of the wheel are collected; `version` is "standard" or "editable"."""
        native = Path(self.root) / _NATIVE
        builder = _load(native / "build.py")
        library = native / builder.LIBRARY
        try:
            if not builder.up_to_date():  # pip builds an editable wheel twice
                builder.build()
        except builder.BuildFailed as failure:
            library.unlink(missing_ok=True)  # an older one would not be what the sources say
            self.app.display_warning(f"fetchly: without its native kernels, the engine runs on torch: {failure}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{_NATIVE}/{library.name}")


def _load(file: Path) -> ModuleType:
    """The module in `file`, which the build's environment cannot import by name."""
    spec = importlib.util.spec_from_file_location("fetchly_native_build", file)
    assert spec is not None, file
    assert spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
