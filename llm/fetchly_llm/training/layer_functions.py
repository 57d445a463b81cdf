"""The differentiable pieces of a decoder layer whose weights are frozen: each keeps for the way back what it must.

Products are in the type of the matrices; residual streams and the adapters' gradients are fp32.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.backends.torch_reference.weights import LayerWeights
from fetchly_llm.training.lora import LowRankParameters


def converted(layer: LayerWeights, kind: torch.dtype) -> LayerWeights:
    """The layer with its matrices in the type of the products; norms and biases stay fp32."""
    return replace(
        layer,
        qkv=layer.qkv.to(kind),
        output=layer.output.to(kind),
        gate_up=layer.gate_up.to(kind),
        down=layer.down.to(kind),
    )


def linear(
    rows: Tensor, matrix: Tensor, low_rank: LowRankParameters, scale: float, bias: Tensor | None = None
) -> Tensor:
    """A frozen linear layer and its adapter: (rows, inputs) -> (rows, outputs)."""
    factors = (low_rank.down, low_rank.up)
    product: Tensor = _AdaptedLinear.apply(rows, matrix, *factors, low_rank, scale)  # type: ignore[no-untyped-call]
    return product if bias is None else product + bias.to(product.dtype)


def normed(rows: Tensor, weight: Tensor, epsilon: float, kind: torch.dtype) -> Tensor:
    """RMSNorm (arXiv 1910.07467) over the last dimension: fp32 in, `kind` out."""
    found: Tensor = _Normed.apply(rows, weight, epsilon, kind)  # type: ignore[no-untyped-call]
    return found


def rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions in the half-split layout; `sine`'s first half is negated (`RotaryTable`)."""
    turned: Tensor = _Rotated.apply(heads, cosine, sine)  # type: ignore[no-untyped-call]
    return turned


def gated(stacked: Tensor) -> Tensor:
    """SwiGLU (arXiv 2002.05202) of stacked gate and up, computed again on the way back instead of kept."""
    found: Tensor = _Gated.apply(stacked)  # type: ignore[no-untyped-call]
    return found


class _AdaptedLinear(torch.autograd.Function):
    """y = x W^T + scale (x A^T) B^T with W frozen. Gradients of A and B are summed in fp32 by autograd."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, matrix: Tensor, down: Tensor, up: Tensor, parts: LowRankParameters, scale: float
    ) -> Tensor:
        down, up = down.to(matrix.dtype), (up * scale).to(matrix.dtype)
        narrow = rows @ down.t()
        ctx.save_for_backward(rows, matrix, down, up, narrow)
        ctx.parts, ctx.scale = parts, scale
        return F.linear(rows, matrix).addmm_(narrow, up.t())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrix, down, up, narrow = ctx.saved_tensors
        gradient = gradient.to(matrix.dtype)
        to_narrow = gradient @ up
        to_rows = (gradient @ matrix).addmm_(to_narrow, down)
        to_down = (to_narrow.t() @ rows).float()
        to_up = ctx.parts.keep_blocks((gradient.t() @ narrow).float().mul_(ctx.scale))
        return to_rows, None, to_down, to_up, None, None


class _Normed(torch.autograd.Function):
    """RMSNorm (arXiv 1910.07467) over the last dimension: fp32 in, the type of the products out."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, epsilon: float, kind: torch.dtype) -> Tensor:
        inverse = torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(rows, inverse, weight)
        return (rows * inverse).mul_(weight).to(kind)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, inverse, weight = ctx.saved_tensors
        weighted = gradient.float() * weight
        unit = rows * inverse
        along = (weighted * unit).mean(-1, keepdim=True)
        return weighted.sub_(unit.mul_(along)).mul_(inverse), None, None, None


class _Rotated(torch.autograd.Function):
    """Rotary positions in the half-split layout; `sine`'s first half is negated (`RotaryTable`)."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return torch.addcmul(heads * cosine, _swapped(heads), sine)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return torch.addcmul(gradient * cosine, _swapped(gradient), _swapped(sine)), None, None


class _Gated(torch.autograd.Function):
    """SwiGLU (arXiv 2002.05202) of stacked gate and up, computed again on the way back instead of kept."""

    @staticmethod
    def forward(ctx: Any, stacked: Tensor) -> Tensor:
        ctx.save_for_backward(stacked)
        gate, up = stacked.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (stacked,) = ctx.saved_tensors
        gate, up = stacked.chunk(2, dim=-1)
        out = torch.empty_like(stacked)
        to_gate, to_up = out.chunk(2, dim=-1)
        torch.mul(gradient, F.silu(gate), out=to_up)
        to_gate.copy_(torch.ops.aten.silu_backward(gradient * up, gate))
        return out


def _swapped(heads: Tensor) -> Tensor:
    """The two halves of the last dimension in each other's place."""
    half = heads.shape[-1] // 2
    return torch.cat((heads[..., half:], heads[..., :half]), dim=-1)
