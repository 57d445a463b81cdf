"""A model folder in; the step interface in C++ kernels (see source/kernels.hpp for what fixes their bits) out."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from ctypes import byref, c_void_p
from itertools import chain
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backend import Cache, StepOutput
from fetchly_llm.backends.native.checkpoint_tensors import StoredTensor, has_output_bias, model_tensors, read_tensors
from fetchly_llm.backends.native.kv_cache import KeyValueCache
from fetchly_llm.backends.native.library import (
    BLOCK,
    MOST_ROWS,
    VERSION,
    LibraryMissing,
    Pass,
    Shape,
    default_threads,
    library,
    usable_kernels,
)
from fetchly_llm.backends.native.rotary import RotaryTable
from fetchly_llm.backends.native.sizes import check_sizes
from fetchly_llm.checkpoint import read_model_config
from fetchly_llm.config import EngineConfig, ModelConfig
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid
from fetchly_llm.streams import StreamAnchor, StreamDraft
from fetchly_llm.tree import DraftTree
from fetchly_llm.turns import Turns

Precision = Literal["int8", "fp32"]
MOST_THREADS = 256
"""More is a slip of the keyboard."""

MOST_NODES = 64
"""Of a draft tree."""


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
    ) -> None:
        """`kernels` is one of `usable_kernels()`, the best where it is not said.

        Raises ModelUnsupported for shapes that the kernels do not have and where there are no kernels, RequestInvalid
        for settings that cannot be.
        """
        _check_engine(engine)
        shape = _shape(config, precision)
        try:
            self._library, usable = library(), usable_kernels()
        except LibraryMissing as error:
            raise ModelUnsupported(f"the native back-end cannot be used: {error}", hint="Use device cpu.") from error
        if kernels is not None and kernels not in usable:
            raise RequestInvalid(f"there are no kernels {kernels!r} here, only {', '.join(usable)}")
        self._config = config
        self._precision = precision
        self._chunk = engine.prefill_chunk
        self._rotary = RotaryTable(config, 0)
        self._turns = Turns("the back-end")
        self.kernels = kernels or usable[0]
        model = c_void_p()
        self.threads = engine.threads or default_threads()
        self._expect(self._library.native_open(byref(shape), self.kernels.encode(), self.threads, byref(model)))
        self._model: c_void_p | None = model
        self._free = weakref.finalize(self, self._library.native_close, model)
        self._free.atexit = False  # a process that ends needs no tidying, and must not wait for threads
        for stored in tensors:
            tensor = stored.tensor
            address = stored.data.ctypes.data_as(c_void_p)
            self._expect(
                self._library.native_load(
                    model, tensor.layer, int(tensor.part), stored.type, address, tensor.rows, tensor.columns
                )
            )

    @classmethod
    def load(
        cls, folder: Path, engine: EngineConfig, *, precision: Precision = "int8", kernels: str | None = None
    ) -> NativeBackend:
        """Read `folder`: config.json and safetensors with Hugging Face names, in fp32, fp16 or bf16.

        Raises ModelUnsupported for another architecture or a shape that the kernels do not have, WeightsMismatch for
        tensors that do not fit, RequestInvalid for settings that cannot be, and for a streams file.
        """
        if engine.streams_file is not None:
            raise RequestInvalid("the native back-end has no speculative streams", hint="Leave out the streams file.")
        config = read_model_config(folder)
        if config.family == "other":
            raise ModelUnsupported(
                f"the model in {folder} is not of the Llama family",
                hint="Install fetchly[transformers] to run other architectures.",
            )
        check_sizes(folder / "config.json", config)
        tensors = read_tensors(folder, config)
        first = next(tensors)  # weights that do not fit are refused before memory is asked for
        return cls(config, chain((first,), tensors), engine, precision=precision, kernels=kernels)

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
        """Back-end, precision, version of the kernels and size of an attention block: all that the bits depend on."""
        return f"native/{self._precision}/cpu-{VERSION}/B{BLOCK}"

    @property
    def streams(self) -> int:
        """None."""
        return 0

    @property
    def stream_parameters(self) -> int:
        """None."""
        return 0

    @property
    def parameters(self) -> int:
        """The model's own parameters; a tied head counts once."""
        return sum(tensor.rows * tensor.columns for tensor in model_tensors(self._config))

    @property
    def weight_bytes(self) -> int:
        """int8 matrices have a scale of 4 bytes for every 32 numbers; vectors are kept in fp32."""
        matrix = 4.0 if self._precision == "fp32" else 1.0 + 4.0 / 32.0
        sizes = (
            tensor.rows * tensor.columns * (4.0 if min(tensor.rows, tensor.columns) == 1 else matrix)
            for tensor in model_tensors(self._config)
        )
        return round(sum(sizes))

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
        if capacity > self._rotary.positions:
            self._rotary = RotaryTable(self._config, capacity)
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
        own.pending = None
        for first in range(0, len(tokens), MOST_ROWS):
            part = np.array(tokens[first : first + MOST_ROWS], dtype=np.int32)
            self._run(own, part, np.arange(-1, len(part) - 1, dtype=np.int32), None, None)
            own.length += len(part)

    def step(self, cache: Cache, tree: DraftTree, logit_rows: Sequence[int]) -> StepOutput:
        """One pass over the nodes of `tree`; the LM head runs over `logit_rows`.

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
        own.pending = None
        # A row may be asked for more than once.
        rows, places = np.unique(np.array(logit_rows, dtype=np.int32), return_inverse=True)
        logits = np.empty((len(rows), self._config.vocab_size), dtype=np.float32)
        tokens, parents = np.array(tree.tokens, dtype=np.int32), np.array(tree.parents, dtype=np.int32)
        self._run(own, tokens, parents, rows, logits)
        own.pending = tree
        in_order = len(rows) == len(logit_rows) and bool((places == np.arange(len(rows))).all())
        return StepOutput(logits if in_order else logits[places])

    def speculate(self, cache: Cache, anchors: Sequence[StreamAnchor]) -> tuple[StreamDraft, ...]:
        """Raises RequestInvalid: this back-end has no streams."""
        raise RequestInvalid("the model has no speculative streams", hint="Draft from other sources.")

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
            view = own.view
            with self._turns.take():
                problem = self._library.native_move(
                    self._open(), byref(view), _address(source), _address(target), len(moved)
                )
            self._expect(problem)
        own.length += len(path)
        own.pending = None

    def fork(self, cache: Cache) -> KeyValueCache:
        """An independent cache with the same committed tokens and capacity; rows of a pending tree stay behind."""
        return _own(cache).copy()

    def truncate(self, cache: Cache, length: int) -> None:
        """Forget everything after the first `length` committed tokens. Raises RequestInvalid where there are fewer."""
        own = _own(cache)
        if not 0 <= length <= own.length:
            raise RequestInvalid(f"a cache of {own.length} tokens cannot be cut to {length}")
        own.length = length
        own.pending = None

    def close(self) -> None:
        """Free the weights and end the threads, after a pass that is under way. Caches keep their memory."""
        with self._turns.take():
            self._model = None
            self._free()

    def _open(self) -> c_void_p:
        if self._model is None:
            raise RequestInvalid("the back-end is closed")
        return self._model

    def _run(
        self,
        cache: KeyValueCache,
        tokens: NDArray[np.int32],
        parents: NDArray[np.int32],
        logit_rows: NDArray[np.int32] | None,
        logits: NDArray[np.float32] | None,
    ) -> None:
        one_pass = Pass(
            cache.view,
            _address(tokens),
            _address(parents),
            _address(logit_rows),
            _address(logits),
            _address(self._rotary.cosine),
            _address(self._rotary.sine),
            self._rotary.positions,
            cache.length,
            len(tokens),
            0 if logit_rows is None else len(logit_rows),
        )
        with self._turns.take():
            problem = self._library.native_run(self._open(), byref(one_pass))
        self._expect(problem)

    def _expect(self, problem: bytes | None) -> None:
        if problem:
            _fail(problem.decode())

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._config.vocab_size):
            unknown = next(token for token in tokens if not 0 <= token < self._config.vocab_size)
            raise RequestInvalid(f"token {unknown} is outside the model's vocabulary of {self._config.vocab_size}")

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


def _fail(problem: str) -> NoReturn:
    if problem.startswith("memory"):
        raise CapacityExceeded(problem, hint="Close other programs, or take a smaller model.")
    raise RequestInvalid(f"the native kernels refuse: {problem}")


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


def _address(array: NDArray[np.int32] | NDArray[np.float32] | None) -> int | None:
    """Of the first element; the caller keeps the array."""
    if array is None:
        return None
    assert array.flags.c_contiguous, "the library reads arrays as they lie"
    return array.ctypes.data


def _own(cache: Cache) -> KeyValueCache:
    if not isinstance(cache, KeyValueCache):
        raise RequestInvalid(f"a {type(cache).__name__} is not a cache of this back-end")
    return cache


def _check_engine(engine: EngineConfig) -> None:
    if engine.prefill_chunk < 1:
        raise RequestInvalid(f"prefill_chunk must be at least 1, not {engine.prefill_chunk}")
    if engine.threads is not None and not 1 <= engine.threads <= MOST_THREADS:
        raise RequestInvalid(f"threads must be from 1 to {MOST_THREADS}, not {engine.threads}")
