"""What is added to the ends of lists: where, how much, and that drafts still change no byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fetchly_llm.checkpoint import write_list_end
from fetchly_llm.list_end import ListEnd
from tests.support.engine_pair import EnginePair, engine_pair

DRAFTS = ((), ("forced",), ("forced", "lookup"), ("forced", "lookup", "streams"), ("right", "bushy"))


def test_only_what_ends_a_string_and_its_list_is_raised() -> None:
    spellings = (b'"', b'"]', b"]", b' "]', b'"],', b'",', b"x", b'"]}', b"", b'x"]')
    legal = np.array([0, 1, 2, 4, 5, 7, 9, 11])
    scores = np.linspace(-3.0, 3.0, len(legal), dtype=np.float32)
    raised = ListEnd(spellings, 12, 1.5).raised(scores, legal)
    assert raised.dtype == np.float32
    assert (raised - scores).tolist() == pytest.approx([0, 1.5, 0, 1.5, 0, 1.5, 0, 0], abs=1e-6)


@pytest.fixture(scope="module", params=[2.0, 40.0])
def ending(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnginePair]:
    pair = engine_pair(tmp_path_factory.mktemp("ending"), "llama", 8, list_end=request.param)
    assert pair.plain.backend.config.list_end == request.param
    yield pair
    pair.close()


def spans(pair: EnginePair, **changes: object) -> list[str]:
    """What plain decoding writes for the schema of 1 to 5 spans, as every drafted one does."""
    plain = pair.answer(pair.request("spans", **changes))
    for draft in DRAFTS:
        for mode in ("deferred", "fused"):
            pair.drafted(pair.request("spans", draft=draft, stream_mode=mode, **changes))
    return plain.text.split('", "')


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_more_is_added_the_shorter_are_lists(ending: EnginePair, temperature: float) -> None:
    for seed in range(3):
        items = spans(ending, temperature=temperature, seed=seed, max_tokens=200)
        if ending.plain.backend.config.list_end == 40.0:
            assert len(items) == 1


def test_text_without_a_schema_is_left_alone(ending: EnginePair, tmp_path: Path) -> None:
    other = engine_pair(tmp_path, "llama", 8)
    request = ending.request("text")
    assert ending.answer(request).token_ids == other.answer(request).token_ids
    other.close()


def test_rejection_sampling_draws_from_the_raised_target(ending: EnginePair) -> None:
    request = ending.request("spans", temperature=0.7, draft=("right",), verify="rejection", max_tokens=200)
    items = ending.drafting.generate(request).text.split('", "')
    if ending.plain.backend.config.list_end == 40.0:
        assert len(items) == 1


def test_a_note_keeps_the_other_settings(tmp_path: Path) -> None:
    file = tmp_path / "generation_config.json"
    write_list_end(tmp_path, 1.5)
    assert file.read_text() == '{\n  "list_end_bias": 1.5\n}\n'
    file.write_text('{"eos_token_id": [2, 0], "list_end_bias": 9}')
    write_list_end(tmp_path, 0.5)
    assert file.read_text() == '{\n  "eos_token_id": [\n    2,\n    0\n  ],\n  "list_end_bias": 0.5\n}\n'
