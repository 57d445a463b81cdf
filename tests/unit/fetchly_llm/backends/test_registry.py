from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from fetchly_llm.backends.registry import load_backend
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import ModelMissing, ModelUnsupported, RequestInvalid
from tests.support.tiny_model import make_tiny_model


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_the_llama_family_runs_natively(tmp_path: Path, family: str) -> None:
    backend = load_backend(make_tiny_model(tmp_path, family), EngineConfig(device="cpu", threads=1))
    assert isinstance(backend, TorchReferenceBackend)
    assert backend.config.family == family


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelUnsupported) as caught:
        load_backend(make_tiny_model(tmp_path), EngineConfig(device="cpu"))
    assert "fetchly[torch]" in (caught.value.hint or "")


def test_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing):
        load_backend(tmp_path, EngineConfig())


def test_a_device_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    folder = make_tiny_model(tmp_path)
    with pytest.raises(RequestInvalid, match="cuda"):
        load_backend(folder, EngineConfig(device="cuda"))
    assert "cpu" in load_backend(folder, EngineConfig(device="auto", threads=1)).identity
