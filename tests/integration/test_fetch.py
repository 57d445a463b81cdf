"""The fetcher against a hostile site on loopback."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Iterator

import brotli
import pytest
from backports import zstd

from fetchly.crawler.answers import StatusError
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.inflate import ACCEPT_ENCODING
from fetchly.document.media import NotHtml, kind_of
from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError, FetchError, PolicyRefused
from fetchly.goods import Page
from tests.support.site import Site, Visit, answer, redirect

PAGE = b"<html><body><h1>Honey</h1></body></html>"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=5, max_bytes=1_000_000)) as open_fetcher:
        yield open_fetcher


def failure(fetcher: HttpFetcher, url: str, timeout_s: float | None = None) -> FetchError:
    with pytest.raises(FetchError) as failed:
        fetcher.fetch(url, timeout_s=timeout_s)
    assert "\n" not in failed.value.line()
    return failed.value


def test_a_page_arrives_unchanged(site: Site, fetcher: HttpFetcher) -> None:
    site.routes["/p"] = answer(PAGE, content_type='Text/HTML; Charset="ISO-8859-1"', headers=[("X-A", "1")])
    page = fetcher.fetch(site.url("/p?q=1#f"))
    assert page.body == PAGE
    assert (page.status, page.media_type, page.charset) == (200, "text/html", "iso-8859-1")
    assert ("x-a", "1") in page.headers
    assert page.url == site.url("/p?q=1#f")
    assert page.redirects == ()
    assert site.visits[0].path == "/p?q=1"
    assert site.visits[0].headers["accept-encoding"] == ACCEPT_ENCODING


def test_the_environment_names_no_proxy(site: Site, fetcher: HttpFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    site.routes["/"] = answer(PAGE)
    with HttpFetcher(FetchPolicy(allow_private=True)) as fresh:
        assert fresh.fetch(site.url()).body == PAGE


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_redirects_are_followed_and_recorded(site: Site, fetcher: HttpFetcher, status: str) -> None:
    site.routes |= {"/a": redirect("/b", status=status), "/b": redirect("c?x=1"), "/c": answer(PAGE)}
    page = fetcher.fetch(site.url("/a"))
    assert page.requested == site.url("/a")
    assert page.url == site.url("/c?x=1")
    assert page.redirects == (site.url("/a"), site.url("/b"))


def test_the_status_is_that_of_the_last_hop(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {
        "/r": redirect("/fail"),
        "/fail": answer(b"", status="429 Too Many", headers=[("Retry-After", "7")]),
    }
    error = failure(fetcher, site.url("/r"))
    assert isinstance(error, StatusError)
    assert (error.status, error.url, error.retry_after_s, error.retryable) == (429, site.url("/fail"), 7.0, True)
    assert error.redirects == (site.url("/r"),)
    assert "wait 7 s" in error.line()


@pytest.mark.parametrize(
    ("status", "retryable"),
    [("404 Not Found", False), ("403 Forbidden", False), ("500 Oops", True), ("503 Busy", True), ("304 Same", False)],
)
def test_error_statuses(site: Site, fetcher: HttpFetcher, status: str, retryable: bool) -> None:
    site.routes["/"] = answer(b"<p>sorry", status=status)
    error = failure(fetcher, site.url())
    assert (error.status, error.retryable, error.code) == (int(status[:3]), retryable, "HTTP_STATUS")


def test_a_redirect_without_a_target_is_an_error(site: Site, fetcher: HttpFetcher) -> None:
    site.routes["/"] = answer(status="302 Found")
    assert failure(fetcher, site.url()).status == 302


def test_circles_and_chains_end(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {"/a": redirect("/b"), "/b": redirect("/a")}
    assert failure(fetcher, site.url("/a")).code == "REDIRECT_LOOP"
    site.routes["/n"] = lambda visit: visit.send(redirect(f"/n?{len(site.visits)}"))
    before = len(site.visits)
    assert failure(fetcher, site.url("/n")).code == "TOO_MANY_REDIRECTS"
    assert len(site.visits) - before == 11


def test_a_cookie_lives_through_the_redirects_of_one_fetch(site: Site, fetcher: HttpFetcher) -> None:
    def gate(visit: Visit) -> None:
        seen = "ok=1" in visit.headers.get("cookie", "")
        visit.send(answer(PAGE) if seen else redirect("/", headers=[("Set-Cookie", "ok=1; Path=/")]))

    site.routes["/"] = gate
    assert fetcher.fetch(site.url()).body == PAGE
    assert fetcher.fetch(site.url()).redirects == (site.url(),)  # the cookie was forgotten


@pytest.mark.parametrize("location", ["file:///etc/passwd", "data:text/html,x", "gopher://127.0.0.1/", "ftp://h/x"])
def test_redirects_to_other_schemes_are_refused(site: Site, fetcher: HttpFetcher, location: str) -> None:
    site.routes["/"] = redirect(location)
    error = failure(fetcher, site.url())
    assert isinstance(error, PolicyRefused)
    assert error.code == "SCHEME_REFUSED"


# ---- private addresses (every spelling of them: test_ssrf.py)


def test_the_refusal_says_how_to_allow_it(site: Site) -> None:
    with HttpFetcher() as strict:
        error = failure(strict, site.url())
    assert (error.code, error.exit_code) == ("ADDRESS_REFUSED", 5)
    assert "--allow-private" in error.line()


def test_a_name_with_a_private_answer_is_refused(site: Site) -> None:
    with HttpFetcher(gate=EgressGate(resolver=lambda host, port: ["127.0.0.1"])) as strict:
        error = failure(strict, site.url(host="public.example"))
    assert error.code == "ADDRESS_REFUSED"
    assert site.connections == 0


def test_a_redirect_into_the_private_network_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public site sends the client to loopback: the first hop is served, the second is never dialled."""
    with Site(routes={"/": answer(b"secret")}) as inner:
        site.routes["/"] = redirect(inner.url())
        dial = socket.create_connection
        monkeypatch.setattr(
            socket,
            "create_connection",
            lambda address, timeout: dial(("127.0.0.1" if address[0] == "93.184.215.14" else address[0], address[1])),
        )
        gate = EgressGate(resolver=lambda host, port: ["93.184.215.14"] if host == "public.example" else [host])
        with HttpFetcher(gate=gate) as strict:
            error = failure(strict, site.url(host="public.example"))
        assert error.code == "ADDRESS_REFUSED"
        assert site.connections == 1
        assert inner.connections == 0


