"""The law of a back-end: the bits of a token's pass depend on its own path, and on nothing else.

Not on rows or slots, nor on what has been in the cache before.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchly_llm.tree import DraftTree
from tests.support.bit_setting import CHUNK, PROMPT, VOCABULARY, Setting, native_setting, torch_setting
from tests.support.cache_bits import fill, stored
from tests.support.native_kernels import needs_kernels

SIZES = (1, 2, 3, 4, 8, 13, 16, 32)  # of trees, where a back-end has no width
few = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(
    scope="module",
    params=[
        ("torch", "llama", 1),
        ("torch", "qwen3", 1),
        ("torch", "wide", 1),
        ("torch", "wide", 2),
        pytest.param(("int8", "llama", 1), marks=needs_kernels),
        pytest.param(("fp32", "qwen3", 2), marks=needs_kernels),
        pytest.param(("fp32", "llama-bias", 1), marks=needs_kernels),
        pytest.param(("int8", "wide", 2), marks=needs_kernels),
        pytest.param(("fp32", "wide", 2), marks=needs_kernels),
    ],
    ids=lambda p: f"{p[0]}-{p[1]}-{p[2]}t",
)
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    kind, shape, threads = request.param
    folder = tmp_path_factory.mktemp(shape)
    before = torch.get_num_threads()
    yield torch_setting(shape, threads, folder) if kind == "torch" else native_setting(shape, kind, threads, folder)
    torch.set_num_threads(before)


def lengths() -> st.SearchStrategy[int]:
    """Numbers of committed tokens, most of them close to a boundary of blocks."""
    near = st.builds(lambda block, offset: 64 * block + offset, st.integers(1, 6), st.integers(-34, 9))
    return st.one_of(near, st.integers(0, 400))


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    """Any tree; some are deep, some broad, and tokens repeat."""
    size = draw(st.sampled_from(SIZES))
    nearest = draw(st.sampled_from((1, 2, 64)))  # of the nodes before, which may be parents
    parents = [-1, *(draw(st.integers(max(0, node - nearest), node - 1)) for node in range(1, size))]
    tokens = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=size, max_size=size))
    return DraftTree(tuple(tokens), tuple(parents), ("test",) * size)


@few
@given(length=lengths(), tree=trees())
def test_every_node_has_the_bits_of_plain_decoding(setting: Setting, length: int, tree: DraftTree) -> None:
    tree, cache = setting.within(tree), setting.committed(length)
    assert setting.tree_bits(cache, tree) == setting.plain_bits(cache, tree)


@few
@given(length=lengths(), rounds=st.lists(st.tuples(trees(), st.randoms(use_true_random=False)), min_size=2, max_size=4))
def test_accepted_paths_leave_the_keys_and_values_of_plain_decoding(
    setting: Setting, length: int, rounds: list
) -> None:
    backend = setting.backend
    drafted, plain = setting.committed(length), setting.committed(length)
    for tree, random in rounds:
        tree = setting.within(tree)
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
    tree = setting.within(tree)
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
    straight = setting.tree_bits(cache, tree)
    assert setting.tree_bits(cache, shuffled) == [straight[node] for node in order]


@few
@given(length=lengths(), tree=trees(), node=st.integers(0, 63), other=st.integers(0, VOCABULARY - 1))
def test_contents_of_other_rows_do_not_matter(
    setting: Setting, length: int, tree: DraftTree, node: int, other: int
) -> None:
    tree = setting.within(tree)
    node %= len(tree)
    path = tree.path(node)
    tokens = tuple(token if index in path else other for index, token in enumerate(tree.tokens))
    changed = DraftTree(tokens, tree.parents, tree.sources)
    cache = setting.committed(length)
    assert setting.tree_bits(cache, tree)[node] == setting.tree_bits(cache, changed)[node]


@few
@given(length=lengths(), tree=trees(), rows=st.lists(st.integers(0, 63), max_size=6))
def test_rows_that_are_asked_for_do_not_matter(setting: Setting, length: int, tree: DraftTree, rows: list[int]) -> None:
    tree = setting.within(tree)
    asked = [row % len(tree) for row in rows]
    cache = setting.committed(length)
    every = setting.tree_bits(cache, tree)
    some = setting.backend.step(cache, tree, asked).logits
    assert [row.tobytes() for row in some] == [every[row] for row in asked]


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
    assert setting.tree_bits(cold, tree) == setting.tree_bits(warm, tree) == setting.tree_bits(used, tree)


def test_a_longer_prompt_has_the_keys_and_values_of_its_beginning(setting: Setting) -> None:
    for length in (1, CHUNK - 1, CHUNK, 2 * CHUNK + 5):
        short = setting.backend.new_cache(512)
        setting.backend.prefill(short, PROMPT[:length])
        assert stored(short) == stored(setting.committed(length))


def test_nothing_unwritten_is_read(setting: Setting) -> None:
    backend = setting.backend
    clean, dirty = backend.new_cache(300), backend.new_cache(300)
    for cache, filling in ((clean, 0.0), (dirty, float("nan"))):
        fill(cache, filling)
        backend.prefill(cache, PROMPT[:96])
    tree = DraftTree((1, 2, 3, 4), (-1, 0, 0, 2), ("test",) * 4)
    for _ in range(30):
        assert setting.tree_bits(clean, tree) == setting.tree_bits(dirty, tree)
        backend.commit(clean, [0, 2, 3])
        backend.commit(dirty, [0, 2, 3])
    assert stored(clean) == stored(dirty)
