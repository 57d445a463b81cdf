"""A model's shape and tensors in; the library's model, which threads use in turns, out."""

from __future__ import annotations

import weakref
from ctypes import byref, c_int32, c_void_p
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from fetchly_llm.backends.native.library import (
    TILE,
    CacheView,
    HeadPass,
    LibraryMissing,
    Pass,
    Shape,
    StreamPass,
    StreamShape,
    library,
    usable_kernels,
)
from fetchly_llm.backends.native.stored_tensor import StoredTensor
from fetchly_llm.backends.native.stream_tensors import StoredStreams
from fetchly_llm.backends.processors import default_threads
from fetchly_llm.errors import CapacityExceeded, ModelUnsupported, RequestInvalid, WeightsMismatch
from fetchly_llm.stream_config import STREAMS_HINT, StreamConfig
from fetchly_llm.turns import Turns

_NOT_FINITE: Final = "not every number is finite"  # as source/api.cpp says it


class NativeModel:
    """One model in the library, with no tensors at first.

    All calls raise RequestInvalid where the library refuses them and after `close`, CapacityExceeded where memory is
    too small.
    """

    def __init__(self, shape: Shape, threads: int | None, kernels: str | None) -> None:
        """`kernels` is one of `usable_kernels()`, the best where it is not said.

        Raises ModelUnsupported where there are no kernels, RequestInvalid for others than there are.
        """
        try:
            self._library, usable = library(), usable_kernels()
        except LibraryMissing as error:
            raise ModelUnsupported(f"the native back-end cannot be used: {error}", hint="Use device cpu.") from error
        if kernels is not None and kernels not in usable:
            raise RequestInvalid(f"there are no kernels {kernels!r} here, only {', '.join(usable)}")
        self.kernels = kernels or usable[0]
        self.threads = threads or default_threads()
        self._turns = Turns("the back-end")
        model = c_void_p()
        _expect(self._library.native_open(byref(shape), self.kernels.encode(), self.threads, byref(model)))
        self._model: c_void_p | None = model
        self._free = weakref.finalize(self, self._library.native_close, model)
        self._free.atexit = False  # a process that ends needs no tidying, and must not wait for threads

    @property
    def handle(self) -> c_void_p:
        """The library's own."""
        if self._model is None:
            raise RequestInvalid("the back-end is closed")
        return self._model

    def load(self, stored: StoredTensor) -> None:
        """Copy a tensor in."""
        _expect(self._load("native_load", stored))

    def open_streams(self, streams: StoredStreams) -> None:
        """Give the model streams and copy their tensors in.

        Raises ModelUnsupported for sizes that the kernels do not have, WeightsMismatch for numbers that are not finite.
        """
        problem = self._library.native_open_streams(self.handle, byref(_stream_shape(streams.config)))
        if problem:
            raise ModelUnsupported(
                f"the native back-end does not run the streams in {streams.path}: {problem.decode()}",
                hint="Use device cpu.",
            )
        broken = []
        for stored in streams.tensors:
            problem = self._load("native_load_stream", stored)
            if problem == _NOT_FINITE.encode():
                broken.append(stored.tensor.name)
            else:
                _expect(problem)
        if broken:
            raise WeightsMismatch(
                f"{streams.path} holds numbers that are not finite: {', '.join(sorted(broken))}", hint=STREAMS_HINT
            )

    def run(self, one_pass: Pass) -> None:
        """A pass over tokens."""
        with self._turns.take():
            problem = self._library.native_run(self.handle, byref(one_pass))
        _expect(problem)

    def score(
        self, normed: NDArray[np.float32], count: int, tiles: NDArray[np.int32] | None = None
    ) -> NDArray[np.float32]:
        """The LM head of rows (rows, hidden_size): logits (rows, count * TILE) of the first tiles, or of `tiles`."""
        scores = np.empty((len(normed), count * TILE), dtype=np.float32)
        one_pass = HeadPass(address(normed), address(tiles), address(scores), len(normed), count)
        with self._turns.take():
            problem = self._library.native_score(self.handle, byref(one_pass))
        _expect(problem)
        return scores

    def move(self, cache: CacheView, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
        """Copy keys and values from slots to slots, in order."""
        with self._turns.take():
            problem = self._library.native_move(
                self.handle, byref(cache), address(source), address(target), len(source)
            )
        _expect(problem)

    def speculate(self, one_pass: StreamPass) -> None:
        """A pass of streams."""
        with self._turns.take():
            problem = self._library.native_speculate(self.handle, byref(one_pass))
        _expect(problem)

    def successor(self, token: int, rank: int) -> NDArray[np.float32]:
        """The Markov head's factor of a token that comes before, of shape (rank,)."""
        factor = np.empty(rank, dtype=np.float32)
        with self._turns.take():
            problem = self._library.native_successor(self.handle, token, address(factor))
        _expect(problem)
        return factor

    def close(self) -> None:
        """Free the weights and end the threads, after a pass that is under way. Idempotent."""
        with self._turns.take():
            self._model = None
            self._free()

    def _load(self, function: str, stored: StoredTensor) -> bytes | None:
        tensor = stored.tensor
        data = stored.data.ctypes.data_as(c_void_p)
        problem: bytes | None = getattr(self._library, function)(
            self.handle, tensor.layer, int(tensor.part), stored.type, data, tensor.rows, tensor.columns
        )
        return problem


def address(array: NDArray[np.int32] | NDArray[np.int64] | NDArray[np.float32] | None) -> int | None:
    """Of the first element; the caller keeps the array."""
    if array is None:
        return None
    assert array.flags.c_contiguous, "the library reads arrays as they lie"
    return array.ctypes.data


def _stream_shape(config: StreamConfig) -> StreamShape:
    taps = (c_int32 * len(config.taps))(*config.taps)
    scale = config.lora_alpha / config.lora_rank if config.lora_rank else 1.0
    return StreamShape(
        taps,
        len(config.taps),
        config.gamma,
        config.first_layer,
        config.insertion_rank,
        config.anchor_rank,
        config.lora_rank,
        config.markov_rank,
        config.confidence,
        config.top,
        scale,
    )


def _expect(problem: bytes | None) -> None:
    if problem:
        _fail(problem.decode())


def _fail(problem: str) -> NoReturn:
    if problem.startswith("memory"):
        raise CapacityExceeded(problem, hint="Close other programs, or take a smaller model.")
    raise RequestInvalid(f"the native kernels refuse: {problem}")
