"""Sitemaps as sites write them: maps, indexes, feeds, texts; broken, packed, endless, hostile."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from fetchly.crawler.answers import status_error
from fetchly.crawler.sitemap import SitemapEntry, SitemapLimits, SitemapNote, read_date, sitemap_urls
from fetchly.errors import PolicyRefused
from fetchly.goods import Page

SITE = "http://example.org"
MAP = f"{SITE}/sitemap.xml"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'


@dataclass
class Web:
    """Files by path; what is not there is a 404."""

    files: dict[str, bytes | Page | Exception]
    asked: list[str] = field(default_factory=list)
    notes: list[SitemapNote] = field(default_factory=list)

    def fetch(self, url: str) -> Page:
        self.asked.append(url)
        found = self.files.get(url.removeprefix(SITE), status_error(url, 404, "", None))
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Page) else page(url, found)

    def walk(
        self, url: str = MAP, limits: SitemapLimits | None = None, hosts: Iterable[str] | None = None
    ) -> list[SitemapEntry]:
        allowed = None if hosts is None else frozenset(hosts)
        return list(sitemap_urls(url, self.fetch, limits, report=self.notes.append, hosts=allowed))

    @property
    def codes(self) -> list[str]:
        return [note.code for note in self.notes]


def page(
    url: str, body: bytes, *, media_type: str = "text/xml", charset: str | None = None, warnings: tuple[str, ...] = ()
) -> Page:
    return Page(url, url, 200, (), body, media_type, charset, warnings=warnings)


def urls(entries: Iterable[SitemapEntry]) -> list[str]:
    return [entry.url.removeprefix(SITE) for entry in entries]


def urlset(*locations: str) -> bytes:
    return (HEAD + "".join(f"<url><loc>{location}</loc></url>" for location in locations) + "</urlset>").encode()


def index(*locations: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{location}</loc></sitemap>" for location in locations)
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


def read(body: bytes, **kinds: str) -> tuple[list[str], list[SitemapNote]]:
    web = Web({"/sitemap.xml": page(MAP, body, **kinds)})  # type: ignore[arg-type]
    return urls(web.walk()), web.notes


def test_a_map_with_all_that_it_may_say() -> None:
    body = f"""{HEAD}
      <!-- made by hand -->
      <url><loc> {SITE}/a?b=1&amp;c=2 </loc><lastmod>2026-03-01T12:30:00+02:00</lastmod>
        <changefreq>daily</changefreq><priority>0.5</priority></url>
      <url><lastmod>2026-03</lastmod><loc><![CDATA[{SITE}/x&y&amp;z]]></loc></url>
      <url><loc>{SITE}/caf&#233;</loc><lastmod>gestern</lastmod></url>
    </urlset>""".encode()
    web = Web({"/sitemap.xml": body})
    assert web.walk() == [
        SitemapEntry(f"{SITE}/a?b=1&c=2", datetime.fromisoformat("2026-03-01T12:30:00+02:00")),
        SitemapEntry(f"{SITE}/x&y&z", datetime(2026, 3, 1, tzinfo=UTC)),
        SitemapEntry(f"{SITE}/caf%C3%A9"),
    ]
    (note,) = web.notes
    assert (note.code, note.url) == ("SITEMAP_ENTRIES", MAP)
    assert "1 x date that cannot be read" in note.message
    assert "gestern" in note.message


@pytest.mark.parametrize(
    "body",
    [
        urlset(f"{SITE}/a", f"{SITE}/b"),
        f"<urlset><url><loc>{SITE}/a</loc></url><url><loc>{SITE}/b</loc></url></urlset>".encode(),
        f"<s:urlset xmlns:s='x'><s:url><s:loc>{SITE}/a</s:loc></s:url><s:url><s:loc>{SITE}/b</s:loc></s:url></s:urlset>"
        "".encode(),
        f"<URLSET><URL><LOC>{SITE}/a</LOC></URL><Url><Loc>{SITE}/b</Loc></Url></URLSET>".encode(),
        b"\xef\xbb\xbf" + urlset(f"{SITE}/a", f"{SITE}/b"),
        b"\n\n  " + urlset(f"{SITE}/a", f"{SITE}/b"),
        urlset(f"{SITE}/a", f"{SITE}/b").decode().replace("UTF-8", "UTF-16").encode("utf-16"),
        urlset(f"{SITE}/a", f"{SITE}/b").decode().replace("UTF-8", "no-such-thing").encode(),
        f"<!DOCTYPE urlset>{urlset(f'{SITE}/a', f'{SITE}/b').decode().partition('?>')[2]}".encode(),
        gzip.compress(urlset(f"{SITE}/a", f"{SITE}/b"), mtime=0),
        gzip.compress(gzip.compress(urlset(f"{SITE}/a", f"{SITE}/b")), mtime=0),
        gzip.compress(urlset(f"{SITE}/a", f"{SITE}/b")[:100], mtime=0)
        + gzip.compress(urlset(f"{SITE}/a", f"{SITE}/b")[100:], mtime=0),
        gzip.compress(f"{SITE}/a\n{SITE}/b".encode(), mtime=0),
        f"{SITE}/a\r\n\r\n  {SITE}/b  ".encode(),
        b"\xef\xbb\xbf" + f"{SITE}/a\n{SITE}/b\n".encode(),
        f"{SITE}/a\r{SITE}/b".encode("utf-16"),
        f"<rss><channel><link>{SITE}/</link><item><link>{SITE}/a</link></item><item><link>{SITE}/b</link></item>"
        "</channel></rss>".encode(),
        f"<rdf:RDF><channel><link>{SITE}/</link></channel><item><link>{SITE}/a</link></item><item>"
        f"<link>{SITE}/b</link></item></rdf:RDF>".encode(),
        f"<feed><link href='{SITE}/'/><entry><link rel='edit' href='{SITE}/e'/><link href='{SITE}/a'/></entry>"
        f"<entry><link rel='alternate' href='{SITE}/b'/><source><link href='{SITE}/s'/></source></entry>"
        "</feed>".encode(),
        f"<urlset><url><loc>{SITE}/a</loc><image:image><image:loc>{SITE}/i.png</image:loc></image:image>"
        f"<video:video><video:content_loc>{SITE}/v</video:content_loc></video:video></url>"
        f"<url><xhtml:link rel='alternate' hreflang='de' href='{SITE}/de'/><loc>{SITE}/b</loc></url></urlset>".encode(),
    ],
    ids=range(20),
)
def test_every_way_to_list_two_pages(body: bytes) -> None:
    assert read(body) == (["/a", "/b"], [])


@pytest.mark.parametrize(
    ("declared", "charset", "codec"),
    [("iso-8859-1", None, "latin-1"), ("windows-1251", None, "cp1251"), ("utf-8", "windows-1251", "cp1251")],
)
def test_a_map_in_another_charset(declared: str, charset: str | None, codec: str) -> None:
    letter = "é" if codec == "latin-1" else "д"
    body = f"<?xml version='1.0' encoding='{declared}'?><urlset><url><loc>{SITE}/{letter}</loc></url></urlset>"
    web = Web({"/sitemap.xml": page(MAP, body.encode(codec), charset=charset)})
    assert urls(web.walk()) == ["/%C3%A9" if letter == "é" else "/%D0%B4"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-03", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-05", datetime(2026, 3, 5, tzinfo=UTC)),
        ("2026-03-05T01:02:03Z", datetime(2026, 3, 5, 1, 2, 3, tzinfo=UTC)),
        ("2026-03-05T01:02:03.45+00:00", datetime(2026, 3, 5, 1, 2, 3, 450_000, tzinfo=UTC)),
        ("Thu, 05 Mar 2026 01:02:03 GMT", datetime(2026, 3, 5, 1, 2, 3, tzinfo=UTC)),
        ("0000-00-00", None),
        ("05.03.2026", None),
        ("9" * 10_000, None),
        ("", None),
    ],
)
def test_dates(text: str, moment: datetime | None) -> None:
    assert read_date(text) == moment


# ---- broken


def test_a_bare_ampersand_and_unknown_entities_break_nothing() -> None:
    found, notes = read(urlset(f"{SITE}/a?b=1&c=2", f"{SITE}/d?x=&nbsp;&copy", f"{SITE}/e"))
    assert (found, notes) == (["/a?b=1&c=2", "/d?x=&nbsp;&copy", "/e"], [])


@pytest.mark.parametrize("size", range(1, 14))
def test_a_reference_may_lie_across_two_pieces(size: int) -> None:
    from fetchly.crawler.sitemap_file import _XmlReader

    reader = _XmlReader()
    text = urlset(f"{SITE}/?a=1&amp;b=2&c&#x41;&gt;").decode()
    found = [listed for start in range(0, len(text), size) for listed in reader.read(text[start : start + size])]
    assert [listed.location for listed in found] == [f"{SITE}/?a=1&b=2&cA>"]


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("<url><loc>http://example.org/c", "no element found"),
        ("<url><loc>http://example.org/c</url></loc>", "mismatched tag"),
        ("<url <loc>", "not well-formed"),
        ("</urlset><urlset>", "junk after document element"),
    ],
)
def test_broken_xml_is_read_as_far_as_it_goes(tail: str, words: str) -> None:
    found, notes = read(urlset(f"{SITE}/a", f"{SITE}/b").replace(b"</urlset>", b"") + tail.encode())
    assert found == ["/a", "/b"]
    assert [note.code for note in notes] == ["SITEMAP_BROKEN"]
    assert words in notes[0].message


def test_characters_that_xml_forbids_are_left_out() -> None:
    assert read(urlset(f"{SITE}/a\x00\x0b", f"{SITE}/b\ufffe")) == (["/a", "/b"], [])


def test_a_packed_map_that_breaks_off_is_read_as_far_as_it_goes() -> None:
    body = urlset(*(f"{SITE}/{number}-{hash(number * 7919) % 10**9}" for number in range(5000)))
    found, notes = read(gzip.compress(body, mtime=0)[:-2000])
    assert 100 < len(found) < 5000
    assert [note.code for note in notes] == ["SITEMAP_BROKEN"]
    assert "ends early" in notes[0].message


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html><title>Not found</title><body><a href='http://example.org/a'>x</a>",
        b"<html><body>",
        b"<?xml version='1.0'?><order><loc>http://example.org/a</loc></order>",
        b"<loc>http://example.org/a</loc>",
        b'{"urls": ["http://example.org/a"]}',
        b"nothing here\n" * 200 + b"http://example.org/a",
        b"\x89PNG\r\n\x1a\n\0\0\0",
        b"%PDF-1.7",
        b"",
        b"   ",
    ],
)
def test_what_is_no_sitemap_is_said_to_be_none(body: bytes) -> None:
    found, notes = read(body)
    assert found == []
    assert "SITEMAP_NOT_ONE" in [note.code for note in notes]


def test_entries_that_lead_nowhere_are_counted() -> None:
    bad = ("", "  ", "javascript:x", "mailto:a@b", "http://", "http://user:pw@example.org/", "//[", "http://a b/")
    found, notes = read(urlset(f"{SITE}/a", *bad, f"{SITE}/b"))
    assert found == ["/a", "/b"]
    assert [note.code for note in notes] == ["SITEMAP_ENTRIES"] * 2
    assert "left out: 2 x entry without an address" in notes[0].message
    assert "left out: 6 x address that is no URL to be fetched, the first 'javascript:x'" in notes[1].message


def test_an_address_without_measure_is_none() -> None:
    found, notes = read(urlset(f"{SITE}/" + "a" * 10_000, f"{SITE}/b"))
    assert found == ["/b"]
    assert "1 x text that is no address, the first 'http://example.org/aaa" in notes[0].message


def test_lines_of_a_text_that_are_no_address_are_counted() -> None:
    found, notes = read(f"# our pages\n{SITE}/a\n/b\nftp://h/\n".encode(), media_type="text/plain")
    assert found == ["/a"]
    assert "3 x text that is no address" in notes[0].message


def test_a_relative_address_is_that_of_the_file_that_was_read() -> None:
    moved = page(f"{SITE}/maps/main.xml#top", urlset("/a", "b", "../c", "//other.example/d", "?e"))
    web = Web({"/sitemap.xml": moved})
    assert urls(web.walk()) == ["/a", "/maps/b", "/c", "http://other.example/d", "/maps/main.xml?e"]


# ---- whose pages


OTHERS = (f"{SITE}/a", "https://example.org/b", "http://www.example.org/c", "http://cdn.example/d", f"{SITE}:8080/e")


def test_every_host_is_taken_where_a_scope_decides() -> None:
    assert len(Web({"/sitemap.xml": urlset(*OTHERS)}).walk()) == 5


def test_the_rule_of_the_host() -> None:
    web = Web({"/sitemap.xml": urlset(*OTHERS)})
    assert [entry.url for entry in web.walk(hosts=())] == list(OTHERS[:2])
    assert "left out: 3 x address of another host, the first 'http://www.example.org/c'" in web.notes[0].message
    web = Web({"/sitemap.xml": urlset(*OTHERS)})
    assert [entry.url for entry in web.walk(hosts=("cdn.example",))] == [*OTHERS[:2], OTHERS[3]]


def test_the_rule_of_the_host_is_that_of_the_file_named_and_not_of_where_it_leads() -> None:
    moved = page("http://cdn.example/sitemap.xml", urlset(f"{SITE}/a", "http://cdn.example/b"))
    assert urls(Web({"/sitemap.xml": moved}).walk(hosts=())) == ["/a"]


def test_an_index_of_another_host_is_not_fetched_under_the_rule() -> None:
    web = Web({"/sitemap.xml": index("http://10.0.0.1/s.xml", f"{SITE}/s.xml"), "/s.xml": urlset(f"{SITE}/a")})
    assert urls(web.walk(hosts=())) == ["/a"]
    assert web.asked == [MAP, f"{SITE}/s.xml"]


# ---- indexes


def test_an_index_of_indexes() -> None:
    web = Web(
        {
            "/sitemap.xml": index("/one.xml", "/two.xml.gz"),
            "/one.xml": index("/three.xml"),
            "/two.xml.gz": gzip.compress(urlset("/b"), mtime=0),
            "/three.xml": urlset("/a"),
        }
    )
    assert urls(web.walk()) == ["/b", "/a"]
    assert web.notes == []


def test_indexes_in_a_circle_are_read_once() -> None:
    web = Web({"/sitemap.xml": index("/sitemap.xml#x", "/b.xml"), "/b.xml": index("/sitemap.xml", "/b.xml")})
    assert web.walk() == []
    assert web.asked == [MAP, f"{SITE}/b.xml"]
    assert web.codes == ["SITEMAP_SEEN", "SITEMAP_SEEN"]
    assert "left out: 2 x file that was listed before" in web.notes[1].message


def test_indexes_without_an_end_are_not_followed_for_ever() -> None:
    web = Web({})
    web.fetch = lambda url: (web.asked.append(url), page(url, index(f"{url}x", f"{url}y")))[1]  # type: ignore[method-assign]
    assert web.walk(limits=SitemapLimits(max_depth=3)) == []
    assert len(web.asked) == 1 + 2 + 4 + 8
    assert web.codes == ["SITEMAP_TOO_DEEP"] * 8
    web.asked.clear()
    web.notes.clear()
    web.walk(limits=SitemapLimits(max_depth=100, max_files=20))
    assert len(web.asked) == 20
    assert set(web.codes) == {"SITEMAP_TOO_MANY_FILES"}


def test_depth_nought_reads_the_named_file_alone() -> None:
    web = Web({"/sitemap.xml": index("/b.xml")})
    web.walk(limits=SitemapLimits(max_depth=0))
    assert web.asked == [MAP]


def test_a_file_that_is_not_there_is_told_and_passed() -> None:
    refused = PolicyRefused("a private address", url="u", code="ADDRESS_REFUSED")
    web = Web({"/sitemap.xml": index("/gone.xml", "/in.xml", "/b.xml"), "/in.xml": refused, "/b.xml": urlset("/a")})
    assert urls(web.walk()) == ["/a"]
    assert [(note.url, note.code) for note in web.notes] == [
        (f"{SITE}/gone.xml", "HTTP_STATUS"),
        (f"{SITE}/in.xml", "ADDRESS_REFUSED"),
    ]


def test_a_name_that_is_no_url_is_told() -> None:
    web = Web({})
    assert web.walk("file:///etc/passwd") == []
    assert web.codes == ["SCHEME_REFUSED"]


def test_no_more_addresses_than_asked_for() -> None:
    web = Web({"/sitemap.xml": index("/a.xml", "/b.xml"), "/a.xml": urlset("/1", "/2"), "/b.xml": urlset("/3", "/4")})
    assert urls(web.walk(limits=SitemapLimits(max_urls=3))) == ["/1", "/2", "/3"]
    assert web.codes == ["SITEMAP_TOO_MANY_URLS"]
    web = Web({"/sitemap.xml": urlset("/1", "/2")})
    assert len(web.walk(limits=SitemapLimits(max_urls=2))) == 2
    assert web.codes == []


def test_files_are_fetched_when_they_are_wanted() -> None:
    web = Web({"/sitemap.xml": index("/a.xml", "/b.xml"), "/a.xml": urlset("/1"), "/b.xml": urlset("/2")})
    entries = sitemap_urls(MAP, web.fetch, report=web.notes.append)
    assert next(entries).url == f"{SITE}/1"
    assert web.asked == [MAP, f"{SITE}/a.xml"]


# ---- too large


def test_a_file_over_the_bound_is_read_up_to_it() -> None:
    body = urlset(*(f"/{number:06}" for number in range(10_000)))
    web = Web({"/sitemap.xml": body})
    found = web.walk(limits=SitemapLimits(max_bytes=100_000))
    assert 1000 < len(found) < 9_000
    assert web.codes == ["SITEMAP_TOO_LARGE"]


def test_a_file_that_was_cut_on_its_way_says_so() -> None:
    web = Web({"/sitemap.xml": page(MAP, urlset("/a", "/b")[:-20], warnings=("only the first 90 bytes were read",))})
    assert urls(web.walk()) == ["/a"]
    assert [(note.code, note.message) for note in web.notes] == [
        ("SITEMAP_TOO_LARGE", "only the first 90 bytes were read")
    ]
