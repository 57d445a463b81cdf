"""The law of the reference back-end: the bits of a token's pass depend on its own path, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.torch_reference.kv_cache import KeyValueCache
from fetchly_llm.backends.torch_reference.weights import LayerWeights, ModelWeights
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.tree import DraftTree
from tests.support.embedded_shape import WIDE
from tests.support.tiny_model import make_tiny_model

WIDTH, CHUNK, VOCABULARY = 8, 32, 320
PROMPT = tuple(np.random.default_rng(7).integers(0, VOCABULARY, 500).tolist())
few = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A back-end, and a cache that holds all of PROMPT."""

    backend: TorchReferenceBackend
    prompt: KeyValueCache

    def committed(self, length: int) -> KeyValueCache:
        cache = self.backend.fork(self.prompt)
        self.backend.truncate(cache, length)
        return cache


@pytest.fixture(
    scope="module",
    params=[("llama", 1), ("qwen3", 1), ("wide", 1), ("wide", 2)],
    ids=lambda p: f"{p[0]}-{p[1]}t",
)
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    shape, threads = request.param
    before = torch.get_num_threads()
    engine = EngineConfig(device="cpu", threads=threads, width=WIDTH, prefill_chunk=CHUNK)
    if shape == "wide":
        with torch.inference_mode():
            backend = TorchReferenceBackend(WIDE, _random_weights(WIDE), engine)
    else:
        folder: Path = make_tiny_model(tmp_path_factory.mktemp(shape), shape, vocab_size=VOCABULARY)
        backend = TorchReferenceBackend.load(folder, engine)
    prompt = backend.new_cache(len(PROMPT) + 64)
    backend.prefill(prompt, PROMPT)
    yield Setting(backend, prompt)
    torch.set_num_threads(before)


def _random_weights(config: ModelConfig) -> ModelWeights:
    generator = torch.Generator().manual_seed(3)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn((rows, columns), generator=generator) * columns**-0.5

    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    layers = tuple(
        LayerWeights(
            attention_norm=torch.ones(hidden),
            qkv=matrix((config.num_heads + 2 * config.num_kv_heads) * dim, hidden),
            qkv_bias=None,
            query_norm=None,
            key_norm=None,
            output=matrix(hidden, config.num_heads * dim),
            output_bias=None,
            mlp_norm=torch.ones(hidden),
            gate_up=matrix(2 * inner, hidden),
            down=matrix(hidden, inner),
        )
        for _ in range(config.num_layers)
    )
    embedding = matrix(config.vocab_size, hidden) * 20
    return ModelWeights(embedding, layers, torch.ones(hidden), embedding)


def lengths() -> st.SearchStrategy[int]:
    """Numbers of committed tokens, most of them close to a boundary of blocks."""
    near = st.builds(lambda block, offset: 64 * block + offset, st.integers(1, 6), st.integers(-WIDTH - 1, WIDTH + 1))
    return st.one_of(near, st.integers(0, 400))


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    """Any tree within the width; some are deep, some broad, and tokens repeat."""
    size = draw(st.integers(1, WIDTH))
    parents = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    tokens = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=size, max_size=size))
    return DraftTree(tuple(tokens), tuple(parents), ("test",) * size)


def bits(values: NDArray[np.float32]) -> bytes:
    return values.tobytes()


def tree_bits(setting: Setting, cache: KeyValueCache, tree: DraftTree) -> list[bytes]:
    """One entry per node."""
    return [bits(row) for row in setting.backend.step(cache, tree, range(len(tree))).logits]


def plain_bits(setting: Setting, cache: KeyValueCache, tree: DraftTree) -> list[bytes]:
    """The same, each node reached by one-node steps along its own path."""
    backend = setting.backend
    reached: list[KeyValueCache] = []
    found = []
    for node, parent in enumerate(tree.parents):
        own = backend.fork(cache if parent < 0 else reached[parent])
        found.append(bits(backend.step(own, DraftTree.root(tree.tokens[node]), [0]).logits[0]))
        backend.commit(own, [0])
        reached.append(own)
    return found


def stored(cache: KeyValueCache) -> bytes:
    """All committed keys and values, in the order of their positions."""
    layers, both, blocks, heads, size, dim = cache.storage.shape
    by_position = cache.storage.transpose(3, 4).reshape(layers, both, blocks * size, heads, dim)
    return by_position[:, :, : cache.length].contiguous().numpy().tobytes()


@few
@given(length=lengths(), tree=trees())
def test_every_node_has_the_bits_of_plain_decoding(setting: Setting, length: int, tree: DraftTree) -> None:
    cache = setting.committed(length)
    assert tree_bits(setting, cache, tree) == plain_bits(setting, cache, tree)


