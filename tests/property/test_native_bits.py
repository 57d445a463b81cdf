"""What the native back-end's bits do not depend on beyond the law of all back-ends (test_backend_bits.py).

Neither on threads and instruction sets, those of its streams included, nor on whether a token came in a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchly_llm.backends.native.backend import NativeBackend, Precision
from fetchly_llm.backends.native.library import usable_kernels
from fetchly_llm.config import EngineConfig
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree
from tests.support.bit_setting import PROMPT, VOCABULARY, Setting, native_setting
from tests.support.cache_bits import stored
from tests.support.native_kernels import needs_kernels
from tests.support.tiny_model import make_tiny_model
from tests.support.tiny_streams import make_tiny_streams, tiny_stream_config

pytestmark = needs_kernels
few = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_RANDOM = np.random.default_rng(5)
_PARENTS = (-1, *(int(_RANDOM.integers(0, node)) for node in range(1, 13)))
TREE = DraftTree(tuple(_RANDOM.integers(0, VOCABULARY, 13).tolist()), _PARENTS, ("test",) * 13)


@pytest.fixture(
    scope="module", params=[("llama", "int8"), ("qwen3", "fp32"), ("wide", "int8")], ids=lambda p: f"{p[0]}-{p[1]}"
)
def setting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    shape, precision = request.param
    return native_setting(shape, precision, 2, tmp_path_factory.mktemp(shape))


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
    assert setting.tree_bits(prefilled, tree) == setting.tree_bits(stepped, tree)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("shape", ["wide", "qwen3"])
def test_neither_threads_nor_instruction_sets_matter(shape: str, precision: Precision, tmp_path: Path) -> None:
    found = {}
    for kernels in usable_kernels():
        for threads in (1, 2, 5):
            setting = native_setting(shape, precision, threads, tmp_path, kernels)
            cache = setting.committed(200)
            found[kernels, threads] = (stored(cache), *setting.tree_bits(cache, TREE))
            setting.backend.close()
    assert len(set(found.values())) == 1, {name: hash(value) for name, value in found.items()}
    assert ("generic", 1) in found


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("parts", [(), ("insertion", "anchor", "lora", "markov", "confidence")], ids=["bare", "all"])
def test_they_do_not_matter_to_streams_either(parts: Sequence[str], precision: Precision, tmp_path: Path) -> None:
    """Nor do other anchors: what rejection sampling writes follows from what streams propose."""
    folder = make_tiny_model(tmp_path, "qwen3", vocab_size=VOCABULARY)
    make_tiny_streams(folder, config=tiny_stream_config(gamma=5, parts=parts))
    anchors = [StreamAnchor(12, 7), StreamAnchor(0), StreamAnchor(5, 300), StreamAnchor(12)]
    found: dict[tuple[str, int], tuple[bytes, ...]] = {}
    for kernels in usable_kernels():
        for threads in (1, 2, 5):
            backend = NativeBackend.load(folder, EngineConfig(threads=threads), precision=precision, kernels=kernels)
            cache = backend.new_cache(300)
            backend.prefill(cache, PROMPT[:126])
            backend.step(cache, TREE, [])
            together = backend.speculate(cache, anchors)
            alone = tuple(backend.speculate(cache, [anchor])[0] for anchor in anchors)
            assert draft_bits(together) == draft_bits(alone)
            backend.commit(cache, TREE.path(12))
            assert draft_bits(backend.speculate(cache, [anchors[0]])) == draft_bits(alone[:1])
            found[kernels, threads] = draft_bits(together)
            backend.close()
    assert len(set(found.values())) == 1, {name: hash(value) for name, value in found.items()}


def draft_bits(drafts: Sequence[StreamDraft]) -> tuple[bytes, ...]:
    """All that they say, before a token and after one."""
    return tuple(
        part.tobytes()
        for draft in drafts
        for part in (draft.tokens, draft.logits, draft.confidence, *(draft.scores(row, 9) for row in range(5)))
    )
