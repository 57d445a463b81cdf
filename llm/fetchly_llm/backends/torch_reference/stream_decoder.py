"""The last step's hidden states at some nodes in; what the speculative streams from those nodes propose out.

Speculative Streaming (Bhendawade et al. 2024, arXiv 2402.11131), as a pass of its own after the main one: the streams'
rows run through the model's upper layers, read what the main stream left in the cache, and write nothing there. So
the main stream's passes have the same shapes, and the same bits, with streams and without.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fetchly_llm.backends.torch_reference.stream_attention import StreamAttention
from fetchly_llm.backends.torch_reference.stream_weights import LowRank, MarkovWeights, StreamWeights
from fetchly_llm.backends.torch_reference.transformer import RotaryRows, Transformer
from fetchly_llm.config import ModelConfig
from fetchly_llm.errors import RequestInvalid
from fetchly_llm.streams import StreamDraft


class StreamDecoder:
    """Runs the streams of a model.

    Beside the paper's stream embeddings there are, each optional: an insertion layer over hidden states of several
    layers (their fusion: EAGLE-3, arXiv 2503.01840), the anchor's following token, adapters on the streams' rows alone
    (arXiv 2507.11851), a low-rank Markov head and a confidence head (DSpark, arXiv 2607.05147). Final norm and LM head
    are the model's own; both heads read what the LM head reads, the hidden state after the final norm.
    """

    def __init__(self, model: Transformer, config: ModelConfig, weights: StreamWeights) -> None:
        self._model = model
        self._weights = weights
        self._epsilon = config.rms_norm_eps
        self.taps = tuple(sorted({weights.config.first_layer, *weights.config.taps}))
        """Layers whose hidden states `drafts` needs."""
        self.top = weights.config.top
        """Tokens that a stream proposes."""

    def drafts(
        self,
        states: dict[int, Tensor],
        following: Sequence[int | None],
        rotary: RotaryRows,
        attention: StreamAttention,
        choices: NDArray[np.int64] | None,
    ) -> tuple[StreamDraft, ...]:
        """One draft for each of A anchors.

        `states` maps the layers `taps` to the anchors' hidden states, (A, hidden_size); `following` are the tokens
        drawn to follow them, `rotary` and `attention` those of the A * gamma streams, grouped by anchor; `choices`
        are the tokens that they may propose, None for all.
        """
        config = self._weights.config
        count = len(following)
        start = self._start(states, following)  # (A * gamma, hidden_size)
        hidden = self._model.stream_states(start, rotary, attention, config.first_layer, self._weights.adapters)
        normed = self._model.normed(hidden)
        # Anchor by anchor: MKL takes 47 ms for 12 columns of the embedded model's head, and 6 for 4 of them (AVX2).
        logits = torch.cat(
            [self._model.head(rows) for rows in torch.split(normed, config.gamma)]
        )  # (A * gamma, vocab_size)
        if choices is not None:
            among = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
            among[torch.from_numpy(choices).to(logits.device)] = True
            logits = logits.masked_fill(~among, -torch.inf)
        tokens = _best(logits, config.top)
        shape = (count, config.gamma)
        scores = logits.gather(1, tokens).view(*shape, -1).cpu().numpy()
        confidence = self._confidence(normed, logits, tokens).view(shape).cpu().numpy()
        ids = tokens.view(*shape, -1).cpu().numpy()
        markov = self._weights.markov
        heads = _MarkovTables(markov, self._model, normed, tokens, shape).per_anchor() if markov else [None] * count
        return tuple(StreamDraft(*parts) for parts in zip(ids, scores, confidence, heads, strict=True))

    def _start(self, states: dict[int, Tensor], following: Sequence[int | None]) -> Tensor:
        """S_j = h + insertion(taps) + anchor(following) + P_j."""
        weights = self._weights
        start = states[weights.config.first_layer]
        if weights.insertion is not None:
            tapped = [states[tap] for tap in weights.config.taps]
            normed = [F.rms_norm(state, state.shape[-1:], None, self._epsilon) for state in tapped]
            start = start + _apply(weights.insertion, torch.cat(normed, dim=-1))
        if weights.anchor is not None and any(token is not None for token in following):
            known = torch.tensor([token is not None for token in following], device=start.device)
            tokens = torch.tensor([token or 0 for token in following], device=start.device)
            start = start + _apply(weights.anchor, self._model.embedded(tokens)) * known[:, None]
        return (start[:, None, :] + weights.embedding[None]).flatten(0, 1)

    def _confidence(self, normed: Tensor, logits: Tensor, tokens: Tensor) -> Tensor:
        """Within (0, 1]: the confidence head's, or the probability of the best token where there is none."""
        head = self._weights.confidence
        if head is None:
            best = logits.gather(1, tokens[:, :1]).squeeze(1)
            found = torch.exp(best - logits.logsumexp(-1)).clamp_max(1.0)  # rounding can leave 1 + 1e-7
        else:
            found = torch.sigmoid(torch.mv(normed, head.weight[0]) + head.bias)
        return found.clamp_min(torch.finfo(torch.float32).tiny)  # a sigmoid runs out of numbers at -104


