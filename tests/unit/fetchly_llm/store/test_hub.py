from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from fetchly_llm.errors import ModelMissing
from fetchly_llm.store import ModelStore, SilentProgress
from fetchly_llm.store.gguf_conversion import convert_gguf
from tests.support.tiny_gguf import TinyModel

REFERENCE = "hf:Org/Tiny@main"
Hub = Callable[..., str]


def answer(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("GET", "http://127.0.0.1/"))


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "hub" / "snapshots" / "abc"
    path.mkdir(parents=True)
    convert_gguf(TinyModel().write(tmp_path / "tiny.gguf"), path, SilentProgress())
    return path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, snapshot: Path) -> list[dict[str, Any]]:
    """What the hub's library was asked; it answers with the snapshot."""
    asked: list[dict[str, Any]] = []

    def download(repository: str, **options: Any) -> str:
        asked.append({"repository": repository, **options})
        bar = options["tqdm_class"](total=0, unit="B", name="huggingface_hub.snapshot_download", desc="bytes")
        with options["tqdm_class"](total=3, desc="Fetching 3 files") as files:
            files.update(3)
        bar.update(100)
        bar.close()
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked


def test_a_snapshot_stays_in_the_hub_s_cache(
    tmp_path: Path, snapshot: Path, calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    counted: list[int] = []

    class Counting(SilentProgress):
        def advance(self, count: int) -> None:
            counted.append(count)

    store = ModelStore(tmp_path / "store")
    model = store.resolve(REFERENCE, progress=Counting())
    assert (model.path, model.name, model.source) == (snapshot, "Tiny", REFERENCE)
    assert model.digest == store.resolve(str(snapshot)).digest
    assert (calls[0]["repository"], calls[0]["revision"], calls[0]["local_files_only"]) == ("Org/Tiny", "main", False)
    assert "*.safetensors" in calls[0]["allow_patterns"]
    assert not any(
        pattern.endswith((".bin", ".py", "*")) and "LICENSE" not in pattern for pattern in calls[0]["allow_patterns"]
    )
    assert counted == [100]
    assert capsys.readouterr() == ("", "")
    assert store.resolve(REFERENCE, offline=True) == model
    assert len(calls) == 1
    entry = store.show(REFERENCE)
    assert (entry.state, entry.path, entry.architecture) == ("ready", snapshot, "llama")
    assert store.list()[-1].reference == REFERENCE


def test_pulling_follows_the_branch(tmp_path: Path, snapshot: Path, calls: list[dict[str, Any]]) -> None:
    store = ModelStore(tmp_path / "store")
    first = store.pull(REFERENCE)
    contents = bytearray((snapshot / "model.safetensors").read_bytes())
    contents[-1] ^= 1
    (snapshot / "model.safetensors").write_bytes(contents)
    second = store.pull(REFERENCE)
    assert len(calls) == 2
    assert first.digest != second.digest
    assert store.resolve(REFERENCE) == second


def test_a_snapshot_that_the_hub_s_cache_dropped_is_fetched_again(
    tmp_path: Path, snapshot: Path, calls: list[dict[str, Any]]
) -> None:
    store = ModelStore(tmp_path / "store")
    model = store.resolve(REFERENCE)
    kept = tmp_path / "kept"
    shutil.move(snapshot, kept)
    assert store.show(REFERENCE).state == "damaged"
    shutil.copytree(kept, snapshot)
    (snapshot / "config.json").unlink()
    shutil.copy(kept / "config.json", snapshot / "config.json")
    assert store.resolve(REFERENCE) == model
    (snapshot / "config.json").write_text("{}")
    store.resolve(REFERENCE)
    assert len(calls) == 2


def test_offline_looks_into_the_cache(tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    ModelStore(tmp_path / "store").resolve(REFERENCE, offline=True)
    assert calls[0]["local_files_only"] is True


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (LocalEntryNotFoundError("not here"), "not on this machine"),
        (GatedRepoError("gated", response=answer(403)), "on request only"),
        (RepositoryNotFoundError("none", response=answer(404)), "the hub has no Org/Tiny"),
        (RevisionNotFoundError("none", response=answer(404)), "no revision main"),
        (HfHubHTTPError("busy", response=answer(503)), "cannot be fetched: busy"),
        (httpx2.ConnectError("refused"), "refused"),
        (OSError("disk full"), "disk full"),
    ],
)
def test_errors_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str) -> None:
    def download(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ModelMissing, match=complaint):
        ModelStore(tmp_path / "store").resolve(REFERENCE)
    assert not list((tmp_path / "store").glob("installed/*"))


def test_a_repository_without_weights(tmp_path: Path, snapshot: Path, calls: list[dict[str, Any]]) -> None:
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match="safetensors"):
        ModelStore(tmp_path / "store").resolve(REFERENCE)


@pytest.mark.slow
def test_an_unreachable_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelMissing) as caught:
        ModelStore(tmp_path / "store").resolve("hf:Org/Unheard-of")
    assert "fetchly models pull hf:Org/Unheard-of" in (caught.value.hint or "")
