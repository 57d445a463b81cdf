from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from fetchly_llm.errors import ModelMissing, ModelUnsupported, WeightsMismatch
from fetchly_llm.store import ModelStore, digest
from fetchly_llm.store.catalogue import CATALOGUE, DEFAULT_MODEL
from fetchly_llm.store.entry import SilentProgress
from fetchly_llm.store.gguf_conversion import convert_gguf
from fetchly_llm.store.model_store import default_root
from fetchly_llm.stream_config import STREAMS_FILE
from tests.support.tiny_gguf import TinyModel


@pytest.fixture(scope="module")
def gguf_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyModel().write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def folder(tmp_path: Path, gguf_path: Path) -> Path:
    path = tmp_path / "my-model"
    path.mkdir()
    convert_gguf(gguf_path, path, SilentProgress())
    return path


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store")


def test_the_root_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FETCHLY_MODELS", str(tmp_path / "here"))
    assert default_root() == tmp_path / "here"
    monkeypatch.delenv("FETCHLY_MODELS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "fetchly" / "models"


def test_a_folder_is_taken_as_it_is(store: ModelStore, folder: Path) -> None:
    model = store.resolve(str(folder))
    assert (model.name, model.path, model.source) == ("my-model", folder, str(folder))
    entry = store.show(str(folder))
    assert (entry.state, entry.digest, entry.path) == ("ready", model.digest, folder)
    vocabulary = 3 + 256 + 10
    layer = 64 * 2 + 64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3
    assert entry.parameters == vocabulary * 64 + 2 * layer + 64
    assert entry.context_length == 512
    assert entry.disk_bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_a_folder_in_the_working_folder_needs_no_slash(
    store: ModelStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert store.resolve("my-model").path == folder


def test_the_digest_follows_contents_alone(store: ModelStore, folder: Path, tmp_path: Path) -> None:
    first = store.resolve(str(folder)).digest
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "README.md").write_text("words")
    assert store.resolve(str(tmp_path / "copy")).digest == first
    weights = folder / "model.safetensors"
    contents = bytearray(weights.read_bytes())
    contents[-1] ^= 1
    weights.write_bytes(contents)
    assert store.resolve(str(folder)).digest != first


def test_unchanged_weights_are_not_read_twice(store: ModelStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = store.resolve(str(folder)).digest
    monkeypatch.setattr(digest, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))
    assert ModelStore(store.root).resolve(str(folder)).digest == first


def test_a_store_that_cannot_be_written_still_takes_folders(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert ModelStore(tmp_path / "file" / "store").resolve(str(folder)).path == folder


def test_a_store_that_cannot_be_written_says_so(gguf_path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelMissing, match="cannot be used") as caught:
        ModelStore(tmp_path / "file" / "store").resolve(str(gguf_path))
    assert "FETCHLY_MODELS" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("missing", "error"),
    [("config.json", ModelMissing), ("tokenizer.json", ModelMissing), ("model.safetensors", ModelMissing)],
)
def test_folders_that_lack_a_file(store: ModelStore, folder: Path, missing: str, error: type[Exception]) -> None:
    (folder / missing).unlink()
    with pytest.raises(error, match="safetensors" if "safe" in missing else missing):
        store.resolve(str(folder))


def test_folders_of_another_kind(store: ModelStore, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnsupported, match="pickled"):
        store.resolve(str(folder))
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")
    with pytest.raises(ModelUnsupported, match=r"tokenizer\.model"):
        store.resolve(str(folder))


def test_weights_in_several_files(store: ModelStore, folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}))
    with pytest.raises(ModelMissing, match=r"model-2\.safetensors"):
        store.resolve(str(folder))
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert store.show(str(folder)).parameters
    index.write_text(json.dumps({"weight_map": {"a": "../model-1.safetensors"}}))
    with pytest.raises(WeightsMismatch, match="outside"):
        store.resolve(str(folder))


def test_damaged_headers_are_named(store: ModelStore, folder: Path) -> None:
    for contents in (b"", b"\xff" * 100, (2).to_bytes(8, "little") + b"[]", (50).to_bytes(8, "little") + b"{}"):
        (folder / "model.safetensors").write_bytes(contents)
        with pytest.raises(WeightsMismatch, match="cannot be read as safetensors"):
            store.show(str(folder))


