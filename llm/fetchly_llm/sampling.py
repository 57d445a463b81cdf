"""Logits of the legal tokens in, one token id out: sample-and-match, a function of (seed, attempt, position) alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.request import SamplingParams

_KEY_LIMIT = 2**64
_KEPT_POSITIONS = 32  # of noise: as deep as a tree is


class NonFiniteLogits(EngineError):
    """The model answered NaN or infinity where a legal token's logit must be finite."""

    code = "NON_FINITE_LOGITS"


def check_sampling(params: SamplingParams) -> None:
    """Raise RequestInvalid unless every field of `params` is in range."""
    if not 0.0 <= params.temperature <= 10.0:
        raise RequestInvalid(f"temperature must be in [0, 10], not {params.temperature}")
    if not 0 <= params.seed < _KEY_LIMIT:
        raise RequestInvalid(f"seed must be an integer in [0, 2**64), not {params.seed}")
    if not 0 <= params.attempt < _KEY_LIMIT:
        raise RequestInvalid(f"attempt must be a natural number, not {params.attempt}")
    if params.max_tokens < 1:
        raise RequestInvalid(f"max_tokens must be at least 1, not {params.max_tokens}")


# The second word of the counter: which of the independent streams of noise a draw belongs to.
_GUMBEL, _VERIFY, _DRAFT = 0, 1, 2


def _generator(params: SamplingParams, lane: int, position: int) -> np.random.Generator:
    """Counter-based noise (Philox, Salmon et al. 2011): the key is (seed, attempt), the counter holds lane and
    position, so that it depends on nothing that was drawn before."""
    bits = np.random.Philox(
        key=np.array([params.seed, params.attempt], dtype=np.uint64),
        counter=np.array([0, lane, position, 0], dtype=np.uint64),
    )
    return np.random.Generator(bits)


def gumbel_noise(params: SamplingParams, position: int, size: int) -> NDArray[np.float64]:
    """Standard Gumbel noise of shape (size,) for the token at absolute `position`."""
    uniform = _generator(params, _GUMBEL, position).random(size)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(-np.log(uniform)))


class GumbelNoise:
    """Gumbel noise by position, for a vocabulary of `size`; the last few positions are kept."""

    def __init__(self, params: SamplingParams, size: int) -> None:
        self._params = params
        self._size = size
        self._kept: OrderedDict[int, NDArray[np.float64]] = OrderedDict()

    def __call__(self, position: int) -> NDArray[np.float64]:
        """Shape (size,)."""
        noise = self._kept.get(position)
        if noise is None:
            noise = self._kept[position] = gumbel_noise(self._params, position, self._size)
            if len(self._kept) > _KEPT_POSITIONS:
                self._kept.popitem(last=False)
        return noise


def verification_noise(params: SamplingParams, position: int) -> np.random.Generator:
    """Fresh noise for rejection sampling in the step whose first new token is at `position`."""
    return _generator(params, _VERIFY, position)


def draft_noise(params: SamplingParams, position: int) -> np.random.Generator:
    """Noise for drawing a draft, independent of every other, in the step whose first new token is at `position`."""
    return _generator(params, _DRAFT, position)


def check_finite(scores: NDArray[np.float32], position: int) -> None:
    """Raises NonFiniteLogits if the logit of a legal token is not finite."""
    assert scores.size, "a matcher that is not terminated allows at least one token"
    if not np.isfinite(scores).all():
        raise NonFiniteLogits(f"logits at position {position} are not finite", hint="check the model's weights")


def sample_token(
    scores: NDArray[np.float32],
    legal: NDArray[np.int64],
    temperature: float,
    position: int,
    noise: Callable[[int], NDArray[np.float64]],
) -> int:
    """The argmax over legal v of logit(v) + T * g(v), ties to the lowest id; g is `noise(position)`, asked if T > 0.

    `legal` are the legal ids, ascending, `scores` their logits: both of shape (legal,). By the Gumbel-max identity this
    draws from the softmax at temperature T restricted to them. Raises NonFiniteLogits if a logit is not finite.
    """
    check_finite(scores, position)
    exact = scores.astype(np.float64)
    if temperature > 0.0:
        exact = exact + temperature * noise(position)[legal]
    return int(legal[int(np.argmax(exact))])


def target_distribution(scores: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    """The softmax at temperature T > 0 of the logits of the legal tokens; shape (legal,)."""
    exact = scores.astype(np.float64) / temperature
    weights = np.exp(exact - exact.max())
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares
