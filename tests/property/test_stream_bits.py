"""Streams change no byte: main-stream logits and the cache are the same with streams, without, and while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchly_llm.backends.native.backend import NativeBackend, Precision
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.config import EngineConfig
from fetchly_llm.streams import StreamAnchor
from fetchly_llm.tree import DraftTree
from tests.support.cache_bits import AnyCache, fill, slots, stored
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams, tiny_stream_config

WIDTH, VOCABULARY = 8, 320
PROMPT = np.random.default_rng(8).integers(0, VOCABULARY, 200).tolist()
ENGINE = EngineConfig(device="cpu", threads=1, width=WIDTH, prefill_chunk=32)
AnyBackend = TorchReferenceBackend | NativeBackend
some = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same model without streams and with them."""

    plain: AnyBackend
    streaming: AnyBackend


@dataclass(frozen=True, slots=True)
class Round:
    """One step: its tree, which node its commit ends in, and the anchors asked for before the commit and after it."""

    tree: DraftTree
    last: int
    before: tuple[StreamAnchor, ...]
    after: tuple[StreamAnchor, ...]


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    size = draw(st.integers(1, WIDTH))
    parents = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    tokens = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=size, max_size=size))
    following = st.one_of(st.none(), st.integers(0, VOCABULARY - 1))
    last = draw(st.integers(0, size - 1))
    before = draw(st.lists(st.builds(StreamAnchor, st.integers(0, size - 1), following), max_size=3))
    after = draw(st.lists(st.builds(StreamAnchor, st.just(last), following), max_size=2))
    return Round(DraftTree(tuple(tokens), tuple(parents), ("test",) * size), last, tuple(before), tuple(after))


@pytest.fixture(
    scope="module",
    params=[
        ("torch", "llama"),
        ("torch", "qwen3"),
        pytest.param(("int8", "llama"), marks=needs_kernels),
        pytest.param(("int8", "llama-bias"), marks=needs_kernels),
        pytest.param(("fp32", "qwen3"), marks=needs_kernels),
    ],
    ids="-".join,
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    kind, family = request.param
    folder = make_tiny_model(tmp_path_factory.mktemp(family), family)
    plain = load(folder, kind)
    make_tiny_streams(folder, config=tiny_stream_config(gamma=4))
    return Pair(plain, load(folder, kind))


def load(folder: Path, kind: Precision | Literal["torch"]) -> AnyBackend:
    if kind == "torch":
        return TorchReferenceBackend.load(folder, ENGINE)
    return NativeBackend.load(folder, ENGINE, precision=kind)


def decoded(
    backend: AnyBackend, length: int, plan: list[Round], speculate: Callable[[AnyCache, object], None]
) -> list[bytes]:
    """Logits of every node and the cache after every step and every commit."""
    cache = backend.new_cache(300)
    fill(cache, 0.0)
    backend.prefill(cache, PROMPT[:length])
    found = []
    for each in plan:
        found.append(backend.step(cache, each.tree, range(len(each.tree))).logits.tobytes())
        speculate(cache, each.before)
        found.append(stored(cache, slots(cache)))  # the slots of the tree too, and all that lies beyond
        backend.commit(cache, each.tree.path(each.last))
        speculate(cache, each.after)
        found.append(stored(cache))
    return found


@some
@given(length=st.integers(0, 150), plan=st.lists(rounds(), min_size=1, max_size=4))
def test_streams_change_no_byte(pair: Pair, length: int, plan: list[Round]) -> None:
    def never(cache: AnyCache, anchors: object) -> None:
        pass

    def always(cache: AnyCache, anchors: tuple[StreamAnchor, ...]) -> None:
        drafts = pair.streaming.speculate(cache, anchors)
        assert len(drafts) == len(anchors)

    without = decoded(pair.plain, length, plan, never)
    assert decoded(pair.streaming, length, plan, never) == without
    assert decoded(pair.streaming, length, plan, always) == without


@some
@given(length=st.integers(0, 150), each=rounds(), following=st.integers(0, VOCABULARY - 1))
def test_before_and_after_the_commit_streams_say_the_same(pair: Pair, length: int, each: Round, following: int) -> None:
    backend = pair.streaming
    cache = backend.new_cache(300)
    backend.prefill(cache, PROMPT[:length])
    backend.step(cache, each.tree, [])
    anchor = StreamAnchor(each.last, following)
    fused = backend.speculate(cache, [*each.before, anchor])[-1]
    backend.commit(cache, each.tree.path(each.last))
    deferred = backend.speculate(cache, [anchor])[0]
    assert np.allclose(fused.logits, deferred.logits, atol=1e-3)
    assert np.allclose(fused.confidence, deferred.confidence, atol=1e-4)


def test_tapped_layers_are_the_same_with_streams(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path)
    plain = TorchReferenceBackend.load(folder, ENGINE, tapped_layers=(1,))
    make_tiny_streams(folder)
    streaming = TorchReferenceBackend.load(folder, ENGINE, tapped_layers=(1,))
    tree = DraftTree((1, 2, 3), (-1, 0, 0), ("test",) * 3)
    outputs = [backend.step(backend.new_cache(20), tree, [0]) for backend in (plain, streaming)]
    assert [sorted(output.hidden) for output in outputs] == [[1], [1]]
    assert outputs[0].hidden[1].numpy().tobytes() == outputs[1].hidden[1].numpy().tobytes()
