"""Sitemaps without mercy: files that cost, and files that are none."""

from __future__ import annotations

import gzip
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.sitemap import SitemapNote, sitemap_urls
from fetchly.goods import Page

SITE = "http://example.org"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'


def read(body: bytes) -> tuple[list[str], list[SitemapNote]]:
    """The paths that a file lists, and what is said about it."""
    notes: list[SitemapNote] = []
    entries = sitemap_urls(f"{SITE}/s", lambda url: Page(url, url, 200, (), body, "text/xml"), report=notes.append)
    return [entry.url.removeprefix(SITE) for entry in entries], notes


def billion_laughs() -> bytes:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE urlset [<!ENTITY l0 "lol">{entities}]><urlset><url><loc>/&l9;</loc></url></urlset>'.encode()


HOSTILE = {
    "entities": billion_laughs(),
    "external entity": b'<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>&x;</loc></url>',
    "parameter entity": b'<!DOCTYPE urlset [<!ENTITY % x SYSTEM "http://10.0.0.1/">%x;]><urlset/>',
    "external grammar": b'<!DOCTYPE urlset SYSTEM "http://10.0.0.1/x.dtd"><urlset><url>',
    "depth": b"<urlset>" + b"<a>" * 1_000_000,
    "one tag": b"<urlset><url " + b"a" * 20_000_000,
    "attributes": b"<urlset><url " + b"".join(b"a%d='' " % number for number in range(300_000)) + b">",
    "one comment": b"<urlset><!--" + b"-x" * 10_000_000,
    "one text": b"<urlset><url><loc>" + b"a" * 20_000_000 + b"</loc></url></urlset>",
    "ampersands": b"<urlset><url><loc>" + b"&" * 500_000,
    "one line": b"http://example.org/" + b"a" * 20_000_000,
    "lines": b"http://\n" * 1_000_000,
    "empty urls": b"<urlset>" + b"<url/>" * 1_000_000,
    "gzip bomb": gzip.compress(HEAD.encode() + b" " * 100_000_000, mtime=0),
    "gzip of gzip": gzip.compress(gzip.compress(HEAD.encode() + b" " * 100_000_000, mtime=0), mtime=0),
    "empty members": gzip.compress(b"", mtime=0) * 50_000,
    "quoted": b"<?xml version='1.0' encoding='" + b"a" * 1_000_000,
    "unclosed cdata": b"<urlset><url><loc><![CDATA[" + b"]" * 10_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_costs_little_time_and_is_told(name: str) -> None:
    start = time.process_time()
    found, notes = read(HOSTILE[name])
    assert time.process_time() - start < 20  # minutes, if anything were quadratic
    assert found == []
    assert notes
    assert all(len(note.message) < 400 for note in notes)


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - {"lines", "empty urls"}))  # many small things: slow to trace
def test_a_hostile_file_costs_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        read(HOSTILE[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000


SPECIAL = st.sampled_from(
    ("<url>", "</url>", "<loc>", "</loc>", "&amp;", "&", "<", ">", "<!--", "]]>", "http://h/", "<x/>")
)


@given(st.lists(st.one_of(SPECIAL, st.text(max_size=5)), max_size=30), st.booleans())
def test_no_file_is_a_surprise(parts: list[str], has_root: bool) -> None:
    body = (("<urlset>" if has_root else "") + "".join(parts)).encode("utf-8", "surrogatepass")
    found, notes = read(body)
    assert all(isinstance(url, str) for url in found)
    assert notes or found or has_root


@given(st.binary(max_size=300))
def test_no_bytes_are_a_surprise(body: bytes) -> None:
    read(body)
    read(gzip.compress(body, mtime=0))


@given(st.lists(st.from_regex(r"/[a-z0-9/]{0,8}(\?[a-z]=[a-z&]{0,4})?", fullmatch=True), max_size=40))
def test_what_is_listed_comes_out(paths: list[str]) -> None:
    escaped = [f"{SITE}{path}".replace("&", "&amp;") for path in paths]
    entries = "".join(f"<url><loc>{location}</loc></url>" for location in escaped)
    assert read(f"{HEAD}{entries}</urlset>".encode())[0] == paths
