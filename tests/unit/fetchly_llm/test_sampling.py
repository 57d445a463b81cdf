import numpy as np
import pytest

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.request import SamplingParams
from fetchly_llm.sampling import GumbelNoise, NonFiniteLogits, check_sampling, gumbel_noise, sample_token


def no_noise(position: int) -> np.ndarray:
    raise AssertionError("temperature 0 asks for no noise")


def test_greedy_takes_the_best_legal_token_and_the_lowest_id_of_a_tie() -> None:
    logits = np.array([9.0, 1.0, 5.0, 5.0], dtype=np.float32)
    legal = np.array([False, True, True, True])
    assert sample_token(logits, legal, 0.0, 7, no_noise) == 2


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
    logits = np.array([0.0, 1.0, 2.0, 50.0], dtype=np.float32)
    legal = np.array([True, True, True, False])
    temperature = 0.7
    draws = 20_000
    counts = np.zeros(4)
    noise = GumbelNoise(SamplingParams(temperature=temperature, seed=11), 4)
    for position in range(draws):
        counts[sample_token(logits, legal, temperature, position, noise)] += 1
    weights = np.where(legal, np.exp(np.minimum(logits, 2.0) / temperature), 0.0)
    expected = draws * weights / weights.sum()
    chi_square = float((((counts - expected) ** 2)[:3] / expected[:3]).sum())
    assert counts[3] == 0
    assert chi_square < 13.8  # 0.999 quantile at two degrees of freedom


def test_scaling_noise_by_the_temperature_is_dividing_logits_by_it() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(size=500).astype(np.float32)
    legal = rng.random(500) < 0.5
    params = SamplingParams(temperature=1.3, seed=2)
    noise = gumbel_noise(params, 0, 500)
    expected = int(np.argmax(np.where(legal, logits.astype(np.float64) / 1.3 + noise, -np.inf)))
    assert sample_token(logits, legal, 1.3, 0, GumbelNoise(params, 500)) == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_an_error_not_a_token(bad: float) -> None:
    logits = np.array([0.0, bad], dtype=np.float32)
    with pytest.raises(NonFiniteLogits):
        sample_token(logits, np.array([True, True]), 0.0, 0, no_noise)
    assert sample_token(logits, np.array([True, False]), 0.0, 0, no_noise) == 0


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
