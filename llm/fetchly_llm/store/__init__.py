"""Models on this machine: a name in, a checked checkpoint folder out. Start at `model_store`."""

from fetchly_llm.store.entry import ModelEntry, ModelFolder, Progress, SilentProgress
from fetchly_llm.store.model_store import ModelStore

__all__ = ["ModelEntry", "ModelFolder", "ModelStore", "Progress", "SilentProgress"]
