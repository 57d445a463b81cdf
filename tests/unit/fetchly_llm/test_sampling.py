import numpy as np
import pytest

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.request import SamplingParams
from fetchly_llm.sampling import GumbelNoise, NonFiniteLogits, check_sampling, gumbel_noise, sample_token


def no_noise(position: int) -> np.ndarray:
    raise AssertionError("temperature 0 asks for no noise")


def test_greedy_takes_the_best_legal_token_and_the_lowest_id_of_a_tie() -> None:
    scores = np.array([1.0, 5.0, 5.0], dtype=np.float32)
    assert sample_token(scores, np.array([1, 2, 3]), 0.0, 7, no_noise) == 2


def test_noise_is_a_function_of_seed_attempt_and_position_alone() -> None:
    first = gumbel_noise(SamplingParams(seed=3, attempt=1), 10, 64)
    gumbel_noise(SamplingParams(seed=9), 4, 64)
    assert np.array_equal(first, gumbel_noise(SamplingParams(seed=3, attempt=1), 10, 64))
    for other in (SamplingParams(seed=4, attempt=1), SamplingParams(seed=3, attempt=2)):
        assert not np.array_equal(first, gumbel_noise(other, 10, 64))
    assert not np.array_equal(first, gumbel_noise(SamplingParams(seed=3, attempt=1), 11, 64))
    # A longer draw starts with the shorter one: the noise of a token does not depend on the vocabulary's width.
    assert np.array_equal(first, gumbel_noise(SamplingParams(seed=3, attempt=1), 10, 100)[:64])


def test_the_law_is_the_masked_softmax() -> None:
    scores = np.array([0.0, 1.0, 2.0], dtype=np.float32)
    legal = np.array([0, 1, 3])
    temperature = 0.7
    draws = 20_000
    counts = np.zeros(4)
    noise = GumbelNoise(SamplingParams(temperature=temperature, seed=11), 4)
    for position in range(draws):
        counts[sample_token(scores, legal, temperature, position, noise)] += 1
    weights = np.exp(scores / temperature)
    expected = draws * weights / weights.sum()
    chi_square = float(((counts[legal] - expected) ** 2 / expected).sum())
    assert counts[2] == 0
    assert chi_square < 13.8  # 0.999 quantile at two degrees of freedom


def test_scaling_noise_by_the_temperature_is_dividing_logits_by_it() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(size=500).astype(np.float32)
    legal = np.flatnonzero(rng.random(500) < 0.5)
    params = SamplingParams(temperature=1.3, seed=2)
    noise = gumbel_noise(params, 0, 500)
    expected = int(legal[np.argmax(logits[legal].astype(np.float64) / 1.3 + noise[legal])])
    assert sample_token(logits[legal], legal, 1.3, 0, GumbelNoise(params, 500)) == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_an_error_not_a_token(bad: float) -> None:
    with pytest.raises(NonFiniteLogits):
        sample_token(np.array([0.0, bad], dtype=np.float32), np.array([0, 1]), 0.0, 0, no_noise)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=-0.1),
        SamplingParams(temperature=float("nan")),
        SamplingParams(seed=-1),
        SamplingParams(seed=2**64),
        SamplingParams(attempt=-1),
        SamplingParams(max_tokens=0),
    ],
)
def test_parameters_out_of_range_are_refused(params: SamplingParams) -> None:
    with pytest.raises(RequestInvalid):
        check_sampling(params)