@few
@given(length=lengths(), rounds=st.lists(st.tuples(trees(), st.randoms(use_true_random=False)), min_size=2, max_size=4))
def test_accepted_paths_leave_the_keys_and_values_of_plain_decoding(
    setting: Setting, length: int, rounds: list
) -> None:
    backend = setting.backend
    drafted, plain = setting.committed(length), setting.committed(length)
    for tree, random in rounds:
        backend.step(drafted, tree, [])
        path = tree.path(random.randrange(len(tree)))
        backend.commit(drafted, path)
        for node in path:
            backend.step(plain, DraftTree.root(tree.tokens[node]), [0])
            backend.commit(plain, [0])
        assert drafted.length == plain.length
        assert stored(drafted) == stored(plain)


@few
@given(length=lengths(), tree=trees(), random=st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(setting: Setting, length: int, tree: DraftTree, random) -> None:
    order = [0]  # a random topological order
    while len(order) < len(tree):
        ready = [n for n in range(len(tree)) if n not in order and tree.parents[n] in order]
        order.append(random.choice(ready))
    place = {node: index for index, node in enumerate(order)}
    shuffled = DraftTree(
        tuple(tree.tokens[node] for node in order),
        tuple(place[tree.parents[node]] if node else -1 for node in order),
        tree.sources,
    )
    cache = setting.committed(length)
    straight = tree_bits(setting, cache, tree)
    assert tree_bits(setting, cache, shuffled) == [straight[node] for node in order]


@few
@given(length=lengths(), tree=trees(), node=st.integers(0, WIDTH - 1), other=st.integers(0, VOCABULARY - 1))
def test_contents_of_other_rows_do_not_matter(
    setting: Setting, length: int, tree: DraftTree, node: int, other: int
) -> None:
    node %= len(tree)
    path = tree.path(node)
    tokens = tuple(token if index in path else other for index, token in enumerate(tree.tokens))
    changed = DraftTree(tokens, tree.parents, tree.sources)
    cache = setting.committed(length)
    assert tree_bits(setting, cache, tree)[node] == tree_bits(setting, cache, changed)[node]


@few
@given(length=lengths(), tree=trees(), rows=st.sets(st.integers(0, WIDTH - 1)))
def test_number_of_logit_rows_does_not_matter(setting: Setting, length: int, tree: DraftTree, rows: set[int]) -> None:
    asked = sorted(row % len(tree) for row in rows)
    cache = setting.committed(length)
    every = tree_bits(setting, cache, tree)
    some = setting.backend.step(cache, tree, asked).logits
    assert [bits(row) for row in some] == [every[row] for row in asked]


@few
@given(length=st.integers(1, 150), chunks=st.integers(0, 4), longer=st.integers(0, 70))
def test_prefill_does_not_depend_on_how_its_prefix_came(
    setting: Setting, length: int, chunks: int, longer: int
) -> None:
    backend = setting.backend
    prefix = min(chunks * CHUNK, length // CHUNK * CHUNK)
    cold = backend.new_cache(256)
    backend.prefill(cold, PROMPT[:length])

    kept = backend.new_cache(256)
    backend.prefill(kept, PROMPT[:prefix])
    warm = backend.fork(kept)
    backend.prefill(warm, PROMPT[prefix:length])

    # What another, longer prompt and a step left behind it must not matter either.
    used = backend.new_cache(320)
    backend.prefill(used, (*PROMPT[:prefix], *reversed(PROMPT[:longer])))
    backend.step(used, DraftTree.chain(PROMPT[:4], "test"), [])
    backend.truncate(used, prefix)
    backend.prefill(used, PROMPT[prefix:length])

    tree = DraftTree((5, 6, 7), (-1, 0, 0), ("test",) * 3)
    assert stored(cold) == stored(warm) == stored(used)
    assert tree_bits(setting, cold, tree) == tree_bits(setting, warm, tree) == tree_bits(setting, used, tree)


def test_a_longer_prompt_has_the_keys_and_values_of_its_beginning(setting: Setting) -> None:
    for length in (1, CHUNK - 1, CHUNK, 2 * CHUNK + 5):
        short = setting.backend.new_cache(512)
        setting.backend.prefill(short, PROMPT[:length])
        assert stored(short) == stored(setting.committed(length))


def test_nothing_unwritten_is_read(setting: Setting) -> None:
    backend = setting.backend
    clean, dirty = backend.new_cache(300), backend.new_cache(300)
    clean.storage.zero_()
    dirty.storage.fill_(float("nan"))
    tree = DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4)
    for cache in (clean, dirty):
        backend.prefill(cache, PROMPT[:121])
    for _ in range(4):
        assert tree_bits(setting, clean, tree) == tree_bits(setting, dirty, tree)
        backend.commit(clean, [0, 2, 3])
        backend.commit(dirty, [0, 2, 3])
    assert stored(clean) == stored(dirty)
