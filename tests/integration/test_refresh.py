"""Pages that lead on by themselves, on a site on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.egress import EgressGate
from fetchly.errors import FetchError
from tests.support.site import Site, Visit, answer, redirect

PAGE = b"<html><body><h1>Honey</h1></body></html>"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=5, max_redirects=5)) as open_fetcher:
        yield open_fetcher


def refresh(url: str, delay: int = 0, base: str = "") -> bytes:
    return f"<html><head>{base}<meta http-equiv=refresh content='{delay};url={url}'></head>moved</html>".encode()


def failure(fetcher: HttpFetcher, url: str) -> FetchError:
    with pytest.raises(FetchError) as failed:
        fetcher.fetch(url)
    return failed.value


def test_a_refresh_is_a_redirect(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {
        "/a": answer(refresh("b/c", 3)),
        "/b/c": redirect("d"),
        "/b/d": answer(refresh("/e"), content_type="application/xhtml+xml"),
        "/e": answer(refresh("/f"), content_type=None),
        "/f": answer(PAGE),
    }
    page = fetcher.fetch(site.url("/a"))
    assert (page.body, page.url, page.status) == (PAGE, site.url("/f"), 200)
    assert page.redirects == tuple(site.url(path) for path in ("/a", "/b/c", "/b/d", "/e"))


def test_a_refresh_header_is_one_too(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {"/a": answer(b"moved", headers=[("Refresh", "0; url=/b")]), "/b": answer(PAGE)}
    assert fetcher.fetch(site.url("/a")).url == site.url("/b")


def test_a_base_of_no_use_is_ignored(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {"/a": answer(refresh("b", base="<base href='data:x'>")), "/b": answer(PAGE)}
    assert fetcher.fetch(site.url("/a")).url == site.url("/b")


def test_a_page_that_is_there_to_be_read_stays(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {
        "/slow": answer(refresh("/other", 60)),
        "/fresh": answer(refresh("/fresh", 5)),
        "/here": answer(refresh("/here#top")),
        "/app": answer(refresh("shop://item/1")),
        "/mail": answer(refresh("mailto:a@b.c")),
        "/nonsense": answer(refresh("http://[")),
        "/text": answer(refresh("/other"), content_type="text/plain"),
        "/json": answer(refresh("/other"), content_type="application/json"),
    }
    for path in list(site.routes):
        page = fetcher.fetch(site.url(path))
        assert page.url == site.url(path)
        assert page.redirects == ()
        assert b"moved" in page.body


def test_pages_shown_in_turn_end_with_the_second(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {"/a": answer(refresh("/b", 5)), "/b": answer(refresh("/a", 5))}
    page = fetcher.fetch(site.url("/a"))
    assert (page.url, page.redirects) == (site.url("/b"), (site.url("/a"),))


def test_circles_and_chains_end(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {"/a": answer(refresh("/b")), "/b": redirect("/a"), "/self": answer(refresh("/self"))}
    assert failure(fetcher, site.url("/a")).code == "REDIRECT_LOOP"
    assert failure(fetcher, site.url("/self")).code == "REDIRECT_LOOP"
    site.routes["/n"] = lambda visit: visit.send(answer(refresh(f"/n?{len(site.visits)}")))
    before = len(site.visits)
    assert failure(fetcher, site.url("/n")).code == "TOO_MANY_REDIRECTS"
    assert len(site.visits) - before == 6


def test_a_cookie_is_carried_along(site: Site, fetcher: HttpFetcher) -> None:
    def gate(visit: Visit) -> None:
        seen = "ok=1" in visit.headers.get("cookie", "")
        visit.send(answer(PAGE) if seen else answer(refresh("/"), headers=[("Set-Cookie", "ok=1; Path=/")]))

    site.routes["/"] = gate
    assert fetcher.fetch(site.url()).body == PAGE


def test_a_refresh_into_the_private_network_is_refused(site: Site) -> None:
    """The gate sees the hop before anything is sent."""
    seen: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        seen.append(host)
        return ["10.0.0.1"] if host == "inside.example" else ["127.0.0.1"]

    site.routes["/"] = answer(refresh("http://169.254.169.254/latest/"))
    with HttpFetcher(gate=EgressGate(allow_private=True, resolver=resolver)) as strict:
        error = failure(strict, site.url(host="public.example"))
    assert error.code == "ADDRESS_REFUSED"
    assert error.url == "http://169.254.169.254/latest/"
    assert seen == ["public.example"]
