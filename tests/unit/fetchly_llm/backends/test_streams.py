"""Streams of the back-ends against a slow forward pass of their own, and when they may be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fetchly_llm.backends.native.backend import NativeBackend
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.config import EngineConfig
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.stream_config import StreamConfig
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree
from tests.support.cache_bits import AnyCache, fill, slots
from tests.support.native_kernels import needs_kernels
from tests.support.slow_streams import SlowOutput, SlowStreams
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import PARTS, make_fixed_streams, make_tiny_streams, tiny_stream_config

VOCABULARY = 320
ENGINE = EngineConfig(device="cpu", threads=1, width=8, prefill_chunk=32)
TOKENS = np.random.default_rng(5).integers(0, VOCABULARY, 200).tolist()
# A bushy tree:      0
#                  1   2
#                3 4   5
#                6     7
BUSHY = DraftTree((9, 20, 30, 40, 50, 60, 70, 80), (-1, 0, 0, 1, 1, 2, 3, 5), ("test",) * 8)
SOME_PARTS = [(), PARTS, *((part,) for part in PARTS)]
KINDS = ["torch", pytest.param("native", marks=needs_kernels)]
both = pytest.mark.parametrize("kind", KINDS)


def load(folder: Path, kind: str, engine: EngineConfig = ENGINE) -> TorchReferenceBackend | NativeBackend:
    """The native one in fp32, as every difference in rounding would hide one in meaning."""
    if kind == "torch":
        return TorchReferenceBackend.load(folder, engine)
    return NativeBackend.load(folder, engine, precision="fp32")


class Rig:
    """A tiny model with streams, loaded twice: as the back-end and as the slow reference."""

    def __init__(self, folder: Path, kind: str, family: str = "llama", config: StreamConfig | None = None) -> None:
        make_tiny_model(folder, family)
        make_tiny_streams(folder, seed=1, config=config)
        self.backend = load(folder, kind)
        self.slow = SlowStreams(folder)

    def committed(self, length: int) -> AnyCache:
        cache = self.backend.new_cache(260)
        self.backend.prefill(cache, TOKENS[:length])
        return cache

    def check(self, draft: StreamDraft, tokens: Sequence[int], following: int | None) -> None:
        """`draft` is what the slow reference says of streams after the last of `tokens`."""
        self.compare(draft, self.slow.run(tokens, [len(tokens) - 1], [following]), 0)

    def compare(self, draft: StreamDraft, slow: SlowOutput, anchor: int) -> None:
        """`draft` is what `slow` says of its anchor of that number."""
        config = self.slow.config
        assert draft.tokens.shape == draft.logits.shape == (config.gamma, config.top)
        assert draft.tokens.dtype == np.int64
        assert draft.logits.dtype == draft.confidence.dtype == np.float32
        for stream in range(config.gamma):
            expected, found = slow.logits[anchor, stream], draft.tokens[stream]
            assert np.abs(draft.logits[stream] - expected[found]).max() < 5e-4
            assert len(set(found.tolist())) == config.top
            assert np.abs(np.sort(expected)[::-1][: config.top] - draft.logits[stream]).max() < 5e-4
            assert abs(draft.confidence[stream] - slow.confidence[anchor, stream]) < 5e-5
            bias = draft.scores(stream, 17) - draft.logits[stream]
            if config.markov_rank:
                wanted = self.slow.markov(slow.normed[anchor, stream], 17, found.tolist())
                assert np.abs(bias - wanted).max() < 5e-4
                assert np.abs(wanted).max() > 0.1
            else:
                assert draft.successors is None
                assert not bias.any()


def same(one: StreamDraft, other: StreamDraft) -> bool:
    return (
        np.allclose(one.logits, other.logits, atol=1e-4)
        and np.allclose(one.confidence, other.confidence, atol=1e-5)
        and np.allclose(one.scores(1, 3), other.scores(1, 3), atol=1e-4)
    )


@pytest.fixture(scope="module", params=KINDS)
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(tmp_path_factory.mktemp("streams"), request.param)


@both
@pytest.mark.parametrize("parts", SOME_PARTS, ids="+".join)
@pytest.mark.parametrize("first_layer", [0, 1])
def test_every_part_is_as_in_the_slow_reference(
    tmp_path: Path, kind: str, parts: tuple[str, ...], first_layer: int
) -> None:
    rig = Rig(tmp_path, kind, config=tiny_stream_config(parts=parts, first_layer=first_layer))
    cache = rig.committed(70)
    rig.backend.step(cache, BUSHY, [])
    for node, following in ((0, None), (7, 11)):
        tokens = TOKENS[:70] + [BUSHY.tokens[step] for step in BUSHY.path(node)]
        rig.check(rig.backend.speculate(cache, [StreamAnchor(node, following)])[0], tokens, following)


@both
@pytest.mark.parametrize("parts", [(), PARTS], ids=["none", "all"])
@pytest.mark.parametrize("step", [1, 3, 16, 63])
def test_the_best_of_a_draft_vocabulary(tmp_path: Path, kind: str, parts: tuple[str, ...], step: int) -> None:
    config = tiny_stream_config(parts=parts, top=5)
    rig = Rig(tmp_path, kind, config=config)
    cache = rig.committed(70)
    rig.backend.step(cache, BUSHY, [])
    few = np.arange(2, VOCABULARY, step)
    drafts = rig.backend.speculate(cache, [StreamAnchor(0), StreamAnchor(7, 11)], few)
    for draft, node, following in zip(drafts, (0, 7), (None, 11), strict=True):
        tokens = TOKENS[:70] + [BUSHY.tokens[step] for step in BUSHY.path(node)]
        slow = rig.slow.run(tokens, [len(tokens) - 1], [following])
        logits = np.full_like(slow.logits, -np.inf)
        logits[..., few] = slow.logits[..., few]
        best = np.exp(logits.max(-1)) / np.exp(logits).sum(-1)
        confidence = slow.confidence if config.confidence else best.astype(np.float32)
        rig.compare(draft, replace(slow, logits=logits, confidence=confidence), 0)
        assert set(draft.tokens.flatten().tolist()) <= set(few.tolist())


@both
def test_what_is_no_draft_vocabulary(tmp_path: Path, kind: str) -> None:
    rig = Rig(tmp_path, kind, config=tiny_stream_config(top=5))
    cache = rig.committed(7)
    rig.backend.step(cache, BUSHY, [])
    for ids in ([1, 2, 3, 3, 4], [2, 1, 3, 4, 5], [-1, 1, 2, 3, 4], [1, 2, 3, 4, VOCABULARY]):
        with pytest.raises(RequestInvalid, match="draft vocabulary"):
            rig.backend.speculate(cache, [StreamAnchor(0)], np.array(ids, dtype=np.int64))


@both
def test_too_few_tokens_are_no_draft_vocabulary(tmp_path: Path, kind: str) -> None:
    rig = Rig(tmp_path, kind, config=tiny_stream_config(top=5))
    cache = rig.committed(7)
    rig.backend.step(cache, BUSHY, [])
    of_all, *others = (
        rig.backend.speculate(cache, [StreamAnchor(0)], vocabulary)[0]
        for vocabulary in (None, np.array([], dtype=np.int64), np.arange(4), np.arange(VOCABULARY))
    )
    for draft in others:
        assert (draft.tokens == of_all.tokens).all()
        assert same(draft, of_all)


@both
@pytest.mark.parametrize("family", ["llama-untied", "llama-bias", "llama-mha", "mistral", "qwen2", "qwen3"])
def test_every_family(tmp_path: Path, kind: str, family: str) -> None:
    rig = Rig(tmp_path, kind, family)
    cache = rig.committed(70)
    rig.backend.step(cache, BUSHY, [])
    tokens = [*TOKENS[:70], 9, 20, 40, 70]
    rig.check(rig.backend.speculate(cache, [StreamAnchor(6, 0)])[0], tokens, 0)


@pytest.mark.parametrize("length", [0, 5, 59, 62, 63, 64, 127, 130])
def test_bushy_trees_and_committed_paths_across_boundaries(rig: Rig, length: int) -> None:
    cache = rig.committed(length)
    rig.backend.step(cache, BUSHY, [0])
    before = {node: rig.backend.speculate(cache, [StreamAnchor(node, 5)])[0] for node in range(len(BUSHY))}
    for node, draft in before.items():
        rig.check(draft, TOKENS[:length] + [BUSHY.tokens[step] for step in BUSHY.path(node)], 5)
    for node in (0, 4, 7):
        own = rig.committed(length)
        rig.backend.step(own, BUSHY, [])
        rig.backend.commit(own, BUSHY.path(node))
        assert same(rig.backend.speculate(own, [StreamAnchor(node, 5)])[0], before[node])


def test_streams_along_a_decoded_text_are_one_forward_pass(rig: Rig) -> None:
    cache, text = rig.committed(50), TOKENS[:50]
    anchors: list[int] = []
    following: list[int | None] = []
    drafts: list[StreamDraft] = []
    for path in ((0,), (0, 2, 5, 7), (0, 1, 4), (0,), (0, 1, 3, 6), (0, 2, 5), (0, 1), (0,)):
        rig.backend.step(cache, BUSHY, [0])
        rig.backend.commit(cache, path)
        text += [BUSHY.tokens[node] for node in path]
        for token in (None, 33):
            drafts += rig.backend.speculate(cache, [StreamAnchor(path[-1], token)])
            anchors.append(len(text) - 1)
            following.append(token)
    slow = rig.slow.run(text, anchors, following)
    for number, draft in enumerate(drafts):
        rig.compare(draft, slow, number)


def test_several_anchors_at_once_are_each_as_alone(rig: Rig) -> None:
    cache = rig.committed(125)
    rig.backend.step(cache, BUSHY, [])
    anchors = [StreamAnchor(7, 3), StreamAnchor(0), StreamAnchor(4, 12), StreamAnchor(4)]
    together = rig.backend.speculate(cache, anchors)
    assert len(together) == 4
    for anchor, draft in zip(anchors, together, strict=True):
        assert same(draft, rig.backend.speculate(cache, [anchor])[0])
    assert not same(together[2], together[3])  # `following` matters
    assert not same(together[0], together[1])
    assert rig.backend.speculate(cache, []) == ()


def test_the_same_call_gives_the_same_bits(rig: Rig) -> None:
    cache = rig.committed(90)
    rig.backend.step(cache, BUSHY, [])
    once, again = (rig.backend.speculate(cache, [StreamAnchor(3, 4), StreamAnchor(5)]) for _ in range(2))
    for one, other in zip(once, again, strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert np.array_equal(one.logits, other.logits)
        assert np.array_equal(one.confidence, other.confidence)


def test_nothing_unwritten_is_read(rig: Rig) -> None:
    cache = rig.backend.new_cache(200)
    fill(cache, float("nan"))
    rig.backend.prefill(cache, TOKENS[:61])
    rig.backend.step(cache, BUSHY, [])
    for draft in rig.backend.speculate(cache, [StreamAnchor(7), StreamAnchor(0)]):
        assert np.isfinite(draft.logits).all()
    rig.backend.commit(cache, (0, 2, 5))
    assert np.isfinite(rig.backend.speculate(cache, [StreamAnchor(5)])[0].logits).all()


def test_ties_go_to_the_lowest_id(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "torch", "llama-untied", tiny_stream_config(top=5))
    with torch.inference_mode():
        rig.backend._model._weights.head[:] = torch.tensor([1.0, -1.0]).repeat(160)[:, None]  # type: ignore[union-attr]
    cache = rig.committed(10)
    rig.backend.step(cache, DraftTree.root(1), [])
    draft = rig.backend.speculate(cache, [StreamAnchor(0)])[0]
    assert set(map(tuple, draft.tokens.tolist())) <= {(0, 2, 4, 6, 8), (1, 3, 5, 7, 9)}


@both
def test_streams_past_the_last_position(tmp_path: Path, kind: str) -> None:
    config = make_tiny_model(tmp_path) / "config.json"
    config.write_text(config.read_text().replace("4096", "64"))
    make_tiny_streams(tmp_path, config=tiny_stream_config(gamma=9))
    backend = load(tmp_path, kind, EngineConfig(device="cpu", threads=1, width=1, prefill_chunk=1))
    backend.new_cache(60)  # whose streams need as many positions as the next one has
    cache = backend.new_cache(63)
    backend.prefill(cache, TOKENS[:62])
    backend.step(cache, DraftTree.root(1), [])
    assert slots(cache) == 64
    assert len(backend.speculate(cache, [StreamAnchor(0)])[0].tokens) == 9  # the last of them at position 71


@both
def test_hand_made_streams_propose_their_tokens(tmp_path: Path, kind: str) -> None:
    make_fixed_streams(make_tiny_model(tmp_path, "llama-untied"), [200, 7, 31, 7])
    backend = load(tmp_path, kind)
    cache = backend.new_cache(200)
    backend.prefill(cache, TOKENS[:100])
    backend.step(cache, BUSHY, [])
    for draft in backend.speculate(cache, [StreamAnchor(0), StreamAnchor(6, 4), StreamAnchor(5)]):
        assert draft.tokens[:, 0].tolist() == [200, 7, 31, 7]
        assert draft.confidence.min() > 0.9


def test_confidence_is_above_0_and_at_most_1(tmp_path: Path) -> None:
    for name, weight, sure in (("high", 1e4, 1.0), ("low", -1e4, np.finfo(np.float32).tiny)):
        rig = Rig(tmp_path / name, "torch", config=tiny_stream_config(parts=("confidence",)))
        with torch.inference_mode():
            rig.backend._decoder._weights.confidence.bias.fill_(weight)  # type: ignore[union-attr]
        cache = rig.committed(10)
        rig.backend.step(cache, DraftTree.root(1), [])
        assert rig.backend.speculate(cache, [StreamAnchor(0)])[0].confidence.tolist() == [sure] * 3


def test_only_between_a_step_and_the_next(rig: Rig) -> None:
    backend, cache = rig.backend, rig.committed(40)
    anchor = [StreamAnchor(0)]

    def refused(cache: AnyCache, anchors: list[StreamAnchor], named: str) -> None:
        with pytest.raises(RequestInvalid, match=named):
            backend.speculate(cache, anchors)

    refused(cache, anchor, "no step")
    backend.step(cache, BUSHY, [])
    refused(backend.fork(cache), anchor, "no step")
    refused(cache, [StreamAnchor(8)], "node 8")
    refused(cache, [StreamAnchor(0), StreamAnchor(-1)], "node -1")
    refused(cache, [StreamAnchor(0, 320)], "token 320")
    refused(cache, [StreamAnchor(0, -1)], "token -1")
    backend.speculate(cache, anchor)
    backend.commit(cache, (0, 1, 3))
    for node in (0, 1, 4, 6):
        refused(cache, [StreamAnchor(3), StreamAnchor(node)], f"node {node} after a commit that ended in node 3")
    backend.speculate(cache, [StreamAnchor(3)])
    refused(backend.fork(cache), [StreamAnchor(3)], "no step")
    backend.step(cache, DraftTree.root(4), [])
    backend.speculate(cache, anchor)
    with pytest.raises(RequestInvalid, match="tree of 65 nodes"):
        backend.step(cache, DraftTree.chain(range(65), "test"), [])  # refused before it did anything
    backend.speculate(cache, anchor)
    backend.truncate(cache, 32)
    refused(cache, anchor, "no step")
    backend.step(cache, DraftTree.root(4), [])
    backend.prefill(cache, TOKENS[:3])
    refused(cache, anchor, "no step")


@both
def test_without_streams_and_after_closing(tmp_path: Path, kind: str) -> None:
    backend = load(make_tiny_model(tmp_path), kind)
    cache = backend.new_cache(20)
    backend.step(cache, DraftTree.root(4), [])
    assert cache.start is None  # nothing is kept for streams that are not there
    with pytest.raises(RequestInvalid, match="no speculative streams"):
        backend.speculate(cache, [StreamAnchor(0)])
    make_tiny_streams(tmp_path)
    backend = load(tmp_path, kind)
    cache = backend.new_cache(20)
    backend.step(cache, DraftTree.root(4), [])
    draft = backend.speculate(cache, [StreamAnchor(0)])[0]
    backend.close()
    with pytest.raises(RequestInvalid, match="closed"):
        backend.speculate(cache, [StreamAnchor(0)])
    if kind == "native":  # torch keeps what a draft needs
        with pytest.raises(RequestInvalid, match="closed"):
            draft.scores(0, 1)


def test_the_markov_head_wants_a_token(rig: Rig) -> None:
    cache = rig.committed(10)
    rig.backend.step(cache, DraftTree.root(1), [])
    draft = rig.backend.speculate(cache, [StreamAnchor(0)])[0]
    for token in (-1, VOCABULARY):
        with pytest.raises(RequestInvalid, match=f"token {token}"):
            draft.scores(0, token)
