"""The differentiable decoder against transformers: logits, and gradients of every factor of the adapter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fetchly_llm.backends.torch_reference.weights import load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.training.causal_attention import BLOCK, BlockAttention
from fetchly_llm.training.decoder import TrainingDecoder
from fetchly_llm.training.lora import TrainableAdapter
from tests.support.tiny_model import TINY_FAMILIES, make_tiny_model

CPU = torch.device("cpu")


def random_adapter(folder: Path, rank: int = 3) -> TrainableAdapter:
    adapter = TrainableAdapter(read_model_config(folder), rank, 6.0, 1, CPU)
    generator = torch.Generator().manual_seed(2)
    tensors = adapter.tensors()
    for name, value in tensors.items():
        tensors[name] = 0.2 * torch.randn(value.shape, generator=generator).numpy()
    adapter.load(tensors)
    return adapter


def reference_model(folder: Path, adapter: TrainableAdapter) -> torch.nn.Module:
    """transformers' model of the folder, each linear computing with W + scale * B @ A."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.requires_grad_(False)
    for name, value in adapter.tensors().items():
        linear, factor = name.rsplit(".", 1)
        room = "mlp" if linear.split(".")[-1].split("_")[0] in ("gate", "up", "down") else "self_attn"
        module = model.get_submodule(f"model.{linear.rsplit('.', 1)[0]}.{room}.{linear.rsplit('.', 1)[1]}")
        setattr(module, factor, torch.nn.Parameter(torch.from_numpy(value.copy())))
        if factor == "lora_B":
            module.forward = lambda rows, module=module: F.linear(
                rows, module.weight + adapter.scale * (module.lora_B @ module.lora_A), module.bias
            )
    return model


@pytest.fixture(scope="module", params=TINY_FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    make_tiny_model(path, request.param)
    return path


def test_logits_and_gradients_are_those_of_transformers(folder: Path) -> None:
    config = read_model_config(folder)
    adapter = random_adapter(folder)
    decoder = TrainingDecoder(config, load_weights(folder, config, CPU), torch.float32)
    tokens = torch.randint(3, config.vocab_size, (2, BLOCK + 9), generator=torch.Generator().manual_seed(3))
    targets = tokens.roll(-1, 1)

    ours = decoder.logits(decoder.hidden_states(tokens, adapter).flatten(0, 1))
    F.cross_entropy(ours, targets.flatten()).backward()
    model = reference_model(folder, adapter)
    theirs = model(tokens).logits.flatten(0, 1)
    F.cross_entropy(theirs, targets.flatten()).backward()

    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)
    gradients = TrainableAdapter(config, adapter.rank, adapter.alpha, 0, CPU)
    for mine, parameter in zip(gradients.parameters(), adapter.parameters(), strict=True):
        assert parameter.grad is not None
        mine.data.copy_(parameter.grad)
    expected = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    found = gradients.tensors()
    assert len(expected) == len(found)
    for name, value in expected.items():
        ours_named = name.removeprefix("model.").replace(".self_attn.", ".").replace(".mlp.", ".")
        torch.testing.assert_close(torch.from_numpy(found[ours_named]), value, atol=1e-5, rtol=2e-3)


def test_what_lies_outside_the_blocks_never_gets_a_gradient(folder: Path) -> None:
    config = read_model_config(folder)
    adapter = random_adapter(folder)
    decoder = TrainingDecoder(config, load_weights(folder, config, CPU), torch.float32)
    decoder.hidden_states(torch.arange(3, 13)[None], adapter).sum().backward()  # type: ignore[no-untyped-call]
    up = adapter.layers[0].gate_up.up
    assert up.grad is not None
    inner, rank = config.intermediate_size, adapter.rank
    assert not up.grad[:inner, rank:].any()
    assert not up.grad[inner:, :rank].any()
    assert up.grad[inner:, rank:].any()


def test_padding_behind_a_sequence_changes_nothing(folder: Path) -> None:
    config = read_model_config(folder)
    adapter = random_adapter(folder)
    decoder = TrainingDecoder(config, load_weights(folder, config, CPU), torch.float32)
    sequence = torch.arange(3, 33)[None]
    padded = F.pad(sequence, (0, 20))
    alone = decoder.hidden_states(sequence, adapter)
    torch.testing.assert_close(decoder.hidden_states(padded, adapter)[:, :30], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, 2 * BLOCK + 5])
def test_attention_by_blocks_is_torchs_own(length: int) -> None:
    generator = torch.Generator().manual_seed(length)

    def drawn(heads: int) -> Tensor:
        return torch.randn(2, heads, length, 8, generator=generator, dtype=torch.float64).requires_grad_()

    query, key, value = drawn(6), drawn(2), drawn(2)
    ours = BlockAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
    theirs = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn(ours.shape, generator=generator, dtype=torch.float64)
    mine = torch.autograd.grad(ours, (query, key, value), weight)
    expected = torch.autograd.grad(theirs, (query, key, value), weight)
    for left, right in zip(mine, expected, strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def test_bf16_comes_near_fp32(tmp_path: Path) -> None:
    make_tiny_model(tmp_path)
    config = read_model_config(tmp_path)
    adapter = random_adapter(tmp_path)
    weights = load_weights(tmp_path, config, CPU)
    tokens = torch.arange(3, 103)[None]
    kinds = (torch.float32, torch.bfloat16)
    exact, near = (TrainingDecoder(config, weights, kind).hidden_states(tokens, adapter) for kind in kinds)
    assert F.cosine_similarity(exact, near, dim=-1).min() > 0.995
