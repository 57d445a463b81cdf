import numpy as np
import pytest
from numpy.typing import NDArray

from fetchly_llm.speculation.stream_source import StreamSource
from fetchly_llm.streams import StreamDraft

DRAFT = StreamDraft(
    tokens=np.array([[7, 3, 5], [2, 9, 4]]),
    logits=np.array([[2.0, 1.0, 0.0], [3.0, 2.9, -9.0]], dtype=np.float32),
    confidence=np.array([0.9, 0.2], dtype=np.float32),
)


class Favours:
    """A Markov head that wants token 9 after token 7 and says nothing else."""

    def bias(self, stream: int, previous: int) -> NDArray[np.float32]:
        wanted = (DRAFT.tokens[stream] == 9) & (previous == 7)
        return np.where(wanted, 5.0, 0.0).astype(np.float32)


def test_each_depth_asks_its_own_stream_and_the_last_one_is_the_end() -> None:
    source = StreamSource([1, 2], temperature=0.0)
    source.load(lambda: DRAFT)
    assert [candidate.token for candidate in source.propose([])] == [7, 3, 5]
    assert [candidate.token for candidate in source.propose([7])] == [2, 9, 4]
    assert source.propose([7, 2]) == ()


def test_the_confidence_bounds_the_best_candidate() -> None:
    source = StreamSource([1], temperature=0.0)
    source.load(lambda: DRAFT)
    first, second = source.propose([]), source.propose([7])
    assert first[0].probability == pytest.approx(np.exp(2.0) / np.exp([2.0, 1.0, 0.0]).sum())
    assert second[0].probability == pytest.approx(0.2)
    assert second[1].probability < 0.2


def test_a_markov_head_sees_the_token_before_whoever_proposed_it() -> None:
    draft = StreamDraft(DRAFT.tokens, DRAFT.logits, DRAFT.confidence, Favours())
    source = StreamSource([1], temperature=0.0)
    source.load(lambda: draft)
    source.propose([])
    assert source.propose([7])[0].token == 9
    assert source.propose([3])[0].token == 2


def test_a_pass_is_run_only_when_it_is_asked_for_and_once() -> None:
    calls = []

    def make() -> StreamDraft:
        calls.append(1)
        return DRAFT

    source = StreamSource([1], temperature=0.0)
    source.load(make)
    source.extend([7])
    assert source.propose([3]) == ()  # a forced token came first: what is further ahead is not worth a pass
    assert source.distribution([3]) is None
    assert calls == []
    source.propose([])
    source.propose([7])
    assert calls == [1]
    source.load(None)
    assert source.propose([]) == ()


def test_the_target_s_own_noise_ranks_the_candidates() -> None:
    asked = []

    def noise(position: int) -> NDArray[np.float64]:
        asked.append(position)
        return np.where(np.arange(12) == 5, 9.0, 0.0)

    source = StreamSource([1, 2, 3], temperature=0.7, noise=noise)
    source.extend([8])
    source.load(lambda: DRAFT)
    assert source.propose([])[0].token == 5
    assert asked == [4]  # the token after three of the prompt and one of output
    source.propose([5])
    assert asked == [4, 5]


def test_what_is_drawn_from_is_the_tempered_softmax_without_noise() -> None:
    source = StreamSource([1], temperature=0.5)
    source.load(lambda: DRAFT)
    proposal = source.distribution([])
    assert proposal is not None
    weights = np.exp(np.array([2.0, 1.0, 0.0]) / 0.5)
    assert proposal.tokens.tolist() == [7, 3, 5]
    assert proposal.probabilities == pytest.approx(weights / weights.sum())
    assert source.distribution([7, 2]) is None
