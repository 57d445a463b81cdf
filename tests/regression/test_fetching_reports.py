"""Public bug reports about fetching: what must hold here."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import brotli
import pytest
from backports import zstd

from fetchly.crawler.answers import StatusError
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.urls import endpoint_of, parse_url
from fetchly.document.reader import read_document
from fetchly.errors import FetchError, PolicyRefused
from tests.support.site import Site, Visit, answer, redirect

PAGE = "<html><body><h1>Honig für zwölf €</h1></body></html>".encode()


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=5)) as open_fetcher:
        yield open_fetcher


def streamed(data: bytes) -> bytes:
    """A zstd frame that does not say how long its content is."""
    packer = zstd.ZstdCompressor()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("zstd", streamed(PAGE)),
        ("zstd", streamed(PAGE[:20]) + streamed(PAGE[20:])),
        ("br", brotli.compress(PAGE)),
        ("deflate", zlib.compress(PAGE) + b"trailing bytes"),
    ],
)
def test_a_compressed_page_is_never_passed_on_compressed(
    site: Site, fetcher: HttpFetcher, name: str, packed: bytes
) -> None:
    # trafilatura#912, #781; scrapy gh:7841 (trailing bytes)
    site.routes["/"] = answer(packed, headers=[("Content-Encoding", name)])
    assert fetcher.fetch(site.url()).body == PAGE


def test_every_advertised_encoding_is_decoded(site: Site, fetcher: HttpFetcher) -> None:
    # user-scanner PR#338
    packers = {"zstd": streamed, "br": brotli.compress, "gzip": None, "deflate": zlib.compress}

    def serve(visit: Visit) -> None:
        offered = [name.strip() for name in visit.headers["accept-encoding"].split(",")]
        assert set(offered) == set(packers)
        name = visit.path.strip("/")
        packer = packers[name]
        if packer is None:
            stream = zlib.compressobj(wbits=31)
            packed = stream.compress(PAGE) + stream.flush()
        else:
            packed = packer(PAGE)
        visit.send(answer(packed, headers=[("Content-Encoding", name)]))

    for name in packers:
        site.routes[f"/{name}"] = serve
        assert fetcher.fetch(site.url(f"/{name}")).body == PAGE


def test_a_meta_refresh_is_relative_to_the_base(site: Site, fetcher: HttpFetcher) -> None:
    # scrapy gh:7042
    site.routes |= {
        "/a": answer(b'<base href=/x/><meta http-equiv=refresh content="0;url=y">'),
        "/x/y": answer(PAGE),
    }
    page = fetcher.fetch(site.url("/a"))
    assert (page.url, page.redirects, page.body) == (site.url("/x/y"), (site.url("/a"),), PAGE)


def test_a_redirect_to_an_error_page_is_that_error(site: Site, fetcher: HttpFetcher) -> None:
    # crawl4ai#1434, #660
    site.routes |= {"/r": redirect("/s", status="308 Moved"), "/s": redirect("/fail"), "/fail": answer(status="429 No")}
    with pytest.raises(StatusError) as failed:
        fetcher.fetch(site.url("/r"))
    assert (failed.value.status, failed.value.url) == (429, site.url("/fail"))
    assert failed.value.redirects == (site.url("/r"), site.url("/s"))
    assert site.url("/r") in failed.value.line()


def test_a_page_reports_the_status_and_address_of_the_last_hop(site: Site, fetcher: HttpFetcher) -> None:
    # crawl4ai#1434
    site.routes |= {"/r": redirect("/ok", status="301 Moved"), "/ok": answer(PAGE, status="203 Other")}
    page = fetcher.fetch(site.url("/r"))
    assert (page.requested, page.url, page.status) == (site.url("/r"), site.url("/ok"), 203)
    assert page.redirects == (site.url("/r"),)


def test_an_empty_answer_is_a_page_without_content(site: Site, fetcher: HttpFetcher) -> None:
    # firecrawl#2316: not a failure of the fetch; what to make of it is the reader's to say
    site.routes["/"] = answer(b"")
    page = fetcher.fetch(site.url())
    assert (page.status, page.body) == (200, b"")
    with pytest.raises(Exception, match="empty body"):
        read_document(page)


@pytest.mark.parametrize(
    ("value", "wait"), [("2", 2.0), ("-2", None), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None)]
)
def test_the_wait_that_a_server_asks_for_is_passed_on(
    site: Site, fetcher: HttpFetcher, value: str, wait: float | None
) -> None:
    # crawl4ai#1095, crawlee-python PR#1995
    site.routes["/"] = answer(status="429 Slow down", headers=[("Retry-After", value)])
    with pytest.raises(StatusError) as failed:
        fetcher.fetch(site.url())
    assert (failed.value.retry_after_s, failed.value.retryable) == (wait, True)


def test_an_idn_host_keeps_its_port() -> None:
    # w3lib#171
    endpoint = endpoint_of(parse_url("http://新华网.中国:8080/"))
    assert (endpoint.host, endpoint.port) == ("xn--xkrr14bows.xn--fiqs8s", 8080)


def test_a_path_is_sent_in_utf8_and_an_encoded_query_as_it_is(site: Site, fetcher: HttpFetcher) -> None:
    # yarl#19: what a page has encoded in its own encoding is not encoded again
    site.routes["/%D0%B2%D0%B0%D1%81%D1%8F"] = answer(PAGE)
    fetcher.fetch(site.url("/вася?q=%E2%E0%F1%FF"))
    assert site.visits[0].path == "/%D0%B2%D0%B0%D1%81%D1%8F?q=%E2%E0%F1%FF"


@pytest.mark.parametrize("host", [r"127.0.0.1:6666\@1.1.1.1", "1.1.1.1\t@127.0.0.1", "1.1.1.1@127.0.0.1"])
def test_a_url_with_two_hosts_reaches_none(site: Site, fetcher: HttpFetcher, host: str) -> None:
    # PraisonAI#1578
    with pytest.raises(FetchError) as failed:
        fetcher.fetch(f"http://{host}:{site.port}/")
    assert failed.value.code in ("BAD_URL", "USERINFO_REFUSED")
    assert site.connections == 0


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:text/html,x"])
def test_a_redirect_leaves_http_for_nothing(site: Site, fetcher: HttpFetcher, location: str) -> None:
    # scrapy GHSA-23j4-mw76-5v7h
    site.routes["/"] = redirect(location)
    with pytest.raises(PolicyRefused):
        fetcher.fetch(site.url())


def test_a_brotli_bomb_is_cut_off(site: Site) -> None:
    # scrapy CVE-2025-6176
    bomb = brotli.compress(b"\0" * 40_000_000, quality=5)
    assert len(bomb) < 1000
    site.routes["/"] = answer(bomb, headers=[("Content-Encoding", "br")])
    with HttpFetcher(FetchPolicy(allow_private=True)) as fetcher, pytest.raises(FetchError) as failed:
        fetcher.fetch(site.url())
    assert failed.value.code == "BODY_TOO_LARGE"
