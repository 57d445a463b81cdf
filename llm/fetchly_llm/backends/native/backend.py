"""A model folder in; the step interface in C++ kernels (see source/kernels.hpp for what fixes their bits) out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Cache, StepOutput
from fetchly_llm.backends.native.checkpoint_tensors import read_tensors
from fetchly_llm.backends.native.head_output import HeadOutput
from fetchly_llm.backends.native.kv_cache import KeyValueCache, StreamStart
from fetchly_llm.backends.native.library import BITS, BLOCK, MOST_NODES, MOST_ROWS, Pass, Shape
from fetchly_llm.backends.native.model import NativeModel, address
from fetchly_llm.backends.native.rotary import RotaryTable
from fetchly_llm.backends.native.sizes import check_sizes
from fetchly_llm.backends.native.stored_tensor import StoredTensor
from fetchly_llm.backends.native.stream_decoder import StreamDecoder
from fetchly_llm.backends.native.stream_tensors import StoredStreams, read_streams
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.checkpoint_shapes import checkpoint_shapes, has_output_bias
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid
from fetchly_llm.stream_config import STREAMS_FILE, stream_parameters
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree

Precision = Literal["int8", "fp32"]
MOST_THREADS = 256
"""More is a slip of the keyboard."""


class NativeBackend:
    """The Llama family on the processor, with int8 weights (one scale per 32) or fp32 ones.

    See `fetchly_llm.backend.Backend`. Neither the number of threads nor the processor's instruction set changes a bit,
    and a prompt's tokens get the bits that steps would give them. Calls from several threads wait for each other.
    """

    def __init__(
        self,
        config: ModelConfig,
        tensors: Iterable[StoredTensor],
        engine: EngineConfig,
        *,
        precision: Precision = "int8",
        kernels: str | None = None,
        streams: StoredStreams | None = None,
    ) -> None:
        """`kernels` is one of `usable_kernels()`, the best where it is not said.

        Raises ModelUnsupported for shapes that the kernels do not have and where there are no kernels, RequestInvalid
        for settings that cannot be, WeightsMismatch for streams whose numbers are not finite.
        """
        _check_engine(engine)
        self._config = config
        self._precision = precision
        self._chunk = engine.prefill_chunk
        self._rotary = RotaryTable(config, 0)
        self._native = NativeModel(_shape(config, precision), engine.threads, kernels)
        for stored in tensors:
            self._native.load(stored)
        self._decoder: StreamDecoder | None = None
        if streams is not None:
            self._native.open_streams(streams)
            self._decoder = StreamDecoder(self._native, config, streams.config)

    @classmethod
    def load(
        cls, folder: Path, engine: EngineConfig, *, precision: Precision = "int8", kernels: str | None = None
    ) -> NativeBackend:
        """Read `folder`: config.json and safetensors with Hugging Face names, in fp32, fp16 or bf16.

        The streams are those of `engine.streams_file`, or of streams.safetensors in `folder` where there is one. Raises
        ModelUnsupported for another architecture or a shape that the kernels do not have, WeightsMismatch for tensors
        that do not fit, ModelMissing for a streams file that is not there, RequestInvalid for settings that cannot be.
        """
        config = read_model_config(folder)
        if config.family == "other":
            raise ModelUnsupported(
                f"the model in {folder} is not of the Llama family",
                hint="Install fetchly[transformers] to run other architectures.",
            )
        check_sizes(folder / "config.json", config)
        beside = folder / STREAMS_FILE
        file = engine.streams_file or (beside if beside.exists() else None)
        streams = read_streams(file, config) if file else None
        stored = read_tensors(folder, config)
        first = next(stored)  # weights that do not fit are refused before memory is asked for
        tensors = chain((first,), stored)
        return cls(config, tensors, engine, precision=precision, kernels=kernels, streams=streams)

    @property
    def config(self) -> ModelConfig:
        """Shape of the model."""
        return self._config

    @property
    def width(self) -> None:
        """None: bits do not depend on the number of rows, of which a step may have up to MOST_NODES."""
        return None

    @property
    def branching(self) -> bool:
        """Any tree."""
        return True

    @property
    def prefill_chunk(self) -> int:
        """C, in tokens: a unit of the prefix cache. It changes no bits."""
        return self._chunk

    @property
    def identity(self) -> str:
        """Back-end, precision, version of the kernels' bits and size of an attention block: all that they depend on."""
        return f"native/{self._precision}/cpu-{BITS}/B{BLOCK}"

    @property
    def kernels(self) -> str:
        """Those of `usable_kernels()` that are used."""
        return self._native.kernels

    @property
    def threads(self) -> int:
        """Of a pass."""
        return self._native.threads

    @property
    def streams(self) -> int:
        """Gamma, the number of speculative streams; 0 for none."""
        return self._decoder.config.gamma if self._decoder else 0

    @property
    def stream_parameters(self) -> int:
        """Parameters of all parts of the streams."""
        return stream_parameters(self._decoder.config, self._config) if self._decoder else 0

    @property
    def parameters(self) -> int:
        """The model's own parameters; a tied head counts once."""
        return sum(map(prod, checkpoint_shapes(self._config).values()))

    @property
    def weight_bytes(self) -> int:
        """int8 matrices have a scale of 2 bytes for every 32 numbers; vectors are kept in fp32."""
        matrix = 4.0 if self._precision == "fp32" else 1.0 + 2.0 / 32.0
        shapes = checkpoint_shapes(self._config).values()
        return round(sum(prod(shape) * (4.0 if len(shape) == 1 else matrix) for shape in shapes))

    def new_cache(self, capacity: int) -> KeyValueCache:
        """An empty cache for `capacity` positions, rows of a draft tree included: at most max_position + MOST_NODES.

        Raises CapacityExceeded above that, RequestInvalid below 1.
        """
        if capacity < 1:
            raise RequestInvalid(f"a cache of {capacity} positions holds nothing")
        if capacity > self._config.max_position + MOST_NODES:
            raise CapacityExceeded(
                f"a cache of {capacity} positions is more than the model's {self._config.max_position} and a tree",
                hint="Lower the context length.",
            )
        if capacity + self.streams > self._rotary.positions:
            self._rotary = RotaryTable(self._config, capacity + self.streams)
        return KeyValueCache(self._config, capacity)

    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Append prompt tokens.

        Raises RequestInvalid where `cache.length` is not a multiple of C or a token is unknown, CapacityExceeded
        where the tokens do not fit. The cache is unchanged then.
        """
        own = _own(cache)
        self._check_tokens(tokens)
        if own.length % self._chunk:
            raise RequestInvalid(
                f"prefill starts at a multiple of {self._chunk} tokens, and the cache holds {own.length}",
                hint="Truncate the cache to whole chunks, or step through the rest.",
            )
        self._check_room(own, len(tokens), own.length + len(tokens))
        own.forget_step()
        for first in range(0, len(tokens), MOST_ROWS):
            part = np.array(tokens[first : first + MOST_ROWS], dtype=np.int32)
            self._run(own, part, np.arange(-1, len(part) - 1, dtype=np.int32))
            own.length += len(part)

    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        """One pass over the nodes of `tree`; the LM head runs when logits of `logit_rows` are looked at.

        Raises RequestInvalid for a tree of more than MOST_NODES nodes, unknown tokens or rows, CapacityExceeded where
        it does not fit.
        """
        own = _own(cache)
        if len(tree) > MOST_NODES:
            raise RequestInvalid(f"a tree of {len(tree)} nodes has more than {MOST_NODES}")
        if not all(0 <= row < len(tree) for row in logit_rows):
            raise RequestInvalid(f"logit rows {tuple(logit_rows)} are not all nodes of a tree of {len(tree)}")
        self._check_tokens(tree.tokens)
        self._check_room(own, len(tree), own.length + max(tree.depths) + 1)
        own.forget_step()
        # A row may be asked for more than once.
        rows, places = np.unique(np.array(logit_rows, dtype=np.int32), return_inverse=True)
        normed = np.empty((len(rows), self._config.hidden_size), dtype=np.float32)
        states = self._decoder.room_for_states(len(tree)) if self._decoder else None
        tokens, parents = np.array(tree.tokens, dtype=np.int32), np.array(tree.parents, dtype=np.int32)
        self._run(own, tokens, parents, rows, normed, states)
        own.pending = tree
        own.start = StreamStart(tree, states) if states is not None else None
        return HeadOutput(self._native, self._config.vocab_size, normed[places])

    def speculate(
        self, cache: Cache, anchors: Sequence[StreamAnchor], vocabulary: NDArray[np.int64] | None = None
    ) -> tuple[StreamDraft, ...]:
        """One pass of the streams of all `anchors` through the model's upper layers; the cache is only read.

        Raises RequestInvalid as the interface says, for unknown tokens, a `vocabulary` that is not one, and for a fork
        or a truncated cache, which have no last step; NonFiniteLogits where streams propose what is no number. Streams
        past the model's last position are computed like any other. `following` is not looked at where the streams have
        no part for it.
        """
        own, decoder = _own(cache), self._decoder
        if decoder is None:
            raise RequestInvalid("the model has no speculative streams", hint="Name a streams file.")
        start = own.start
        if start is None:
            raise RequestInvalid("there is no step for streams to start from: prefill, truncate and fork leave none")
        self._check_anchors(start, anchors)
        return decoder.drafts(own, start, anchors, self._rotary, vocabulary)

    def commit(self, cache: Cache, path: Sequence[int]) -> None:
        """Keep the nodes `path` of the last step. Raises RequestInvalid where they are not a path from its root."""
        own = _own(cache)
        if own.pending is None:
            raise RequestInvalid("there is no step to commit: prefill, truncate and commit use it up")
        parents = own.pending.parents
        known = all(0 <= node < len(parents) for node in path)
        if not path or not known or [parents[node] for node in path] != [-1, *path[:-1]]:
            raise RequestInvalid(f"nodes {tuple(path)} are not a path from the root of the last tree")
        moved = [(own.length + node, own.length + depth) for depth, node in enumerate(path) if node != depth]
        if moved:
            source, target = np.array(moved, dtype=np.int32).T.copy()
            self._native.move(own.view, source, target)
        own.end_step(path)

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
        """Free the weights and end the threads, after a pass that is under way. Caches keep their memory."""
        self._native.close()

    def _run(
        self,
        cache: KeyValueCache,
        tokens: NDArray[np.int32],
        parents: NDArray[np.int32],
        normed_rows: NDArray[np.int32] | None = None,
        normed: NDArray[np.float32] | None = None,
        states: NDArray[np.float32] | None = None,
    ) -> None:
        rotary = self._rotary  # held while it is read: for another thread's cache a longer one may take its place
        one_pass = Pass(
            cache.view,
            address(tokens),
            address(parents),
            address(normed_rows),
            address(normed),
            address(states),
            address(rotary.cosine),
            address(rotary.sine),
            rotary.positions,
            cache.length,
            len(tokens),
            0 if normed_rows is None else len(normed_rows),
        )
        self._native.run(one_pass)

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


def _shape(config: ModelConfig, precision: Precision) -> Shape:
    """Raises ModelUnsupported for shapes that the kernels do not have."""
    queries = config.num_heads * config.head_dim
    rounded = {"hidden_size": config.hidden_size, "intermediate_size": config.intermediate_size, "heads": queries}
    for name, size in rounded.items():
        if size % 32:
            raise ModelUnsupported(
                f"the native back-end needs sizes in multiples of 32, and {name} is {size}", hint="Use device cpu."
            )
    if config.head_dim % 2 or config.num_heads % config.num_kv_heads:
        raise ModelUnsupported(
            f"the native back-end does not run {config.num_heads} heads of {config.head_dim} dimensions that share"
            f" {config.num_kv_heads}",
            hint="Use device cpu.",
        )
    return Shape(
        config.vocab_size,
        config.hidden_size,
        config.intermediate_size,
        config.num_layers,
        config.num_heads,
        config.num_kv_heads,
        config.head_dim,
        config.qkv_bias,
        has_output_bias(config),
        config.qk_norm,
        config.tie_word_embeddings,
        precision == "int8",
        config.rms_norm_eps,
    )


def _own(cache: Cache) -> KeyValueCache:
    if not isinstance(cache, KeyValueCache):
        raise RequestInvalid(f"a {type(cache).__name__} is not a cache of this back-end")
    return cache


def _check_engine(engine: EngineConfig) -> None:
    if engine.prefill_chunk < 1:
        raise RequestInvalid(f"prefill_chunk must be at least 1, not {engine.prefill_chunk}")
    if engine.threads is not None and not 1 <= engine.threads <= MOST_THREADS:
        raise RequestInvalid(f"threads must be from 1 to {MOST_THREADS}, not {engine.threads}")
