"""A back-end by its name and a model's shape in; it, beside a cache that holds a prompt, and its bits out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fetchly_llm.backends.native.backend import MOST_NODES, NativeBackend, Precision
from fetchly_llm.backends.torch_reference.backend import TorchReferenceBackend
from fetchly_llm.backends.torch_reference.weights import LayerWeights, ModelWeights
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.tree import DraftTree
from tests.support.cache_bits import AnyCache
from tests.support.embedded_shape import WIDE
from tests.support.native_model import random_tensors
from tests.support.tiny_model import make_tiny_model

CHUNK, VOCABULARY = 32, 320
PROMPT = tuple(np.random.default_rng(7).integers(0, VOCABULARY, 500).tolist())


@dataclass(frozen=True, slots=True)
class Setting:
    """A back-end, and a cache that holds all of PROMPT."""

    backend: TorchReferenceBackend | NativeBackend
    prompt: AnyCache

    @classmethod
    def of(cls, backend: TorchReferenceBackend | NativeBackend) -> Setting:
        prompt = backend.new_cache(len(PROMPT) + 64)
        backend.prefill(prompt, PROMPT)
        return cls(backend, prompt)

    def committed(self, length: int) -> AnyCache:
        cache = self.backend.fork(self.prompt)
        self.backend.truncate(cache, length)
        return cache

    def within(self, tree: DraftTree) -> DraftTree:
        """The first nodes of a tree, as many as a step may have."""
        most = self.backend.width or MOST_NODES
        return DraftTree(tree.tokens[:most], tree.parents[:most], tree.sources[:most])

    def tree_bits(self, cache: AnyCache, tree: DraftTree) -> list[bytes]:
        """One entry per node."""
        logits = self.backend.step(cache, tree, range(len(tree))).logits
        assert np.isfinite(logits).all()
        return [row.tobytes() for row in logits]

    def plain_bits(self, cache: AnyCache, tree: DraftTree) -> list[bytes]:
        """The same, each node reached by one-node steps along its own path."""
        reached: list[AnyCache] = []
        found = []
        for node, parent in enumerate(tree.parents):
            own = self.backend.fork(cache if parent < 0 else reached[parent])
            found.append(self.backend.step(own, DraftTree.root(tree.tokens[node]), [0]).logits[0].tobytes())
            self.backend.commit(own, [0])
            reached.append(own)
        return found


def torch_setting(shape: str, threads: int, folder: Path) -> Setting:
    """`shape` is a tiny model's family, made in `folder`, or "wide" for WIDE."""
    engine = EngineConfig(device="cpu", threads=threads, width=8, prefill_chunk=CHUNK)
    if shape == "wide":
        with torch.inference_mode():
            return Setting.of(TorchReferenceBackend(WIDE, _random_weights(WIDE), engine))
    return Setting.of(TorchReferenceBackend.load(make_tiny_model(folder, shape, vocab_size=VOCABULARY), engine))


def native_setting(shape: str, precision: Precision, threads: int, folder: Path, kernels: str | None = None) -> Setting:
    """The same of the native back-end."""
    engine = EngineConfig(threads=threads, prefill_chunk=CHUNK)
    if shape == "wide":
        return Setting.of(NativeBackend(WIDE, random_tensors(WIDE), engine, precision=precision, kernels=kernels))
    make_tiny_model(folder, shape, vocab_size=VOCABULARY)
    return Setting.of(NativeBackend.load(folder, engine, precision=precision, kernels=kernels))


def _random_weights(config: ModelConfig) -> ModelWeights:
    generator = torch.Generator().manual_seed(3)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn((rows, columns), generator=generator) * columns**-0.5

    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    layers = tuple(
        LayerWeights(
            attention_norm=torch.ones(hidden),
            qkv=matrix((config.num_heads + 2 * config.num_kv_heads) * dim, hidden),
            qkv_bias=None,
            query_norm=None,
            key_norm=None,
            output=matrix(hidden, config.num_heads * dim),
            output_bias=None,
            mlp_norm=torch.ones(hidden),
            gate_up=matrix(2 * inner, hidden),
            down=matrix(hidden, inner),
        )
        for _ in range(config.num_layers)
    )
    embedding = matrix(config.vocab_size, hidden) * 20
    return ModelWeights(embedding, layers, torch.ones(hidden), embedding)
