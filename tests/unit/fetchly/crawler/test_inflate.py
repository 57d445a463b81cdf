"""Compressed bodies: whole, in pieces, in several members, broken, explosive."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import pytest

from fetchly.crawler.inflate import PIECE, BrokenEncoding, UnknownEncoding, inflated

TEXT = b"<p>Honey from the hill, 250 g</p>" * 500


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
        ("gzip", gzip.compress(TEXT) + b"\0" * 20),
    ],
)
def test_what_is_packed_comes_out(name: str, packed: bytes, size: int) -> None:
    assert b"".join(inflated(in_pieces(packed, size), [name])) == TEXT


def test_two_codings_come_off_in_order() -> None:
    assert b"".join(inflated([gzip.compress(zlib.compress(TEXT))], ["deflate", "gzip"])) == TEXT


@pytest.mark.parametrize("name", ["gzip", "deflate"])
@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_stream_that_breaks_off_is_an_error(name: str, cut: int) -> None:
    packed = gzip.compress(TEXT) if name == "gzip" else zlib.compress(TEXT)
    with pytest.raises(BrokenEncoding):
        b"".join(inflated([packed[:-cut]], [name]))


def test_damage_is_an_error() -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[20] ^= 255
    with pytest.raises(BrokenEncoding):
        b"".join(inflated([bytes(packed)], ["gzip"]))


@pytest.mark.parametrize("names", [["br"], ["zstd"], ["gzip", "gzip", "gzip"], ["compress"]])
def test_an_unasked_coding_is_never_passed_on(names: list[str]) -> None:
    with pytest.raises(UnknownEncoding):
        inflated([b"x"], names)


def test_a_bomb_comes_out_in_bounded_pieces() -> None:
    bomb = gzip.compress(b"\0" * 30_000_000)
    assert len(bomb) < 40_000
    assert max(len(piece) for piece in inflated([bomb], ["gzip"])) <= PIECE
