"""States of many answers in; where streams best start from before anything is learnt, by least squares, out.

The first stream of an anchor stands where the main stream will stand one position later, and would say the same from
the same state. That state is not known, but most of it follows linearly from the anchor's own states and from the token
after it. Later streams begin at the mean of theirs. Training goes on from there instead of from what the main stream
has said already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.stream_config import StreamConfig
from fetchly_llm.training.stream_states import StreamStates

_RIDGE = 3e-3  # of a feature's variance


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Parts of a streams file by name, and the share of the variance of the next position's state that they explain."""

    tensors: dict[str, Tensor]
    explained: float


def fit_start(
    states: Iterable[StreamStates],
    streams: StreamConfig,
    places: Sequence[int],
    embedded: Callable[[Tensor], Tensor],
    epsilon: float,
) -> StreamStart:
    """Fit embedding, insertion layer and anchor layer, as far as the streams have them.

    `places` are those of the first layer's and then the taps' hidden states in the states' `taps`; `embedded` gives
    tokens' input embeddings; `epsilon` is the norm's.
    """
    total: _Sums | None = None
    for one in states:
        answer = torch.from_numpy(one.tokens[one.prompt :].astype("int64"))
        taps = torch.from_numpy(one.taps)
        first = taps[places[0]].double()
        last = len(answer) - streams.gamma
        if last < 1:
            continue
        parts = [F.rms_norm(taps[place], taps.shape[-1:], None, epsilon) for place in places[1:]]
        if streams.anchor_rank:
            parts.append(embedded(answer))
        features = torch.cat([*parts, torch.ones(len(answer), 1)], dim=-1)[:last].double()
        ahead = torch.stack([first[j : j + last] for j in range(1, streams.gamma + 1)])  # (gamma, last, hidden)
        sums = _Sums.of(features, ahead[0] - first[:last], (ahead - ahead[0]).sum(1))
        total = sums if total is None else total.plus(sums)
    assert total is not None, "an answer is longer than its streams"
    return _solved(total, streams)


@dataclass(slots=True)
class _Sums:
    """Second moments of features and of steps to the next state, and sums of later states' distances from it."""

    count: int
    features: Tensor
    mixed: Tensor
    squares: Tensor
    means: Tensor
    later: Tensor

    @classmethod
    def of(cls, features: Tensor, steps: Tensor, later: Tensor) -> _Sums:
        return cls(len(steps), features.t() @ features, features.t() @ steps, steps.square().sum(), steps.sum(0), later)

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(
            self.count + other.count,
            self.features + other.features,
            self.mixed + other.mixed,
            self.squares + other.squares,
            self.means + other.means,
            self.later + other.later,
        )


def _solved(sums: _Sums, streams: StreamConfig) -> StreamStart:
    ridge = torch.diag(sums.features.diagonal() * _RIDGE + 1e-9)
    weights = torch.linalg.solve(sums.features + ridge, sums.mixed)  # (features, hidden)
    linear, constant = weights[:-1], weights[-1]
    spread = linear.t() @ sums.features[:-1, :-1] @ linear
    directions = torch.linalg.eigh(spread).eigenvectors.flip(1)  # (hidden, hidden), most variance first
    tensors: dict[str, Tensor] = {}
    width = len(streams.taps) * len(directions)
    for name, rank, rows in (
        ("insertion", streams.insertion_rank, linear[:width]),
        ("anchor", streams.anchor_rank, linear[width:]),
    ):
        if rank:
            kept = directions[:, :rank]
            tensors[f"{name}.down.weight"] = (rows @ kept).t().float().contiguous()
            tensors[f"{name}.up.weight"] = kept.float().contiguous()
    tensors["embedding"] = (constant + sums.later / sums.count).float().contiguous()
    explained = 2 * (weights * sums.mixed).sum() - ((sums.features @ weights) * weights).sum()
    around = sums.squares - sums.means.square().sum() / sums.count
    unexplained = (sums.squares - explained) / around
    return StreamStart(tensors, 1.0 - float(unexplained))
