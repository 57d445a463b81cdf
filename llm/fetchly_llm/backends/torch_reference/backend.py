"""A model folder in; the reference implementation of the step interface (torch, fp32, CPU or CUDA) out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fetchly_llm.backend import Cache, StepOutput, WholeOutput
from fetchly_llm.backends.processors import within_quota
from fetchly_llm.backends.torch_reference.attention import ChunkAttention, TreeAttention
from fetchly_llm.backends.torch_reference.kv_cache import KeyValueCache, StreamStart
from fetchly_llm.backends.torch_reference.rotary import RotaryTable
from fetchly_llm.backends.torch_reference.stream_attention import StreamAttention
from fetchly_llm.backends.torch_reference.stream_decoder import StreamDecoder
from fetchly_llm.backends.torch_reference.stream_plan import plan_streams
from fetchly_llm.backends.torch_reference.stream_weights import StreamWeights, load_streams
from fetchly_llm.backends.torch_reference.transformer import RotaryRows, Transformer
from fetchly_llm.backends.torch_reference.tree_plan import BLOCK, plan_tree
from fetchly_llm.backends.torch_reference.weights import ModelWeights, load_weights
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.checkpoint_shapes import checkpoint_shapes
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid
from fetchly_llm.stream_config import STREAMS_FILE, stream_parameters
from fetchly_llm.streams import StreamAnchor, StreamDraft, choices_of
from fetchly_llm.tree import DraftTree


class TorchReferenceBackend:
    """The specification that every faster back-end is compared with. See `fetchly_llm.backend.Backend`.

    `tapped_layers` names the hidden states that `step` returns: k is the residual stream after the first k layers, as
    a tensor of shape (nodes, hidden_size). Not for use by two threads at once. `EngineConfig.threads` sets torch's
    number of threads for the whole process.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        engine: EngineConfig,
        tapped_layers: Sequence[int] = (),
        streams: StreamWeights | None = None,
    ) -> None:
        _check_engine(engine)
        self._config = config
        self._weights: ModelWeights | None = weights
        self._streams = streams
        self._engine = engine
        self._width = engine.width
        self._chunk = engine.prefill_chunk
        self._device = weights.embedding.device
        self._model: Transformer | None = Transformer(config, weights)
        self._stream_config = streams.config if streams else None
        self._decoder = StreamDecoder(self._model, config, streams) if streams else None
        self._rotary = RotaryTable(config, 0, self._device)
        self.tapped_layers = tuple(tapped_layers)
        if not all(0 <= layer <= config.num_layers for layer in self.tapped_layers):
            raise RequestInvalid(f"tapped layers {self.tapped_layers} are not all within 0..{config.num_layers}")
        self._kept_layers = {*self.tapped_layers, *(self._decoder.taps if self._decoder else ())}
        # Said even where nothing changes: it also stops MKL from choosing a number of threads call by call.
        torch.set_num_threads(engine.threads or within_quota(torch.get_num_threads()))

    @classmethod
    def load(cls, folder: Path, engine: EngineConfig, tapped_layers: Sequence[int] = ()) -> TorchReferenceBackend:
        """Read `folder`: config.json and safetensors with Hugging Face names, in any float type.

        The streams are those of `engine.streams_file`, or of streams.safetensors in `folder` where there is one. Raises
        ModelUnsupported for another architecture, WeightsMismatch for tensors that do not fit, ModelMissing for a
        streams file that is not there, RequestInvalid for settings that cannot be.
        """
        config = read_model_config(folder)
        if config.family == "other":
            raise ModelUnsupported(
                f"the model in {folder} is not of the Llama family",
                hint="Install fetchly[transformers] to run other architectures.",
            )
        _check_engine(engine)
        device = _device(engine)
        if device.type == "cpu" and engine.threads:
            torch.set_num_threads(engine.threads)
        beside = folder / STREAMS_FILE
        file = engine.streams_file or (beside if beside.exists() else None)
        with torch.inference_mode():
            streams = load_streams(file, config, device) if file else None
            return cls(config, load_weights(folder, config, device), engine, tapped_layers, streams)

    @property
    def weight_bytes(self) -> int:
        """All is kept in fp32."""
        return 4 * self.parameters

    @property
    def threads(self) -> int:
        """Those of torch, in the whole process."""
        return torch.get_num_threads()

    def with_width(self, width: int) -> TorchReferenceBackend:
        """The same model with steps of `width` rows; the weights are shared, and freed with the last of the two."""
        assert self._weights is not None, "the back-end is closed"
        engine = replace(self._engine, width=width)
        return TorchReferenceBackend(self._config, self._weights, engine, self.tapped_layers, self._streams)

    @property
    def config(self) -> ModelConfig:
        """Shape of the model."""
        return self._config

    @property
    def width(self) -> int:
        """W: rows of every step."""
        return self._width

    @property
    def branching(self) -> bool:
        """Any tree within the width."""
        return True

    @property
    def prefill_chunk(self) -> int:
        """C: tokens of every prefill chunk."""
        return self._chunk

    @property
    def identity(self) -> str:
        """Back-end, precision, library, processor and the fixed shapes that the bits depend on."""
        if self._device.type == "cuda":
            device = f"cuda-{torch.cuda.get_device_name(self._device).replace(' ', '-')}"
        else:
            device = f"cpu-{torch.backends.cpu.get_cpu_capability().lower()}-{torch.get_num_threads()}t"
        return f"torch_reference/fp32/torch-{torch.__version__}/{device}/W{self._width}/C{self._chunk}/B{BLOCK}"

    @property
    def streams(self) -> int:
        """Gamma, the number of speculative streams; 0 for none."""
        return self._stream_config.gamma if self._stream_config else 0

    @property
    def stream_parameters(self) -> int:
        """Parameters of all parts of the streams."""
        return stream_parameters(self._stream_config, self._config) if self._stream_config else 0

    @property
    def parameters(self) -> int:
        """The model's own parameters; a tied head counts once."""
        return sum(math.prod(shape) for shape in checkpoint_shapes(self._config).values())

    def new_cache(self, capacity: int) -> KeyValueCache:
        """An empty cache for `capacity` positions, rows of a draft tree included: at most max_position + W.

        Raises CapacityExceeded above that, RequestInvalid below 1.
        """
        if capacity < 1:
            raise RequestInvalid(f"a cache of {capacity} positions holds nothing")
        limit = self._config.max_position + self._width
        if capacity > limit:
            raise CapacityExceeded(
                f"a cache of {capacity} positions is more than the model's {self._config.max_position} and a tree",
                hint="Lower the context length.",
            )
        cache = KeyValueCache(self._config, capacity, max(self._width, self._chunk), self._device)
        if cache.positions + self.streams > self._rotary.positions:
            self._rotary = RotaryTable(self._config, cache.positions + self.streams, self._device)
        return cache

    @torch.inference_mode()
    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Append prompt tokens in chunks of C at absolute multiples of C.

        Raises RequestInvalid where `cache.length` is not such a multiple or a token is unknown, CapacityExceeded
        where the tokens do not fit. The cache is unchanged then.
        """
        model, own = self._open(), _own(cache)
        self._check_tokens(tokens)
        if own.length % self._chunk:
            raise RequestInvalid(
                f"prefill starts at a multiple of {self._chunk} tokens, and the cache holds {own.length}",
                hint="Truncate the cache to whole chunks, or step through the rest.",
            )
        self._check_room(own, len(tokens), own.length + len(tokens))
        own.forget_step()
        for first in range(0, len(tokens), self._chunk):
            part = tokens[first : first + self._chunk]
            padded = np.zeros(self._chunk, dtype=np.int64)
            padded[: len(part)] = part
            positions = np.arange(own.length, own.length + self._chunk, dtype=np.int64)
            attention = ChunkAttention(own, own.length, self._chunk, self._config.num_heads)
            model.write_prompt(torch.from_numpy(padded).to(self._device), self._rotary_rows(positions), attention)
            own.length += len(part)

    @torch.inference_mode()
    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        """One pass over the nodes of `tree`, padded to W rows; the LM head runs over all W rows or, without
        `logit_rows`, not at all.

        Raises RequestInvalid for a tree of more than W nodes, unknown tokens or rows, CapacityExceeded where it does
        not fit.
        """
        model, own = self._open(), _own(cache)
        if len(tree) > self._width:
            raise RequestInvalid(f"a tree of {len(tree)} nodes is wider than the engine's {self._width} rows")
        if not all(0 <= row < len(tree) for row in logit_rows):
            raise RequestInvalid(f"logit rows {tuple(logit_rows)} are not all nodes of a tree of {len(tree)}")
        self._check_tokens(tree.tokens)
        self._check_room(own, len(tree), own.length + max(tree.depths) + 1)
        own.forget_step()
        plan = plan_tree(tree, own.length, self._width)
        attention = TreeAttention(own, plan, self._config.num_heads)
        tokens = torch.from_numpy(plan.tokens).to(self._device)
        states = model.hidden_states(tokens, self._rotary_rows(plan.positions), attention, self._kept_layers)
        own.pending = tree
        if self._decoder:
            own.start = StreamStart(tree, own.length, {layer: states[layer] for layer in self._decoder.taps})
        logits = np.empty((0, self._config.vocab_size), dtype=np.float32)
        if logit_rows:
            wanted = torch.tensor(tuple(logit_rows), device=self._device)
            logits = model.logits(states[self._config.num_layers]).index_select(0, wanted).contiguous().cpu().numpy()
        return WholeOutput(logits, {layer: states[layer][: len(tree)] for layer in self.tapped_layers})

    @torch.inference_mode()
    def speculate(
        self, cache: Cache, anchors: Sequence[StreamAnchor], vocabulary: NDArray[np.int64] | None = None
    ) -> tuple[StreamDraft, ...]:
        """One pass of the streams of all `anchors` through the model's upper layers; the cache is only read.

        Raises RequestInvalid as the interface says, for unknown tokens, a `vocabulary` that is not one, and for a fork
        or a truncated cache, which have no last step. Streams past the model's last position are computed like any
        other. `following` is not looked at where the streams have no part for it.
        """
        self._open()
        own, decoder = _own(cache), self._decoder
        if decoder is None:
            raise RequestInvalid("the model has no speculative streams", hint="Name a streams file.")
        start = own.start
        if start is None:
            raise RequestInvalid("there is no step for streams to start from: prefill, truncate and fork leave none")
        self._check_anchors(start, anchors)
        choices = choices_of(vocabulary, decoder.top, self._config.vocab_size)
        if not anchors:
            return ()
        nodes = [anchor.node for anchor in anchors]
        plan = plan_streams(start.tree, nodes, start.base, own.length, self.streams)
        rows = torch.tensor(nodes, device=self._device)
        return decoder.drafts(
            {layer: state.index_select(0, rows) for layer, state in start.states.items()},
            [anchor.following for anchor in anchors],
            self._rotary_rows(plan.positions.ravel()),
            StreamAttention(own, plan, self._config.num_heads),
            choices,
        )

    @torch.inference_mode()
    def commit(self, cache: Cache, path: Sequence[int]) -> None:
        """Keep the nodes `path` of the last step. Raises RequestInvalid where they are not a path from its root."""
        own = _own(cache)
        if own.pending is None:
            raise RequestInvalid("there is no step to commit: prefill, truncate and commit use it up")
        parents = own.pending.parents
        known = all(0 <= node < len(parents) for node in path)
        if not path or not known or [parents[node] for node in path] != [-1, *path[:-1]]:
            raise RequestInvalid(f"nodes {tuple(path)} are not a path from the root of the last tree")
        own.keep(path)

    @torch.inference_mode()
    def fork(self, cache: Cache) -> KeyValueCache:
        """An independent cache with the same committed tokens and capacity; rows of a pending tree stay behind."""
        return _own(cache).copy()

    def truncate(self, cache: Cache, length: int) -> None:
        """Forget everything after the first `length` committed tokens. Raises RequestInvalid where there are fewer."""
        own = _own(cache)
        if not 0 <= length <= own.length:
            raise RequestInvalid(f"a cache of {own.length} tokens cannot be cut to {length}")
        own.length = length
        own.forget_step()

    def close(self) -> None:
        """Drop the weights. Caches keep their memory until they are dropped too."""
        self._model = None
        self._decoder = None
        self._weights = None

    def _open(self) -> Transformer:
        if self._model is None:
            raise RequestInvalid("the back-end is closed")
        return self._model

    def _rotary_rows(self, positions: NDArray[np.int64]) -> RotaryRows:
        rows = torch.from_numpy(positions).to(self._device)
        return RotaryRows(self._rotary.cosine.index_select(0, rows), self._rotary.sine.index_select(0, rows))

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._config.vocab_size):
            unknown = next(token for token in tokens if not 0 <= token < self._config.vocab_size)
            raise RequestInvalid(f"token {unknown} is outside the model's vocabulary of {self._config.vocab_size}")

    def _check_anchors(self, start: StreamStart, anchors: Sequence[StreamAnchor]) -> None:
        for anchor in anchors:
            if not 0 <= anchor.node < len(start.tree):
                raise RequestInvalid(f"node {anchor.node} is not in the last step's tree of {len(start.tree)}")
            if start.last not in (None, anchor.node):
                raise RequestInvalid(
                    f"streams cannot start from node {anchor.node} after a commit that ended in node {start.last}",
                    hint="Start them before the commit.",
                )
        self._check_tokens([anchor.following for anchor in anchors if anchor.following is not None])

    def _check_room(self, cache: KeyValueCache, rows: int, last: int) -> None:
        """`rows` more slots, and positions up to `last` (exclusive), must be there."""
        if cache.length + rows > cache.capacity:
            raise CapacityExceeded(
                f"{rows} more tokens after {cache.length} do not fit a cache of {cache.capacity} positions",
                hint="Shorten the prompt or raise the context length.",
            )
        if last > self._config.max_position:
            raise CapacityExceeded(
                f"position {last - 1} is beyond the model's {self._config.max_position} positions",
                hint="Shorten the prompt, or take a model with a longer context.",
            )


def _own(cache: Cache) -> KeyValueCache:
    if not isinstance(cache, KeyValueCache):
        raise RequestInvalid(f"a {type(cache).__name__} is not a cache of this back-end")
    return cache


MOST_THREADS = 256
"""More is a slip of the keyboard, and thousands end the process inside OpenMP."""


def _check_engine(engine: EngineConfig) -> None:
    if engine.device not in ("auto", "cpu", "cuda"):
        raise RequestInvalid(f"unknown device {engine.device!r}", hint="Use auto, cpu or cuda.")
    for name in ("width", "prefill_chunk"):
        if getattr(engine, name) < 1:
            raise RequestInvalid(f"{name} must be at least 1, not {getattr(engine, name)}")
    if engine.threads is not None and not 1 <= engine.threads <= MOST_THREADS:
        raise RequestInvalid(f"threads must be from 1 to {MOST_THREADS}, not {engine.threads}")


def _device(engine: EngineConfig) -> torch.device:
    if engine.device == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if engine.device == "cuda":
        raise RequestInvalid("device cuda was asked for, and torch sees none", hint="Use device auto or cpu.")
    return torch.device("cpu")
