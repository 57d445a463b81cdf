"""Streams on the native kernels: how near int8 comes, sizes at their limits, and what becomes of broken numbers.

That they mean what they mean elsewhere, test_streams.py says of both back-ends.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from fetchly_llm.backends.native.backend import MOST_NODES, NativeBackend
from fetchly_llm.backends.native.checkpoint_tensors import read_tensors
from fetchly_llm.backends.native.stream_tensors import StoredStreams, read_streams
from fetchly_llm.backends.registry import load_backend
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import ModelMissing, ModelUnsupported
from fetchly_llm.sampling import NonFiniteLogits
from fetchly_llm.stream_config import StreamConfig, stream_metadata, stream_shapes
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree
from tests.support.embedded_shape import WIDE
from tests.support.native_kernels import needs_kernels
from tests.support.native_model import random_tensors
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model
from tests.support.tiny_streams import PARTS, make_tiny_streams, tiny_stream_config, write_streams
from tests.support.tiny_streams import random_tensors as random_streams

pytestmark = needs_kernels
VOCABULARY = 320
ENGINE = EngineConfig(device="cpu", threads=2, width=64, prefill_chunk=32)
TOKENS = np.random.default_rng(3).integers(0, VOCABULARY, 300).tolist()
AnyBackend = TorchReferenceBackend | NativeBackend


def all_scores(draft: StreamDraft) -> NDArray[np.float32]:
    """Of a draft that names every token: the logits by token, and those after token 17; (gamma, 2, vocab)."""
    found = np.empty((len(draft.tokens), 2, VOCABULARY), dtype=np.float32)
    for stream, tokens in enumerate(draft.tokens):
        found[stream, 0, tokens] = draft.logits[stream]
        found[stream, 1, tokens] = draft.scores(stream, 17)
    return found


def proposed(backend: AnyBackend, tree: DraftTree, length: int, anchors: list[StreamAnchor]) -> NDArray[np.float32]:
    cache = backend.new_cache(400)
    backend.prefill(cache, TOKENS[:length])
    backend.step(cache, tree, [])
    drafts = [*backend.speculate(cache, anchors)]
    backend.commit(cache, tree.path(anchors[0].node))
    drafts += backend.speculate(cache, anchors[:1])
    return np.array([all_scores(draft) for draft in drafts])


def random_tree(size: int, nearest: int, seed: int = 0) -> DraftTree:
    """Each node's parent is one of the `nearest` before it."""
    random = np.random.default_rng([seed, size, nearest])
    parents = (-1, *(int(random.integers(max(0, node - nearest), node)) for node in range(1, size)))
    return DraftTree(tuple(random.integers(0, VOCABULARY, size).tolist()), parents, ("test",) * size)


