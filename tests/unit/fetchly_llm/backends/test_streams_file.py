"""What a streams file must be, and where it is looked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.native.library import available
from fetchly_llm.backends.native.stream_tensors import read_streams
from fetchly_llm.backends.registry import load_backend
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.torch_reference.stream_weights import load_streams
from fetchly_llm.backends.transformers_adapter.backend import TransformersBackend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import ModelMissing, RequestInvalid, WeightsMismatch
from fetchly_llm.stream_config import StreamConfig, stream_metadata, stream_parameters, stream_shapes
from fetchly_llm.streams import StreamAnchor
from fetchly_llm.tree import DraftTree
from tests.support.embedded_shape import EMBEDDED
from tests.support.native_model import random_tensors as random_model
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model, tiny_weights
from tests.support.tiny_streams import PARTS, make_tiny_streams, random_tensors, tiny_stream_config

CPU = torch.device("cpu")
ENGINE = EngineConfig(device="cpu", threads=1, width=4, prefill_chunk=32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path, "llama")


def refusal(folder: Path, file: Path) -> str:
    """What the torch reference says; where there are native kernels, they say the same."""
    model = read_model_config(folder)
    with pytest.raises(WeightsMismatch) as caught:
        load_streams(file, model, CPU)
    assert "streams" in (caught.value.hint or ""), "what to do is said, and not of the model"
    if available() is None:
        with pytest.raises(WeightsMismatch) as natively:
            NativeBackend(model, random_model(model), ENGINE, streams=read_streams(file, model))
        assert (natively.value.message, natively.value.hint) == (caught.value.message, caught.value.hint)
    return caught.value.message


def rewritten(folder: Path, config: StreamConfig | None = None, **changes: str | None) -> Path:
    """A streams file whose metadata has been changed; None takes an entry out, "_" stands for a dot."""
    file = make_tiny_streams(folder, config=config)
    metadata = stream_metadata(config or tiny_stream_config(), read_model_config(folder))
    for name, value in changes.items():
        name = name.replace("base_", "base.").replace("note_", "note.")
        metadata.pop(name, None)
        if value is not None:
            metadata[name] = value
    save_file(load_file(file), file, metadata=metadata)
    return file


def test_a_file_is_read_as_it_was_written(folder: Path) -> None:
    for parts in ((), PARTS, *((part,) for part in PARTS)):
        config = tiny_stream_config(gamma=5, parts=parts, top=9)
        weights = load_streams(make_tiny_streams(folder, config=config), read_model_config(folder), CPU)
        assert weights.config == config
        present = {
            "insertion": weights.insertion,
            "anchor": weights.anchor,
            "lora": weights.adapters,
            "markov": weights.markov,
            "confidence": weights.confidence,
        }
        assert {part for part, found in present.items() if found is not None} == set(parts)


def test_half_precision_becomes_fp32(folder: Path) -> None:
    file = make_tiny_streams(folder)
    halves = {name: value.astype(np.float16) for name, value in load_file(file).items()}
    save_file(halves, file, metadata=stream_metadata(tiny_stream_config(), read_model_config(folder)))
    weights = load_streams(file, read_model_config(folder), CPU)
    assert weights.embedding.dtype == torch.float32
    assert np.array_equal(weights.embedding.numpy(), halves["embedding"].astype(np.float32))


@pytest.mark.parametrize("name", sorted(random_tensors(tiny_stream_config(), replace(EMBEDDED, num_layers=2))))
def test_every_tensor_is_needed_as_it_is(folder: Path, name: str) -> None:
    file = make_tiny_streams(folder)
    metadata = stream_metadata(tiny_stream_config(), read_model_config(folder))
    tensors = load_file(file)
    kept = tensors.pop(name)
    save_file(tensors, file, metadata=metadata)
    assert f"missing: {name}" in refusal(folder, file)
    save_file({**tensors, name: kept[:, :-1].copy() if kept.ndim > 1 else kept.repeat(2)}, file, metadata=metadata)
    assert f"wrong shape: {name} is" in refusal(folder, file)
    save_file({**tensors, name: kept, "more": kept}, file, metadata=metadata)
    assert "unexpected: more" in refusal(folder, file)
    broken = kept.copy()
    broken.flat[-1] = np.nan
    save_file({**tensors, name: broken}, file, metadata=metadata)
    assert f"not finite: {name}" in refusal(folder, file)


def test_parts_that_the_metadata_does_not_name_are_unexpected(folder: Path) -> None:
    assert "unexpected: markov.gate.weight" in refusal(folder, rewritten(folder, markov_rank="0"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": "fetchly-streams-2"}, "version 'fetchly-streams-2'"),
        ({"version": None}, "version None"),
        ({"base_hidden_size": "128"}, "hidden_size 128 instead of 64"),
        ({"base_num_layers": "3"}, "num_layers 3 instead of 2"),
        ({"base_num_kv_heads": "4"}, "num_kv_heads 4 instead of 2"),
        ({"base_vocab_size": "321"}, "vocab_size 321 instead of 320"),
        ({"top": None}, r"lacks ['top']"),
        ({"lora_ranc": "3"}, r"unknown ['lora_ranc']"),
        ({"gamma": "three"}, "garbled"),
        ({"confidence": "yes"}, "garbled"),
        ({"taps": "0;1"}, "garbled"),
        ({"gamma": "0"}, "gamma must"),
        ({"first_layer": "2"}, "first_layer must be from 0 to 1"),
        ({"first_layer": "-1"}, "first_layer must be from 0 to 1"),
        ({"taps": "0,3"}, "taps must"),
        ({"taps": "1,0"}, "taps must"),
        ({"taps": "1,1"}, "taps must"),
        ({"taps": ""}, "come together"),
        ({"markov_rank": "-1"}, "negative"),
        ({"lora_alpha": "nan"}, "lora_alpha must"),
        ({"lora_alpha": "0.0"}, "lora_alpha must"),
        ({"top": "0"}, "top must be from 1 to 320"),
        ({"top": "321"}, "top must be from 1 to 320"),
    ],
)
def test_metadata_that_cannot_be(folder: Path, changes: dict[str, str | None], named: str) -> None:
    assert named in refusal(folder, rewritten(folder, **changes))


def test_notes_and_a_format_do_not_matter(folder: Path) -> None:
    file = rewritten(folder, note_trained="on a Tuesday", format="pt")
    assert load_streams(file, read_model_config(folder), CPU).config == tiny_stream_config()


def test_a_file_without_metadata_or_sense(folder: Path) -> None:
    file = make_tiny_streams(folder)
    save_file(load_file(file), file)
    assert "version None" in refusal(folder, file)
    file.write_bytes(b"nothing")
    assert "cannot be read as safetensors" in refusal(folder, file)


def test_streams_that_cannot_be_are_not_written() -> None:
    with pytest.raises(WeightsMismatch, match="first_layer"):
        stream_metadata(StreamConfig(gamma=4, first_layer=30), EMBEDDED)


def test_where_the_file_is_looked_for(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = make_tiny_model(tmp_path_factory.mktemp("other"))
    elsewhere = make_tiny_streams(other, config=tiny_stream_config(gamma=2))
    assert load_backend(folder, ENGINE).streams == 0
    assert load_backend(folder, replace(ENGINE, streams_file=elsewhere)).streams == 2
    make_tiny_streams(folder, config=tiny_stream_config(gamma=5))
    assert load_backend(folder, ENGINE).streams == 5
    assert load_backend(folder, replace(ENGINE, streams_file=elsewhere)).streams == 2
    with pytest.raises(ModelMissing, match="no streams file"):
        load_backend(folder, replace(ENGINE, streams_file=folder / "nothing.safetensors"))


def test_models_that_transformers_runs_have_no_streams(folder: Path) -> None:
    backend = TransformersBackend.load(folder, ENGINE)
    tied = sum(value.size for value in tiny_weights("llama", 0, 320).values())
    assert (backend.streams, backend.stream_parameters, backend.parameters) == (0, 0, tied)
    cache = backend.new_cache(20)
    backend.step(cache, DraftTree.root(4), [])
    with pytest.raises(RequestInvalid, match="no speculative streams"):
        backend.speculate(cache, [StreamAnchor(0)])
    with pytest.raises(RequestInvalid, match="no speculative streams"):
        TransformersBackend.load(folder, replace(ENGINE, streams_file=make_tiny_streams(folder)))


def test_streams_are_no_part_of_the_identity(folder: Path) -> None:
    plain = load_backend(folder, ENGINE).identity
    make_tiny_streams(folder)
    assert load_backend(folder, ENGINE).identity == plain


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_parameters_are_counted(tmp_path: Path, family: str) -> None:
    file = make_tiny_streams(make_tiny_model(tmp_path, family))
    backend = TorchReferenceBackend.load(tmp_path, ENGINE)
    assert backend.parameters == sum(value.size for value in tiny_weights(family, 0, 320).values())
    assert backend.stream_parameters == sum(value.size for value in load_file(file).values())
    backend.close()
    assert backend.streams == 3


def test_parameters_of_the_embedded_model_s_streams() -> None:
    # The arithmetic of the published figures: gamma * d; 10176 * r per layer for adapters on seven linears.
    parts = {
        "embedding": StreamConfig(gamma=4, first_layer=20),
        "insertion": StreamConfig(gamma=4, first_layer=20, taps=(5, 12, 20), insertion_rank=64),
        "lora": StreamConfig(gamma=4, first_layer=20, lora_rank=32, lora_alpha=32.0),
        "markov": StreamConfig(gamma=4, first_layer=20, markov_rank=64),
        "confidence": StreamConfig(gamma=4, first_layer=20, confidence=True),
    }
    counts = {name: stream_parameters(config, EMBEDDED) for name, config in parts.items()}
    own = 4 * 576
    assert counts["embedding"] == own
    assert counts["insertion"] - own == 64 * (3 * 576 + 576)
    assert counts["lora"] - own == 10 * 10176 * 32
    assert counts["markov"] - own == 3 * 64 * 576
    assert counts["confidence"] - own == 577


def test_adapters_exist_for_the_upper_layers_alone() -> None:
    shapes = stream_shapes(StreamConfig(gamma=1, first_layer=28, lora_rank=2, lora_alpha=1.0), EMBEDDED)
    numbers = {name.split(".")[1] for name in shapes if name.startswith("layers.")}
    assert numbers == {"28", "29"}
