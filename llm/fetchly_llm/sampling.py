"""Logits and a token bitmask in, one token id out: sample-and-match, a function of (seed, attempt, position) alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.errors import EngineError, RequestInvalid
from fetchly_llm.request import SamplingParams

_KEY_LIMIT = 2**64


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


def gumbel_noise(params: SamplingParams, position: int, size: int) -> NDArray[np.float64]:
    """Standard Gumbel noise of shape (size,) for the token at absolute `position`.

    Counter-based (Philox, Salmon et al. 2011): the key is (seed, attempt), the counter holds the position, so that
    noise depends on nothing that was drawn before.
    """
    bits = np.random.Philox(
        key=np.array([params.seed, params.attempt], dtype=np.uint64),
        counter=np.array([0, 0, position, 0], dtype=np.uint64),
    )
    uniform = np.random.Generator(bits).random(size)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(-np.log(uniform)))


def sample_token(logits: NDArray[np.float32], legal: NDArray[np.bool_], params: SamplingParams, position: int) -> int:
    """The argmax over legal v of logit(v) + T * g(seed, attempt, position, v), ties to the lowest id.

    `logits` and `legal` have shape (vocab,). By the Gumbel-max identity this draws from the softmax at temperature T
    restricted to the legal tokens. Raises NonFiniteLogits if a legal token's logit is not finite.
    """
    candidates = np.flatnonzero(legal)
    assert candidates.size, "a matcher that is not terminated allows at least one token"
    scores = logits[candidates].astype(np.float64)
    if not np.isfinite(scores).all():
        raise NonFiniteLogits(f"logits at position {position} are not finite", hint="check the model's weights")
    if params.temperature > 0.0:
        scores = scores + params.temperature * gumbel_noise(params, position, legal.size)[candidates]
    return int(candidates[int(np.argmax(scores))])