class _MarkovTables:
    """B_j(a, v) = (P1 E[a] * sigmoid(G h_j)) . (P2 E[v]) for the best tokens v of every stream, E the embedding."""

    def __init__(
        self, markov: MarkovWeights, model: Transformer, normed: Tensor, tokens: Tensor, shape: tuple[int, int]
    ) -> None:
        gates = torch.sigmoid(F.linear(normed, markov.gate))
        factors = F.linear(model.embedded(tokens.flatten()), markov.next)  # (A * gamma * top, rank)
        weighted = factors.view(*tokens.shape, -1) * gates[:, None, :]
        self._factors = weighted.view(*shape, *weighted.shape[1:]).cpu().numpy()  # (A, gamma, top, rank)
        self._markov = markov
        self._model = model

    def per_anchor(self) -> list[_MarkovSuccessors]:
        return [_MarkovSuccessors(self._model, self._markov, factors) for factors in self._factors]


class _MarkovSuccessors:
    """The Markov head of one anchor's streams. See `fetchly_llm.streams.Successors`."""

    def __init__(self, model: Transformer, markov: MarkovWeights, factors: NDArray[np.float32]) -> None:
        self._model = model
        self._markov = markov
        self._factors = factors  # (gamma, top, rank): gate and next token together

    @torch.inference_mode()
    def bias(self, stream: int, previous: int) -> NDArray[np.float32]:
        """What `previous` adds to the logits of row `stream`; shape (top,). Raises RequestInvalid for no token."""
        if not 0 <= previous < self._model.vocab_size:
            raise RequestInvalid(f"token {previous} is outside the model's vocabulary of {self._model.vocab_size}")
        row = self._model.embedded(torch.tensor([previous], device=self._markov.previous.device))
        factor = torch.mv(self._markov.previous, row[0]).cpu().numpy()
        bias: NDArray[np.float32] = self._factors[stream] @ factor
        return bias


def _apply(matrix: LowRank, rows: Tensor) -> Tensor:
    return F.linear(F.linear(rows, matrix.down), matrix.up)


def _best(logits: Tensor, top: int) -> Tensor:
    """Ids (rows, top) of the highest logits, best first, ties to the lowest id, which torch.topk does not promise."""
    least = torch.topk(logits, top, dim=-1).values[:, -1:]
    rows, ids = torch.nonzero(logits >= least, as_tuple=True)  # ids rise within a row; more than `top` where they tie
    chosen = []
    for row, found in enumerate(torch.split(ids, torch.bincount(rows, minlength=len(logits)).tolist())):
        order = torch.sort(logits[row, found], descending=True, stable=True).indices
        chosen.append(found[order[:top]])
    return torch.stack(chosen)
