"""Raw body chunks and their Content-Encoding in; decoded chunks out, in bounded pieces.

Own code, because the HTTP client's decoders take a gzip stream that breaks off for a whole one and drop every gzip
member after the first: both lose text without a word.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

# What a request may advertise: exactly what `inflated` decodes.
ACCEPT_ENCODING = "gzip, deflate"
PIECE = 256 * 1024  # a small input cannot inflate to more than this in one step
MAX_ENCODINGS = 2

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


class UnknownEncoding(Exception):
    """A content coding that nobody asked for. `str()` is its name."""


class BrokenEncoding(Exception):
    """The compressed stream is damaged or breaks off."""


def inflated(chunks: Iterable[bytes], encodings: list[str]) -> Iterator[bytes]:
    """Decode `chunks`; `encodings` in the order they were applied (RFC 9110, 8.4).

    Raises UnknownEncoding before anything is read, BrokenEncoding where the stream is damaged or ends early.
    """
    known = [name for name in encodings if name not in ("", "identity")]
    for name in known:
        if name not in ("gzip", "x-gzip", "deflate"):
            raise UnknownEncoding(name)
    if len(known) > MAX_ENCODINGS:
        raise UnknownEncoding(", ".join(known))
    stream: Iterable[bytes] = chunks
    for name in reversed(known):
        stream = _deflate(stream) if name == "deflate" else _gzip(stream)
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
                members, started = members + 1, False
                data = decoder.unused_data
                decoder = zlib.decompressobj(_GZIP)
    if started:
        raise BrokenEncoding("the gzip stream ends early")


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
