"""The law of the native back-end: the bits of a token's pass depend on its own path, and on nothing else.

Not on rows, slots, threads, instruction sets, or on whether a token came in a prompt, a draft or by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fetchly_llm.backends.native.backend import NativeBackend, Precision
from fetchly_llm.backends.native.kv_cache import KeyValueCache
from fetchly_llm.backends.native.library import usable_kernels
from fetchly_llm.config import EngineConfig
from fetchly_llm.tree import DraftTree
from tests.support.embedded_shape import WIDE
from tests.support.native_kernels import needs_kernels
from tests.support.native_model import random_tensors
from tests.support.tiny_model import make_tiny_model

pytestmark = needs_kernels
CHUNK, VOCABULARY = 32, 320
SIZES = (1, 2, 3, 4, 8, 13, 16, 32)
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

    backend: NativeBackend
    prompt: KeyValueCache

    def committed(self, length: int) -> KeyValueCache:
        cache = self.backend.fork(self.prompt)
        self.backend.truncate(cache, length)
        return cache


def make_setting(shape: str, precision: Precision, threads: int, folder: Path, kernels: str | None = None) -> Setting:
    engine = EngineConfig(threads=threads, prefill_chunk=CHUNK)
    if shape == "wide":
        backend = NativeBackend(WIDE, random_tensors(WIDE), engine, precision=precision, kernels=kernels)
    else:
        make_tiny_model(folder, shape, vocab_size=VOCABULARY)
        backend = NativeBackend.load(folder, engine, precision=precision, kernels=kernels)
    prompt = backend.new_cache(len(PROMPT) + 64)
    backend.prefill(prompt, PROMPT)
    return Setting(backend, prompt)


@pytest.fixture(
    scope="module",
    params=[
        ("llama", "int8", 1),
        ("qwen3", "fp32", 2),
        ("llama-bias", "fp32", 1),
        ("wide", "int8", 2),
        ("wide", "fp32", 2),
    ],
    ids=lambda p: f"{p[0]}-{p[1]}-{p[2]}t",
)
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    shape, precision, threads = request.param
    return make_setting(shape, precision, threads, tmp_path_factory.mktemp(shape))


def lengths() -> st.SearchStrategy[int]:
    """Numbers of committed tokens, most of them close to a boundary of blocks."""
    near = st.builds(lambda block, offset: 64 * block + offset, st.integers(1, 6), st.integers(-34, 9))
    return st.one_of(near, st.integers(0, 400))


@st.composite
def trees(draw: st.DrawFn, sizes: tuple[int, ...] = SIZES) -> DraftTree:
    """Any tree; some are deep, some broad, and tokens repeat."""
    size = draw(st.sampled_from(sizes))
    nearest = draw(st.sampled_from((1, 2, 64)))  # of the nodes before, which may be parents
    parents = [-1, *(draw(st.integers(max(0, node - nearest), node - 1)) for node in range(1, size))]
    tokens = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=size, max_size=size))
    return DraftTree(tuple(tokens), tuple(parents), ("test",) * size)


def bits(values: NDArray[np.float32]) -> bytes:
    return values.tobytes()


def tree_bits(setting: Setting, cache: KeyValueCache, tree: DraftTree) -> list[bytes]:
    """One entry per node."""
    logits = setting.backend.step(cache, tree, range(len(tree))).logits
    assert np.isfinite(logits).all()
    return [bits(row) for row in logits]


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
    layers, heads, _, dim, _ = cache.keys.shape
    keys = cache.keys.transpose(0, 1, 3, 2, 4).reshape(layers, heads, dim, -1)[..., : cache.length]
    values = cache.values.reshape(layers, heads, -1, cache.values.shape[-1])
    return keys.tobytes() + values[:, :, : cache.length].tobytes()


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
@given(length=lengths(), tree=trees(), node=st.integers(0, 63), other=st.integers(0, VOCABULARY - 1))
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
@given(length=lengths(), tree=trees(), rows=st.lists(st.integers(0, 63), max_size=6))
def test_rows_that_are_asked_for_do_not_matter(setting: Setting, length: int, tree: DraftTree, rows: list[int]) -> None:
    asked = [row % len(tree) for row in rows]
    cache = setting.committed(length)
    every = tree_bits(setting, cache, tree)
    some = setting.backend.step(cache, tree, asked).logits
    assert [bits(row) for row in some] == [every[row] for row in asked]


@few
@given(length=st.integers(1, 300))
def test_a_prompt_has_the_bits_of_steps(setting: Setting, length: int) -> None:
    backend = setting.backend
    prefilled, stepped = backend.new_cache(400), backend.new_cache(400)
    backend.prefill(prefilled, PROMPT[:length])
    while stepped.length < length:  # in drafts of changing size
        size = min(1 + stepped.length % 17, length - stepped.length)
        first = stepped.length
        backend.step(stepped, DraftTree.chain(PROMPT[first : first + size], "test"), [])
        backend.commit(stepped, range(size))
    tree = DraftTree((5, 6, 7), (-1, 0, 0), ("test",) * 3)
    assert stored(prefilled) == stored(stepped)
    assert tree_bits(setting, prefilled, tree) == tree_bits(setting, stepped, tree)


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


def test_nothing_unwritten_is_read(setting: Setting) -> None:
    backend = setting.backend
    clean, dirty = backend.new_cache(300), backend.new_cache(300)
    for cache, filling in ((clean, 0.0), (dirty, float("nan"))):
        cache.keys.fill(filling)
        cache.values.fill(filling)
        backend.prefill(cache, PROMPT[:96])
    tree = DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4)
    for _ in range(30):
        assert tree_bits(setting, clean, tree) == tree_bits(setting, dirty, tree)
        backend.commit(clean, [0, 2, 3])
        backend.commit(dirty, [0, 2, 3])
    assert stored(clean) == stored(dirty)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("shape", ["wide", "qwen3"])
def test_neither_threads_nor_instruction_sets_matter(shape: str, precision: Precision, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    parents = (-1, *(int(random.integers(0, node)) for node in range(1, 13)))
    tree = DraftTree(tuple(random.integers(0, VOCABULARY, 13).tolist()), parents, ("test",) * 13)
    found = {}
    for kernels in usable_kernels():
        for threads in (1, 2, 5):
            setting = make_setting(shape, precision, threads, tmp_path, kernels)
            cache = setting.committed(200)
            found[kernels, threads] = (stored(cache), *tree_bits(setting, cache, tree))
            setting.backend.close()
    assert len(set(found.values())) == 1, {name: hash(value) for name, value in found.items()}
    assert ("generic", 1) in found
