"""Compressed bodies: whole, in pieces, in several members, broken, explosive."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator

import brotli
import pytest
from backports import zstd

from fetchly.crawler.inflate import ACCEPT_ENCODING, MAX_MEMBERS, PIECE, BrokenEncoding, UnknownEncoding, inflated

TEXT = b"<p>Honey from the hill, 250 g</p>" * 500
SKIPPED = (0x184D2A57).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"12345"


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstd_stream(data: bytes, window_log: int = 21) -> bytes:
    """A frame that does not say how long its content is, as a server writes it that compresses while it sends."""
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
    # Without its check sum a frame of zstd does not show every damage.
    "zstd": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}


@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("x-gzip", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0)),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"\0" * 20),
        ("deflate", zlib.compress(TEXT) + b"trailing"),
        ("br", brotli.compress(TEXT)),
        ("br", brotli.compress(TEXT, quality=0)),
        ("zstd", zstd.compress(TEXT)),
        ("zstd", zstd_stream(TEXT)),
        ("zstd", zstd_stream(TEXT, window_log=23)),
        ("zstd", zstd_stream(TEXT[:100]) + SKIPPED + zstd.compress(TEXT[100:])),
        ("zstd", SKIPPED + zstd.compress(TEXT) + zstd.compress(b"") + SKIPPED),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else None,
)
def test_what_is_packed_comes_out(name: str, packed: bytes, size: int) -> None:
    assert b"".join(inflated(in_pieces(packed, size), [name])) == TEXT


def test_what_is_advertised_is_decoded() -> None:
    names = [name.strip() for name in ACCEPT_ENCODING.split(",")]
    assert sorted(names) == sorted(PACKERS)
    for name in names:
        assert b"".join(inflated([PACKERS[name](TEXT)], [name])) == TEXT


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("length", [PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_no_byte_is_lost_at_the_edge_of_a_piece(name: str, length: int) -> None:
    data = bytes(range(256)) * (length // 256) + b"x" * (length % 256)
    assert b"".join(inflated([PACKERS[name](data)], [name])) == data


def test_two_codings_come_off_in_order() -> None:
    assert b"".join(inflated([gzip.compress(zlib.compress(TEXT), mtime=0)], ["deflate", "gzip"])) == TEXT
    assert b"".join(inflated([zstd.compress(brotli.compress(TEXT))], ["br", "zstd"])) == TEXT


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("cut", [1, 5, 10])
def test_a_stream_that_breaks_off_is_an_error(name: str, cut: int) -> None:
    packed = PACKERS[name](TEXT)
    for size in (1, 100_000):
        with pytest.raises(BrokenEncoding):
            b"".join(inflated(in_pieces(packed[:-cut], size), [name]))


@pytest.mark.parametrize("name", PACKERS)
def test_an_empty_body_is_an_empty_page_however_it_is_labelled(name: str) -> None:
    assert b"".join(inflated([], [name])) == b""
    assert b"".join(inflated([b"", b""], [name])) == b""


@pytest.mark.parametrize("name", PACKERS)
def test_damage_is_an_error(name: str) -> None:
    for place in (0, 20):
        packed = bytearray(PACKERS[name](TEXT))
        packed[place] ^= 255
        with pytest.raises(BrokenEncoding):
            b"".join(inflated([bytes(packed)], [name]))


@pytest.mark.parametrize(("name", "rest"), [("zstd", b"trailing"), ("zstd", b"\x28\xb5"), ("br", b"trailing")])
def test_what_may_be_a_damaged_frame_is_not_ignored(name: str, rest: bytes) -> None:
    packed = PACKERS[name](TEXT)
    for chunks in ([packed + rest], [packed, rest]):
        with pytest.raises(BrokenEncoding):
            b"".join(inflated(chunks, [name]))


@pytest.mark.parametrize("window_log", [24, 27])
def test_a_window_over_eight_megabytes_is_refused(window_log: int) -> None:
    with pytest.raises(BrokenEncoding, match="memory"):
        b"".join(inflated([zstd_stream(TEXT, window_log)], ["zstd"]))


@pytest.mark.parametrize("names", [["compress"], ["dcb"], ["gzip", "gzip", "gzip"], ["br", "br", "br"]])
def test_an_unasked_coding_is_never_passed_on(names: list[str]) -> None:
    with pytest.raises(UnknownEncoding):
        inflated([b"x"], names)


@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_comes_out_in_bounded_pieces(name: str) -> None:
    bomb = zstd_stream(b"\0" * 30_000_000) if name == "zstd" else PACKERS[name](b"\0" * 30_000_000)
    assert len(bomb) < 40_000
    lengths = [len(piece) for piece in inflated([bomb], [name])]
    assert sum(lengths) == 30_000_000
    assert max(lengths) <= 2 * PIECE


@pytest.mark.parametrize(("name", "nothing"), [("gzip", gzip.compress(b"", mtime=0)), ("zstd", SKIPPED)])
def test_a_stream_is_in_so_many_pieces_and_no_more(name: str, nothing: bytes) -> None:
    most = nothing * (MAX_MEMBERS - 1) + PACKERS[name](TEXT)
    assert b"".join(inflated([most], [name])) == TEXT
    with pytest.raises(BrokenEncoding, match=r"more than 10,000 pieces"):
        b"".join(inflated([nothing * 2 + most], [name]))
