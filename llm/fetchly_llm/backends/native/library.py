"""The shared library beside this file in; its functions, typed, or why they cannot be used, out."""

from __future__ import annotations

import ctypes
import platform
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

VERSION = 4
"""Of the interface; the library says the same, or was built from other sources."""
BITS = 1
"""Of what the kernels compute for the model's own rows; an output's identity names it."""

BLOCK = 64
TILE = 16
"""Tokens whose logits are computed together."""
MOST_ROWS = 128
"""Of one pass."""
MOST_NODES = 64
"""Of a draft tree."""
KERNELS = ("avx512", "avxvnni", "avx2", "generic")
"""Best first. All give the same bits."""

_FILE = Path(__file__).with_name("kernels.so")


class Shape(ctypes.Structure):
    """`Shape` of source/weights.hpp."""

    _fields_ = [
        *((name, c_int32) for name in ("vocab", "hidden", "inner", "layers", "heads", "kv_heads", "dim")),
        *((name, c_int32) for name in ("qkv_bias", "output_bias", "qk_norm", "tied", "int8")),
        ("epsilon", c_float),
    ]


class CacheView(ctypes.Structure):
    """`Cache` of source/attention.hpp."""

    _fields_ = [("keys", c_void_p), ("values", c_void_p), ("blocks", c_int64)]


class Pass(ctypes.Structure):
    """`Pass` of source/model.hpp."""

    _fields_ = [
        ("cache", CacheView),
        *((name, c_void_p) for name in ("tokens", "parents", "normed_rows", "normed", "states", "cosine", "sine")),
        ("angles", c_int64),
        *((name, c_int32) for name in ("committed", "rows", "normed_count")),
    ]


class HeadPass(ctypes.Structure):
    """`HeadPass` of source/model.hpp."""

    _fields_ = [
        *((name, c_void_p) for name in ("normed", "tiles", "scores")),
        *((name, c_int32) for name in ("rows", "count")),
    ]


class StreamShape(ctypes.Structure):
    """`StreamShape` of source/stream_weights.hpp."""

    _fields_ = [
        ("taps", POINTER(c_int32)),
        *((name, c_int32) for name in ("tap_count", "gamma", "first_layer", "insertion_rank", "anchor_rank")),
        *((name, c_int32) for name in ("adapter_rank", "markov_rank", "confidence", "top")),
        ("adapter_scale", c_float),
    ]


class StreamPass(ctypes.Structure):
    """`StreamPass` of source/streams.hpp."""

    _fields_ = [
        ("cache", CacheView),
        *((name, c_void_p) for name in ("states", "parents", "nodes", "following", "vocabulary")),
        *((name, c_void_p) for name in ("tokens", "logits", "confidence", "factors", "cosine", "sine")),
        ("angles", c_int64),
        *((name, c_int32) for name in ("committed", "rows", "anchors", "choices")),
    ]


class LibraryMissing(Exception):
    """There are no kernels to use; the message says why."""


@cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises LibraryMissing where it was not built, or was built from other sources."""
    if not _FILE.is_file():
        raise LibraryMissing("its library was not built, as the installation found no C++ compiler that could")
    try:
        loaded = ctypes.CDLL(str(_FILE))
        loaded.native_version.restype = c_int32
        found = loaded.native_version()
    except (OSError, AttributeError) as error:
        raise LibraryMissing(f"its library cannot be loaded: {error}") from error
    if found != VERSION:
        raise LibraryMissing(f"its library has version {found}, not {VERSION}: install fetchly again")
    loaded.native_has_kernels.argtypes = [c_char_p]
    loaded.native_has_kernels.restype = c_int32
    loaded.native_open.argtypes = [POINTER(Shape), c_char_p, c_int32, POINTER(c_void_p)]
    loaded.native_run.argtypes = [c_void_p, POINTER(Pass)]
    loaded.native_score.argtypes = [c_void_p, POINTER(HeadPass)]
    loaded.native_move.argtypes = [c_void_p, POINTER(CacheView), c_void_p, c_void_p, c_int32]
    loaded.native_open_streams.argtypes = [c_void_p, POINTER(StreamShape)]
    loaded.native_speculate.argtypes = [c_void_p, POINTER(StreamPass)]
    loaded.native_successor.argtypes = [c_void_p, c_int32, c_void_p]
    for name in ("load", "load_stream"):
        load = getattr(loaded, f"native_{name}")
        load.argtypes = [c_void_p, c_int32, c_int32, c_int32, c_void_p, c_int64, c_int64]
    for name in ("open", "load", "run", "score", "move", "open_streams", "load_stream", "speculate", "successor"):
        getattr(loaded, f"native_{name}").restype = c_char_p
    loaded.native_close.argtypes = [c_void_p]
    loaded.native_close.restype = None
    return loaded


def usable_kernels() -> tuple[str, ...]:
    """The kernels that this processor runs, best first. Raises LibraryMissing."""
    return tuple(name for name in KERNELS if library().native_has_kernels(name.encode()))


def available() -> str | None:
    """None where the back-end is worth using on this machine, else why it is not, in a few words."""
    try:
        found = usable_kernels()
    except LibraryMissing as error:
        return str(error)
    # On x86 without fused multiply-add each one is a call of a function; elsewhere the compiler has vectors of them.
    if found == ("generic",) and platform.machine().lower() in ("x86_64", "amd64"):
        return "the processor has no AVX2"
    return None
