"""Raw body chunks and their Content-Encoding in; decoded chunks out, in bounded pieces.

Own code around the decompressors: the HTTP client's decoders take a stream that breaks off for a whole one, drop
every gzip member after the first, and inflate a bomb in one step.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 256 * 1024  # a small input cannot inflate to more than about twice this in one step
MAX_ENCODINGS = 2
# Nobody's block of a file that is packed in blocks is as small as the millions that fit into a page and hold nothing.
MAX_MEMBERS = 10_000
# RFC 9659: nobody need hold a larger window than 8 MiB for `Content-Encoding: zstd`.
MAX_WINDOW_LOG = 23

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS
# RFC 8878: a frame of data, and sixteen kinds of frames to be skipped.
_ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + kind, 0x2A, 0x4D, 0x18)) for kind in range(16)))


class UnknownEncoding(Exception):
    """A content coding that nobody asked for. `str()` is its name."""


class BrokenEncoding(Exception):
    """The compressed stream is damaged or breaks off."""


def inflated(chunks: Iterable[bytes], encodings: list[str]) -> Iterator[bytes]:
    """Decode `chunks`; `encodings` in the order they were applied (RFC 9110, 8.4).

    Raises UnknownEncoding before anything is read, BrokenEncoding where the stream is damaged, ends early or is in more
    than MAX_MEMBERS pieces.
    """
    known = [name for name in encodings if name not in ("", "identity")]
    for name in known:
        if name not in _DECODERS:
            raise UnknownEncoding(name)
    if len(known) > MAX_ENCODINGS:
        raise UnknownEncoding(", ".join(known))
    stream: Iterable[bytes] = chunks
    for name in reversed(known):
        stream = _DECODERS[name](stream)
    return iter(stream)


def _gzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """RFC 1952: one or more members; what follows the last member and is no member is ignored, as browsers do."""
    decoder = zlib.decompressobj(_GZIP)
    members = 0
    started = False
    for chunk in chunks:
        data = chunk
        while data:
            if not started and members and not b"\x1f\x8b".startswith(data[:2]):
                return  # padding after the last member
            started = True
            yield from _pieces(decoder, data)
            data = b""
            if decoder.eof:
                members, started = _counted(members), False
                data = decoder.unused_data
                decoder = zlib.decompressobj(_GZIP)
    if started:
        raise BrokenEncoding("the gzip stream ends early")


def _counted(members: int) -> int:
    """One member more, which takes a decompressor of its own."""
    if members >= MAX_MEMBERS:
        raise BrokenEncoding(f"the stream is in more than {MAX_MEMBERS:,} pieces")
    return members + 1


def _deflate(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """`deflate` means zlib (RFC 1950); many servers send the bare stream (RFC 1951) instead."""
    decoder = None
    for chunk in chunks:
        if not chunk:
            continue
        if decoder is None:
            # The zlib header: method 8, and a check sum that makes the first two bytes a multiple of 31.
            zlib_header = chunk[0] & 15 == 8 and (len(chunk) == 1 or (chunk[0] << 8 | chunk[1]) % 31 == 0)
            decoder = zlib.decompressobj(_ZLIB if zlib_header else _RAW)
        if decoder.eof:
            return
        yield from _pieces(decoder, chunk)
    if decoder is not None and not decoder.eof:
        raise BrokenEncoding("the deflate stream ends early")


def _pieces(decoder: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    try:
        while True:
            piece = decoder.decompress(data, PIECE)
            if piece:
                yield piece
            data = decoder.unconsumed_tail
            # A full piece may have left output inside the decoder although all input is taken.
            if decoder.eof or (not data and len(piece) < PIECE):
                return
    except zlib.error as error:
        raise BrokenEncoding(f"the compressed stream is damaged ({error})") from error


def _brotli(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """RFC 7932. The library cannot tell bytes after the stream from damage, so both are an error."""
    decoder = brotli.Decompressor()
    started = False
    try:
        for chunk in chunks:
            started = started or bool(chunk)
            piece = decoder.process(chunk, output_buffer_limit=PIECE) if chunk else b""
            while piece:
                yield piece
                # A full piece may have left output inside the decoder although all input is taken.
                full = len(piece) >= PIECE or not decoder.can_accept_more_data()
                piece = decoder.process(b"", output_buffer_limit=PIECE) if full else b""
        if started and not decoder.is_finished():
            raise BrokenEncoding("the brotli stream ends early")
    except brotli.error as error:
        raise BrokenEncoding("the brotli stream is damaged") from error


def _zstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """RFC 8878: one or more frames, with or without the size of their content; some are there to be skipped."""
    decoder: zstd.ZstdDecompressor | None = None
    rest = b""  # of a frame's magic number
    frames = 0
    for chunk in chunks:
        data = rest + chunk
        while data:
            if decoder is None:
                if not any(magic.startswith(data[:4]) for magic in _ZSTD_MAGICS):
                    raise BrokenEncoding("the zstd stream is damaged (no frame where one should begin)")
                if len(data) < 4:
                    break
                decoder = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: MAX_WINDOW_LOG})
            try:
                piece = decoder.decompress(data, PIECE)
                data = b""
                while piece or not (decoder.eof or decoder.needs_input):
                    yield piece
                    if decoder.eof:
                        break
                    piece = decoder.decompress(b"", PIECE)
            except zstd.ZstdError as error:
                raise BrokenEncoding(f"the zstd stream cannot be read ({error})") from error
            if decoder.eof:
                data, decoder = decoder.unused_data, None
                frames = _counted(frames)
        rest = data
    if decoder is not None or rest:
        raise BrokenEncoding("the zstd stream ends early")


_DECODERS: dict[str, Callable[[Iterable[bytes]], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
# What a request advertises: exactly what `inflated` decodes, the best first.
ACCEPT_ENCODING = ", ".join(name for name in ("zstd", "br", "gzip", "deflate") if name in _DECODERS)
