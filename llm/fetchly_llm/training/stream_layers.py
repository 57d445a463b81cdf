"""States of a sequence and the streams' parameters in; what the streams say there, differentiable, out.

The pass of `backends/torch_reference/stream_decoder.py`, from many anchors of one sequence at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.backends.torch_reference.rotary import RotaryTable
from fetchly_llm.backends.torch_reference.weights import LayerWeights, ModelWeights
from fetchly_llm.config import ModelConfig
from fetchly_llm.stream_config import StreamConfig
from fetchly_llm.training.layer_functions import converted, gated, linear, normed, rotated
from fetchly_llm.training.lora import LayerParameters, TrainableAdapter
from fetchly_llm.training.stream_parameters import StreamParameters


@dataclass(frozen=True, slots=True)
class Anchors:
    """Where A streams start in a sequence, on the device.

    `positions` (A,) int64; `following` (A,) int64 are the tokens after them, -1 where streams are not told. `first`
    (A, hidden_size) is the residual stream after `first_layer` layers, `taps` (taps, A, hidden_size) after those that
    the streams' own `taps` name. `keys` and `values` (layers, kv_heads, T, head_dim) are the main stream's from
    `first_layer` on.
    """

    positions: Tensor
    following: Tensor
    first: Tensor
    taps: Tensor
    keys: Tensor
    values: Tensor


class StreamLayers:
    """The upper layers of a frozen model, run over streams alone."""

    def __init__(self, model: ModelConfig, weights: ModelWeights, streams: StreamConfig, kind: torch.dtype) -> None:
        self._model = model
        self._streams = streams
        self._kind = kind
        self._embedding = weights.embedding
        self._head = weights.head
        self._final_norm = weights.final_norm
        self._layers = tuple(converted(layer, kind) for layer in weights.layers[streams.first_layer :])
        self._rotary = RotaryTable(model, model.max_position + streams.gamma, weights.embedding.device)
        # An adapter that is nothing, where the streams have none.
        self._none = TrainableAdapter(model, 1, 1.0, 0, weights.embedding.device, streams.first_layer)
        for tensor in self._none.parameters():
            tensor.requires_grad_(False)

    def embedded(self, tokens: Tensor) -> Tensor:
        """Input embeddings, fp32: (..., hidden_size)."""
        return F.embedding(tokens, self._embedding)

    def head(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Logits of some tokens: (rows, hidden_size) -> (rows, tokens), fp32."""
        return (rows.to(self._kind) @ self._head[tokens].to(self._kind).t()).float()

    def __call__(self, anchors: Anchors, parameters: StreamParameters) -> Tensor:
        """What the LM head and the other heads read: (A * gamma, hidden_size) fp32, grouped by anchor."""
        gamma = self._streams.gamma
        hidden = self._start(anchors, parameters)
        ahead = torch.arange(1, gamma + 1, device=hidden.device)
        places = (anchors.positions[:, None] + ahead).flatten()
        cosine, sine = (table[places].to(self._kind) for table in (self._rotary.cosine, self._rotary.sine))
        hides = self._hidden(anchors)
        adapter = parameters.adapter or self._none
        for number, layer in enumerate(self._layers):
            own = adapter.layers[number]
            stacked = linear(
                self._norm(hidden, layer.attention_norm), layer.qkv, own.qkv, adapter.scale, layer.qkv_bias
            )
            mixed = self._attention(stacked, layer, cosine, sine, anchors, number, hides)
            hidden = hidden + linear(mixed, layer.output, own.output, adapter.scale, layer.output_bias)
            hidden = hidden + self._mlp(hidden, layer, own, adapter.scale)
        return normed(hidden, self._final_norm, self._model.rms_norm_eps, torch.float32)

    def _mlp(self, hidden: Tensor, layer: LayerWeights, own: LayerParameters, scale: float) -> Tensor:
        stacked = linear(self._norm(hidden, layer.mlp_norm), layer.gate_up, own.gate_up, scale)
        return linear(gated(stacked), layer.down, own.down, scale)

    def _start(self, anchors: Anchors, parameters: StreamParameters) -> Tensor:
        """S_j = h + insertion(taps) + anchor(following) + P_j: (A * gamma, hidden_size)."""
        start = anchors.first
        if "insertion.down.weight" in parameters:
            tapped = F.rms_norm(anchors.taps, anchors.taps.shape[-1:], None, self._model.rms_norm_eps)
            flat = tapped.transpose(0, 1).flatten(1)
            start = start + flat @ parameters["insertion.down.weight"].t() @ parameters["insertion.up.weight"].t()
        if "anchor.down.weight" in parameters:
            known = self.embedded(anchors.following.clamp_min(0)) * (anchors.following >= 0)[:, None]
            start = start + known @ parameters["anchor.down.weight"].t() @ parameters["anchor.up.weight"].t()
        return (start[:, None, :] + parameters["embedding"]).flatten(0, 1)

    def _hidden(self, anchors: Anchors) -> Tensor:
        """What a row does not see, as a bias (rows, T + rows): later positions, later streams, other anchors'."""
        gamma, count, length = self._streams.gamma, len(anchors.positions), anchors.keys.shape[2]
        device = anchors.positions.device
        later = torch.arange(length, device=device) > anchors.positions[:, None]  # (A, T)
        earlier = torch.ones(gamma, gamma, dtype=torch.bool, device=device).tril()
        own = torch.block_diag(*([earlier] * count))  # type: ignore[no-untyped-call]
        seen = torch.cat((~later.repeat_interleave(gamma, 0), own), dim=1)
        return torch.zeros(seen.shape, dtype=self._kind, device=device).masked_fill_(~seen, -torch.inf)

    def _attention(
        self,
        stacked: Tensor,
        layer: LayerWeights,
        cosine: Tensor,
        sine: Tensor,
        anchors: Anchors,
        number: int,
        hides: Tensor,
    ) -> Tensor:
        """Stacked queries, keys and values (rows, ...) -> (rows, heads * head_dim)."""
        rows, dim = len(stacked), self._model.head_dim
        queries, keys = self._model.num_heads, self._model.num_kv_heads
        by_head = stacked.view(rows, -1, dim).transpose(0, 1)  # (heads, rows, head_dim)
        turned = by_head[: queries + keys]
        if layer.query_norm is not None and layer.key_norm is not None:
            query = self._norm(by_head[:queries].float(), layer.query_norm)
            key = self._norm(by_head[queries : queries + keys].float(), layer.key_norm)
            turned = torch.cat((query, key), dim=0)
        turned = rotated(turned, cosine, sine)
        key = torch.cat((anchors.keys[number].to(self._kind), turned[queries:]), dim=1)
        value = torch.cat((anchors.values[number].to(self._kind), by_head[queries + keys :]), dim=1)
        group = queries // keys
        grouped = turned[:queries].reshape(keys, group * rows, dim)
        mixed = F.scaled_dot_product_attention(grouped[None], key[None], value[None], hides.repeat(group, 1))
        return mixed.view(queries, rows, dim).transpose(0, 1).reshape(rows, -1)

    def _norm(self, rows: Tensor, weight: Tensor) -> Tensor:
        return normed(rows, weight, self._model.rms_norm_eps, self._kind)