def test_a_gguf_file_is_converted_once(store: ModelStore, gguf_path: Path, tmp_path: Path) -> None:
    assert store.show(str(gguf_path)).state == "absent"
    first = store.resolve(str(gguf_path), offline=True)
    assert first.name == "tiny"
    stamp = (first.path / "model.safetensors").stat().st_mtime_ns
    moved = tmp_path / "elsewhere" / "tiny.gguf"
    moved.parent.mkdir()
    shutil.copy(gguf_path, moved)
    assert store.resolve(str(moved)) == first
    assert (first.path / "model.safetensors").stat().st_mtime_ns == stamp
    assert [entry.path for entry in store.list() if entry.state == "ready"] == [first.path]


def test_changed_files_are_noticed_and_repaired(store: ModelStore, gguf_path: Path) -> None:
    model = store.resolve(str(gguf_path))
    weights = model.path / "model.safetensors"
    os.truncate(weights, 1000)
    with pytest.raises(WeightsMismatch, match="1000 bytes") as caught:
        store.resolve(str(gguf_path))
    assert "fetchly models pull" in (caught.value.hint or "")
    assert store.show(str(gguf_path)).state == "damaged"
    assert {entry.state for entry in store.list() if entry.name == "tiny"} == {"damaged"}
    assert store.pull(str(gguf_path)) == model
    contents = bytearray(weights.read_bytes())
    contents[-1] ^= 1
    weights.write_bytes(contents)
    assert store.pull(str(gguf_path)) == model
    assert weights.read_bytes() != contents
    assert store.resolve(str(gguf_path)) == model
    assert not list((store.root / "work").iterdir())


def test_scraps_of_a_crash_are_not_mistaken_for_a_model(store: ModelStore, gguf_path: Path) -> None:
    model = store.resolve(str(gguf_path))
    scraps = store.root / "work" / model.path.name / "model"
    scraps.parent.mkdir()
    shutil.move(model.path, scraps)
    (scraps / "model.safetensors").write_bytes(b"half")
    assert store.resolve(str(gguf_path)) == model


def test_waiting_for_another_process_is_said(store: ModelStore, gguf_path: Path) -> None:
    model = store.resolve(str(gguf_path))
    shutil.rmtree(model.path)
    said: list[str] = []

    class Listening(SilentProgress):
        def start(self, label: str, total_bytes: int | None) -> None:
            said.append(label)
            if label.startswith("waiting"):
                release.set()

    release = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with FileLock(store.root / "locks" / f"{model.path.name}.lock"):
            held.set()
            release.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(10)
    assert store.resolve(str(gguf_path), progress=Listening()) == model
    other.join()
    assert said[0].startswith("waiting for another process")


def test_the_catalogue_is_listed(store: ModelStore) -> None:
    entries = store.list()
    assert [entry.name for entry in entries] == [*CATALOGUE] == [DEFAULT_MODEL, "smollm2-135m-instruct"]
    assert {(entry.state, entry.licence) for entry in entries} == {("absent", "Apache-2.0")}
    assert [store.show(name) for name in CATALOGUE] == list(entries)
    assert all(len(model.package.sha256 or "") == 64 for model in CATALOGUE.values())
    assert not store.root.exists()


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("fetchly-135", "did you mean fetchly-135m?"),
        ("zzz", "fetchly models list"),
        ("Org/Name", "hf:Org/Name"),
        ("/nowhere/at/all", "config.json"),
        ("absent.gguf", "config.json"),
    ],
)
def test_unknown_models(store: ModelStore, reference: str, hint: str) -> None:
    for method in (store.resolve, store.pull, store.show):
        with pytest.raises(ModelMissing) as caught:
            method(reference)
        assert hint in (caught.value.hint or "")


def test_manifests_of_another_version_are_not_trusted(store: ModelStore, gguf_path: Path) -> None:
    model = store.resolve(str(gguf_path))
    manifest = model.path / "fetchly-model.json"
    value = json.loads(manifest.read_text())
    for contents in (json.dumps(value | {"format": 99}), "{", "[]"):
        manifest.write_text(contents)
        assert all(entry.path is None for entry in store.list())
        assert store.resolve(str(gguf_path)) == model


def test_streams_are_no_weights_of_the_model_s_own(store: ModelStore, folder: Path) -> None:
    own = store.show(str(folder)).parameters
    (folder / STREAMS_FILE).write_bytes((folder / "model.safetensors").read_bytes())
    assert store.show(str(folder)).parameters == own
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelMissing, match="safetensors"):
        store.resolve(str(folder))