def relative_error(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Root mean square of the differences, in standard deviations of what is expected."""
    return float(np.sqrt(np.mean((found - expected) ** 2)) / expected.std())


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_agrees_with_the_reference(tmp_path: Path, family: str) -> None:
    """fp32 within 5e-4 of a logit; int8 within a tenth of their standard deviation, like the model's own logits, with
    adapters that add less than the layers themselves."""
    folder = make_tiny_model(tmp_path, family, seed=1)
    config = replace(tiny_stream_config(gamma=4, top=VOCABULARY), lora_alpha=2.0)
    make_tiny_streams(folder, config=config)
    tree, anchors = random_tree(8, 3), [StreamAnchor(6, 3), StreamAnchor(0), StreamAnchor(7, 200)]
    expected = proposed(TorchReferenceBackend.load(folder, ENGINE), tree, 125, anchors)
    exact = proposed(NativeBackend.load(folder, ENGINE, precision="fp32"), tree, 125, anchors)
    rounded = proposed(NativeBackend.load(folder, ENGINE), tree, 125, anchors)
    assert np.abs(exact - expected).max() < 5e-4
    assert 0.0 < relative_error(rounded, expected) < 0.1


@pytest.mark.parametrize("nearest", [1, 2, 64])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127])
def test_trees_of_any_size_across_boundaries_of_blocks(tmp_path: Path, length: int, nearest: int) -> None:
    folder = make_tiny_model(tmp_path)
    make_tiny_streams(folder, config=tiny_stream_config(gamma=7, top=VOCABULARY))
    tree = random_tree(MOST_NODES, nearest)
    anchors = [StreamAnchor(node, 5 if node % 2 else None) for node in (63, 0, 1, 31, 62, 40, 63)]
    expected = proposed(TorchReferenceBackend.load(folder, ENGINE), tree, length, anchors)
    found = proposed(NativeBackend.load(folder, ENGINE, precision="fp32"), tree, length, anchors)
    assert np.abs(found - expected).max() < 5e-4


def test_more_streams_than_a_pass_has_rows(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    for gamma in (40, 128):
        make_tiny_streams(folder, config=tiny_stream_config(gamma=gamma, top=VOCABULARY))
        tree = random_tree(20, 2)
        anchors = [StreamAnchor(node, node) for node in range(10)]
        native, torch = NativeBackend.load(folder, ENGINE, precision="fp32"), TorchReferenceBackend.load(folder, ENGINE)
        assert native.streams == gamma
        found, expected = (proposed(backend, tree, 120, anchors) for backend in (native, torch))
        assert np.abs(found - expected).max() < 5e-4


def wide_streams(path: Path, model: ModelConfig, config: StreamConfig) -> StoredStreams:
    save_file(random_streams(config, model), path, metadata=stream_metadata(config, model))
    return read_streams(path, model)


def test_int8_is_close_at_the_shape_of_the_embedded_model(tmp_path: Path) -> None:
    config = StreamConfig(
        gamma=4,
        first_layer=1,
        taps=(0, 1),
        insertion_rank=64,
        anchor_rank=64,
        lora_rank=32,
        lora_alpha=16.0,
        markov_rank=64,
        confidence=True,
        top=VOCABULARY,
    )
    streams, tensors = wide_streams(tmp_path / "streams", WIDE, config), random_tensors(WIDE)
    backends = [NativeBackend(WIDE, tensors, ENGINE, precision=kind, streams=streams) for kind in ("fp32", "int8")]
    anchors = [StreamAnchor(5, 3), StreamAnchor(0)]
    exact, rounded = (proposed(backend, random_tree(6, 2), 100, anchors) for backend in backends)
    error = relative_error(rounded, exact)
    print("error of the streams' logits, in standard deviations:", error)
    assert error < 0.1


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gamma": 129}, "128 streams"),
        ({"lora_rank": 1025, "lora_alpha": 1.0}, "ranks"),
        ({"markov_rank": 900, "top": VOCABULARY}, "262144"),
    ],
)
def test_sizes_that_the_kernels_do_not_have_are_left_to_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, float], named: str
) -> None:
    monkeypatch.setattr("fetchly_llm.backends.registry._driver_gpus", lambda: 0)
    folder = make_tiny_model(tmp_path)
    file = make_tiny_streams(folder, config=replace(tiny_stream_config(parts=()), **changes))  # type: ignore[arg-type]
    with pytest.raises(ModelUnsupported, match=named) as caught:
        load_backend(folder, EngineConfig(device="native"))
    assert str(file) in caught.value.message
    assert isinstance(load_backend(folder, EngineConfig(threads=1)), TorchReferenceBackend)


def test_the_streams_of_a_model_are_run_natively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fetchly_llm.backends.registry._driver_gpus", lambda: 0)
    folder = make_tiny_model(tmp_path / "model")
    elsewhere = make_tiny_streams(make_tiny_model(tmp_path / "other"), config=tiny_stream_config(gamma=2))
    plain = load_backend(folder, EngineConfig(threads=1))
    assert (plain.streams, plain.stream_parameters) == (0, 0)
    file = make_tiny_streams(folder, config=tiny_stream_config(gamma=5))
    for device in ("auto", "native"):
        engine = EngineConfig(device=device, threads=1)  # type: ignore[arg-type]
        backend = load_backend(folder, engine)
        assert isinstance(backend, NativeBackend)
        assert backend.streams == 5
        assert backend.stream_parameters == sum(value.size for value in load_file(file).values())
        assert backend.parameters == plain.parameters
        assert backend.weight_bytes == plain.weight_bytes
        assert backend.identity == plain.identity
        assert load_backend(folder, replace(engine, streams_file=elsewhere)).streams == 2
        with pytest.raises(ModelMissing, match="no streams file"):
            load_backend(folder, replace(engine, streams_file=folder / "nothing"))


def test_streams_need_no_torch(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    make_tiny_streams(folder)
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from fetchly_llm.backends.registry import load_backend\n"
        "from fetchly_llm.config import EngineConfig\n"
        "from fetchly_llm.streams import StreamAnchor\n"
        "from fetchly_llm.tree import DraftTree\n"
        f"backend = load_backend(Path({str(folder)!r}), EngineConfig(device='native', threads=2))\n"
        "cache = backend.new_cache(64)\n"
        "backend.step(cache, DraftTree.root(1), [0])\n"
        "draft = backend.speculate(cache, [StreamAnchor(0, 5)])[0]\n"
        "print(draft.tokens.shape, draft.scores(0, 5).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "(3, 32) (32,)\n"


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_ties_go_to_the_lowest_id(tmp_path: Path, precision: str) -> None:
    folder = make_tiny_model(tmp_path, "llama-untied")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][:] = np.tile([1.0, -1.0], VOCABULARY // 2)[:, None]
    save_file(tensors, folder / "model.safetensors")
    make_tiny_streams(folder, config=tiny_stream_config(top=5))
    backend = NativeBackend.load(folder, ENGINE, precision=precision)  # type: ignore[arg-type]
    cache = backend.new_cache(80)
    backend.step(cache, DraftTree.root(1), [])
    tokens = backend.speculate(cache, [StreamAnchor(0)])[0].tokens
    assert set(map(tuple, tokens.tolist())) <= {(0, 2, 4, 6, 8), (1, 3, 5, 7, 9)}


@pytest.mark.parametrize(("bias", "expected"), [(1e4, 1.0), (-1e4, float(np.finfo(np.float32).tiny))])
def test_confidence_is_above_0_and_at_most_1(tmp_path: Path, bias: float, expected: float) -> None:
    folder, config = make_tiny_model(tmp_path), tiny_stream_config(parts=("confidence",))
    tensors = random_streams(config, read_model_config(folder))
    write_streams(folder, config, {**tensors, "confidence.bias": np.array([bias], dtype=np.float32)})
    backend = NativeBackend.load(folder, ENGINE)
    cache = backend.new_cache(80)
    backend.step(cache, DraftTree.root(1), [])
    assert backend.speculate(cache, [StreamAnchor(0)])[0].confidence.tolist() == [expected] * 3


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("part", ["model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"])
def test_a_model_of_no_numbers_is_an_error(tmp_path: Path, part: str, value: float, precision: str) -> None:
    folder = make_tiny_model(tmp_path, "llama-untied")
    tensors = load_file(folder / "model.safetensors")
    tensors[part][:] = value
    save_file(tensors, folder / "model.safetensors")
    for parts in ((), PARTS):
        make_tiny_streams(folder, config=tiny_stream_config(parts=parts))
        backend = NativeBackend.load(folder, ENGINE, precision=precision)  # type: ignore[arg-type]
        cache = backend.new_cache(80)
        backend.step(cache, DraftTree.root(1), [])
        with pytest.raises(NonFiniteLogits, match="streams"):
            backend.speculate(cache, [StreamAnchor(0, 3)])


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("size", [1e-38, 3e37])
@pytest.mark.parametrize("name", sorted(stream_shapes(tiny_stream_config(), replace(WIDE, num_layers=2))))
def test_sizes_at_the_ends_of_floats(tmp_path: Path, name: str, size: float, precision: str) -> None:
    """No number of a streams file may end the process; what comes out is a draft or the error."""
    folder, config = make_tiny_model(tmp_path), tiny_stream_config()
    tensors = random_streams(config, read_model_config(folder))
    write_streams(folder, config, {**tensors, name: np.full_like(tensors[name], size)})
    streams = read_streams(folder / "streams.safetensors", read_model_config(folder))
    stored = read_tensors(folder, read_model_config(folder))
    backend = NativeBackend(
        read_model_config(folder),
        stored,
        ENGINE,
        precision=precision,
        streams=streams,  # type: ignore[arg-type]
    )
    cache = backend.new_cache(100)
    backend.prefill(cache, TOKENS[:70])
    logits = backend.step(cache, random_tree(4, 2), range(4)).logits
    try:
        draft = backend.speculate(cache, [StreamAnchor(3, 9)])[0]
    except NonFiniteLogits:
        assert size > 1.0
    else:
        assert draft.tokens.shape == (3, 32)
    assert np.isfinite(logits).all()
    assert np.array_equal(backend.step(cache, random_tree(4, 2), range(4)).logits, logits)
