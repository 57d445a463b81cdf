"""What streams say and what the target wrote and thought in; the loss, and how often the streams were right, out.

L = ce * CE(written) + tv * TV(target, stream) + BCE(confidence), each position ahead weighted by exp(-(j - 1) / gamma)
(as DSpark, arXiv 2607.05147). Only tokens that the grammar left open count: the others are known without streams.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.training.stream_layers import StreamLayers
from fetchly_llm.training.stream_parameters import StreamParameters


@dataclass(frozen=True, slots=True)
class LossWeights:
    """Shares of the loss; `base` is the share of the cross-entropy that is taken before the Markov head corrects."""

    ce: float = 0.5
    tv: float = 0.5
    base: float = 0.3
    confidence: float = 0.2


@dataclass(frozen=True, slots=True)
class StreamTargets:
    """What rows (A * gamma, grouped by anchor) are about, on the device.

    `tokens` are the right ones, `previous` those before them, `counts` (bool) whether a row is to be learnt. `likely`
    (rows, K) and `chances` are the target's own distribution there. `shortlist` (S,) are the sorted tokens that logits
    are computed of; all the others here are among them.
    """

    tokens: Tensor
    previous: Tensor
    counts: Tensor
    likely: Tensor
    chances: Tensor
    shortlist: Tensor


@dataclass(slots=True)
class StreamScore:
    """Sums over rows that count: of the loss, of right best tokens by stream, without and with the Markov head."""

    loss: float
    rows: Tensor  # (gamma,)
    right_alone: Tensor
    right: Tensor


def stream_loss(
    normed: Tensor, targets: StreamTargets, layers: StreamLayers, parameters: StreamParameters, weights: LossWeights
) -> tuple[Tensor, StreamScore]:
    """The sum over rows, differentiable, and its figures. `normed` is (rows, hidden_size), of `StreamLayers`."""
    gamma = parameters.config.gamma
    stream = torch.arange(len(normed), device=normed.device) % gamma
    share = torch.exp(-stream / gamma)[targets.counts]
    rows = normed[targets.counts]
    place = torch.searchsorted(targets.shortlist, targets.tokens[targets.counts])
    alone = layers.head(rows, targets.shortlist)  # (rows, S)
    scores = alone
    if "markov.next.weight" in parameters:
        scores = alone + _markov(rows, targets.previous[targets.counts], targets.shortlist, layers, parameters)
    logs = scores.log_softmax(-1)
    entropy = -logs.gather(1, place[:, None]).squeeze(1)
    if scores is not alone and weights.base:
        entropy = (1 - weights.base) * entropy + weights.base * F.cross_entropy(alone, place, reduction="none")
    likely = torch.searchsorted(targets.shortlist, targets.likely[targets.counts])
    shared = torch.minimum(logs.gather(1, likely).exp(), targets.chances[targets.counts]).sum(-1)
    loss = weights.ce * entropy + weights.tv * (1.0 - shared)
    best = scores.detach().argmax(-1)
    if "confidence.weight" in parameters:
        said = rows.detach() @ parameters["confidence.weight"][0] + parameters["confidence.bias"]
        unsure = F.binary_cross_entropy_with_logits(said, (best == place).float(), reduction="none")
        loss = loss + weights.confidence * unsure
    total = (loss * share).sum()
    kept = stream[targets.counts]
    score = StreamScore(
        float(total.detach()),
        torch.bincount(kept, minlength=gamma),
        torch.bincount(kept[alone.detach().argmax(-1) == place], minlength=gamma),
        torch.bincount(kept[best == place], minlength=gamma),
    )
    return total, score


def weight_of(counts: Tensor, gamma: int) -> float:
    """What the loss of rows is divided by: the sum of the weights of those that count."""
    stream = torch.arange(len(counts)) % gamma
    return float(torch.exp(-stream / gamma)[counts.cpu()].sum())


def _markov(
    rows: Tensor, previous: Tensor, shortlist: Tensor, layers: StreamLayers, parameters: StreamParameters
) -> Tensor:
    """B_j(a, v) = (P1 E[a] * sigmoid(G h_j)) . (P2 E[v]): (rows, S)."""
    factor = layers.embedded(previous) @ parameters["markov.previous.weight"].t()
    gate = torch.sigmoid(rows @ parameters["markov.gate.weight"].t())
    following = layers.embedded(shortlist) @ parameters["markov.next.weight"].t()
    return (factor * gate) @ following.t()


def expected_accepted(shares: list[float]) -> float:
    """Tokens that streams with these shares of right tokens add to a step on average, in a chain."""
    return sum(math.prod(shares[: depth + 1]) for depth in range(len(shares)))