def test_link_local_stays_closed_even_when_private_is_allowed(fetcher: HttpFetcher) -> None:
    error = failure(fetcher, "http://169.254.169.254/latest/meta-data/")
    assert error.code == "ADDRESS_REFUSED"
    assert error.hint is None


# ---- bodies


def test_bombs_are_bounded(site: Site, fetcher: HttpFetcher) -> None:
    bomb = gzip.compress(b"A" * 50_000_000, mtime=0)
    assert len(bomb) * 900 < 50_000_000
    site.routes |= {
        "/gzip": answer(bomb, headers=[("Content-Encoding", "gzip")]),
        "/twice": answer(gzip.compress(bomb, mtime=0), headers=[("Content-Encoding", "gzip, gzip")]),
        "/br": answer(brotli.compress(b"A" * 50_000_000, quality=5), headers=[("Content-Encoding", "br")]),
        "/zstd": answer(zstd.compress(b"A" * 5_000_000) * 10, headers=[("Content-Encoding", "zstd")]),
    }
    for path in site.routes:
        start = time.monotonic()
        assert failure(fetcher, site.url(path)).code == "BODY_TOO_LARGE"
        assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("name", "nothing"),
    [("gzip", gzip.compress(b"", mtime=0)), ("zstd", zstd.compress(b"")), ("zstd", b"\x50\x2a\x4d\x18\x04\0\0\0skip")],
)
def test_members_that_hold_nothing_are_bounded(site: Site, fetcher: HttpFetcher, name: str, nothing: bytes) -> None:
    def empty_members(visit: Visit) -> None:
        visit.send(f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\n\r\n".encode())
        visit.endless(nothing * 1000)

    site.routes["/"] = empty_members
    error = failure(fetcher, site.url())
    assert error.code == "BODY_BROKEN"
    assert "more than 10,000 pieces" in error.line()


def test_an_endless_body_ends_at_the_limit(site: Site, fetcher: HttpFetcher) -> None:
    def endless(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        visit.endless(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    site.routes["/"] = endless
    assert failure(fetcher, site.url()).code == "BODY_TOO_LARGE"


def test_a_body_of_exactly_the_limit_is_whole(site: Site, fetcher: HttpFetcher) -> None:
    site.routes |= {"/at": answer(b"x" * 1_000_000), "/over": answer(b"x" * 1_000_001)}
    assert len(fetcher.fetch(site.url("/at")).body) == 1_000_000
    assert failure(fetcher, site.url("/over")).code == "BODY_TOO_LARGE"


def test_a_body_may_be_cut_instead(site: Site, fetcher: HttpFetcher) -> None:
    def endless(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
        visit.endless(b"line\n" * 10_000)

    site.routes |= {"/": endless, "/at": answer(b"x" * 70_000)}
    site.routes["/zip"] = answer(gzip.compress(b"y" * 9_000_000, mtime=0), headers=[("Content-Encoding", "gzip")])
    page = fetcher.fetch(site.url(), cut_at=70_000)
    assert (len(page.body), page.warnings) == (70_000, ("only the first 70,000 bytes were read",))
    assert fetcher.fetch(site.url("/at"), cut_at=70_000).warnings == ()
    assert fetcher.fetch(site.url("/zip"), cut_at=70_000).body == b"y" * 70_000
    # Also beyond the policy's own bound, which is for pages.
    assert len(fetcher.fetch(site.url("/zip"), cut_at=5_000_000).body) == 5_000_000


def test_a_cut_does_not_let_members_that_hold_nothing_through(site: Site, fetcher: HttpFetcher) -> None:
    def empty_members(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        visit.endless(gzip.compress(b"", mtime=0) * 1000)

    site.routes["/"] = empty_members
    with pytest.raises(FetchError) as failed:
        fetcher.fetch(site.url(), cut_at=1000)
    assert failed.value.code == "BODY_BROKEN"


def test_a_look_at_the_beginning_may_spare_the_rest(site: Site, fetcher: HttpFetcher) -> None:
    sent: list[int] = []

    def film(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 900000000\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(5000):
                visit.send(b"\0\0\0 ftypmp42" + b"\0" * 99_988)
                sent.append(100_000)

    site.routes |= {"/film": film, "/long": answer(PAGE + b"x" * 10_000), "/short": answer(b"%PDF-1.7")}
    with pytest.raises(NotHtml) as failed:
        fetcher.fetch(site.url("/film"), peek=kind_of)
    assert failed.value.family == "media"
    looked: list[Page] = []
    assert len(fetcher.fetch(site.url("/long"), peek=looked.append).body) == len(PAGE) + 10_000
    assert [(page.media_type, page.url) for page in looked] == [("text/html", site.url("/long"))]
    assert looked[0].body.startswith(PAGE)
    assert fetcher.fetch(site.url("/short"), peek=kind_of).body == b"%PDF-1.7"  # it is here already
    assert sum(sent) < 100_000_000


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "PROTOCOL"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "PROTOCOL"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc", "PROTOCOL"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc", "PROTOCOL"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", "PROTOCOL"),
        (b"\x16\x03\x01 this is not HTTP\r\n\r\n", "PROTOCOL"),
        (b"", "PROTOCOL"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\n\r\n\x1f\x9dabc", "ENCODING_UNKNOWN"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nnot brotli at all", "BODY_BROKEN"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\nnot zstd at all", "BODY_BROKEN"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + brotli.compress(PAGE)[:-3], "BODY_BROKEN"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\n" + zstd.compress(PAGE)[:-3], "BODY_BROKEN"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all", "BODY_BROKEN"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(PAGE, mtime=0)[:-6], "BODY_BROKEN"),
    ],
)
def test_broken_answers_are_errors_never_half_pages(site: Site, fetcher: HttpFetcher, raw: bytes, code: str) -> None:
    site.routes["/"] = raw or (lambda visit: None)
    assert failure(fetcher, site.url()).code == code


def test_bytes_after_the_length_are_not_part_of_the_page(site: Site, fetcher: HttpFetcher) -> None:
    site.routes["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\nevil"
    for _ in range(20):  # a server that closes after its answer is no race to be lost
        assert fetcher.fetch(site.url()).body == b"abc"
    assert site.connections == 20


# ---- time


@pytest.mark.parametrize("part", ["headers", "body", "silence", "continue"])
def test_a_drip_ends_at_the_deadline(site: Site, fetcher: HttpFetcher, part: str) -> None:
    def drip(visit: Visit) -> None:
        if part == "silence":
            visit.stopped.wait(5)
        elif part == "continue":
            visit.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, pause_s=0.05, size=25)
        elif part == "headers":
            visit.drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000, pause_s=0.05)
        else:
            visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            visit.drip(b"a" * 1000, pause_s=0.05)

    site.routes["/"] = drip
    start = time.monotonic()
    error = failure(fetcher, site.url(), timeout_s=0.4)
    assert (error.code, error.retryable) == ("TIMEOUT", True)
    assert 0.35 < time.monotonic() - start < 1.0


def test_the_deadline_covers_all_hops(site: Site, fetcher: HttpFetcher) -> None:
    def slow_hop(visit: Visit) -> None:
        visit.stopped.wait(0.15)
        visit.send(redirect(f"/?{len(site.visits)}"))

    site.routes["/"] = slow_hop
    start = time.monotonic()
    assert failure(fetcher, site.url(), timeout_s=0.4).code == "TIMEOUT"
    assert time.monotonic() - start < 1.0


def test_a_tls_handshake_that_drips_ends_at_the_deadline(site: Site, fetcher: HttpFetcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        error = failure(fetcher, f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout_s=0.3)
    assert error.code == "TIMEOUT"
    assert time.monotonic() - start < 1.0


def test_a_plain_server_behind_https_is_a_tls_error(fetcher: HttpFetcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            sock, _ = server.accept()
            with sock:
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        error = failure(fetcher, f"https://127.0.0.1:{server.getsockname()[1]}/")
        thread.join()
    assert error.code == "TLS_FAILED"


def test_a_header_flood_is_cut_off(site: Site, fetcher: HttpFetcher) -> None:
    def flood(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\n")
        visit.endless(b"X-Flood: " + b"a" * 8000 + b"\r\n")

    site.routes["/"] = flood
    assert failure(fetcher, site.url()).code == "PROTOCOL"


def test_nobody_listens(fetcher: HttpFetcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error = failure(fetcher, f"http://127.0.0.1:{port}/")
    assert (error.code, error.retryable) == ("CONNECTION_FAILED", True)
    assert "refused the connection" in error.line()


# ---- small parts


@pytest.mark.parametrize("values", [{"timeout_s": 0}, {"max_bytes": -1}, {"max_redirects": -1}, {"user_agent": "a\nb"}])
def test_policies_are_checked(values: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        FetchPolicy(**values)  # type: ignore[arg-type]
