"""A public site that tries to have us ask a private one, in every spelling and by every way: nobody is ever asked."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.crawler.robots import Robots
from fetchly.crawler.sitemap import SitemapNote, sitemap_urls
from fetchly.egress import EgressGate
from fetchly.errors import FetchError, PolicyRefused
from tests.support.browser import needs_browser
from tests.support.forbidden_listener import (
    LOOPBACK,
    PRIVATE,
    PUBLIC_ADDRESS,
    PUBLIC_HOST,
    ForbiddenListener,
    strict_gate,
)
from tests.support.site import Site, Visit, answer, redirect

SPELLINGS = LOOPBACK + PRIVATE
NO_HOST = ("BAD_URL", "HOST_UNKNOWN")
TIMEOUT_S = 5.0


@pytest.fixture(autouse=True)
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connections to the public address end at the test's site; whatever else is dialled is noted, and goes through."""
    dial = socket.create_connection
    others: list[str] = []

    def create_connection(address: tuple[str, int], timeout: float) -> socket.socket:
        if address[0] != PUBLIC_ADDRESS:
            others.append(address[0])
            return dial(address, timeout)
        return dial(("127.0.0.1", address[1]), timeout)

    monkeypatch.setattr(socket, "create_connection", create_connection)
    return others


@pytest.fixture(scope="module")
def inner() -> Iterator[ForbiddenListener]:
    with ForbiddenListener() as listening:
        yield listening


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(timeout_s=TIMEOUT_S), gate=strict_gate()) as strict:
        yield strict


@pytest.fixture(autouse=True)
def _nobody_comes(inner: ForbiddenListener, dialled: list[str]) -> Iterator[None]:
    yield
    assert inner.connections == 0
    assert dialled == []


def test_the_table_is_long_enough_and_the_listener_listens(inner: ForbiddenListener, dialled: list[str]) -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS) > 90
    with ForbiddenListener() as other:
        hosts = ("127.0.0.1", "127.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1", "127.1")
        for host in hosts:
            socket.create_connection((host, other.port), timeout=5).close()
        deadline = time.monotonic() + 5
        while other.connections < len(hosts) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (other.connections, dialled) == (len(hosts), list(hosts))
    dialled.clear()


def is_refusal(error: FetchError) -> bool:
    return isinstance(error, PolicyRefused) or error.code in NO_HOST


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_is_asked(inner: ForbiddenListener, fetcher: HttpFetcher, host: str) -> None:
    for url in (f"http://{host}:{inner.port}/", f"https://{host}:{inner.port}/x"):
        with pytest.raises(FetchError) as failed:
            fetcher.fetch(url)
        assert is_refusal(failed.value)


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_redirect_leads_there(site: Site, inner: ForbiddenListener, fetcher: HttpFetcher, host: str) -> None:
    target = f"http://{host}:{inner.port}/"
    site.routes |= {"/": redirect("/next"), "/next": redirect(target, status="307 Temporary")}
    with pytest.raises(FetchError) as failed:
        fetcher.fetch(site.url(host=PUBLIC_HOST))
    assert is_refusal(failed.value)


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_refresh_leads_there(site: Site, inner: ForbiddenListener, fetcher: HttpFetcher, host: str) -> None:
    site.routes["/"] = answer(f"<meta http-equiv=refresh content='0;url=//{host}:{inner.port}/'><p>x".encode())
    refused: FetchError | None = None
    try:
        page = fetcher.fetch(site.url(host=PUBLIC_HOST))
    except FetchError as error:
        refused = error
    # What is no address at all is not followed.
    assert page.url == site.url(host=PUBLIC_HOST) if refused is None else is_refusal(refused)


def test_no_robots_txt_leads_there(site: Site, inner: ForbiddenListener, fetcher: HttpFetcher) -> None:
    for host in SPELLINGS:
        site.routes["/robots.txt"] = redirect(f"http://{host}:{inner.port}/robots.txt")
        rules = Robots(fetcher.fetch, "fetchly").rules_for(site.url(host=PUBLIC_HOST))
        assert not rules.allowed(site.url("/x", host=PUBLIC_HOST))


def test_no_sitemap_leads_there(site: Site, inner: ForbiddenListener, fetcher: HttpFetcher) -> None:
    entries = "".join(
        f"<sitemap><loc><![CDATA[http://{host}:{inner.port}/{number}]]></loc></sitemap>"
        for number, host in enumerate(SPELLINGS)
    )
    site.routes["/sitemap.xml"] = answer(f"<sitemapindex>{entries}</sitemapindex>".encode(), content_type="text/xml")
    notes: list[SitemapNote] = []
    url = site.url("/sitemap.xml", host=PUBLIC_HOST)
    assert list(sitemap_urls(url, fetcher.fetch, report=notes.append)) == []
    refused = [note for note in notes if note.code in ("ADDRESS_REFUSED", *NO_HOST)]
    assert len(refused) > 60
    assert all(note.code.startswith("SITEMAP_") for note in notes if note not in refused)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "FILE:///etc/passwd", "file://localhost/etc/passwd", "data:text/html,<p>x"),
        *(
            "ftp://127.0.0.1/",
            "gopher://127.0.0.1:70/_x",
            "dict://127.0.0.1:11211/",
            "ldap://127.0.0.1/",
            "jar:http://h!/",
        ),
        *("javascript:alert(1)", "view-source:http://127.0.0.1/", "blob:http://127.0.0.1/x", "about:blank", "ws://h/"),
        *("unix:///var/run/docker.sock", "http+unix://%2Fvar%2Frun%2Fdocker.sock/", "netdoc:///etc/passwd"),
    ],
)
def test_no_other_scheme_is_spoken(site: Site, fetcher: HttpFetcher, url: str) -> None:
    with pytest.raises(PolicyRefused) as refused:
        fetcher.fetch(url)
    assert refused.value.code == "SCHEME_REFUSED"
    site.routes["/"] = redirect(url)
    with pytest.raises(PolicyRefused):
        fetcher.fetch(site.url(host=PUBLIC_HOST))
    site.routes["/"] = answer(f"<meta http-equiv=refresh content='0;url={url}'><p>x".encode())
    assert fetcher.fetch(site.url(host=PUBLIC_HOST)).url == site.url(host=PUBLIC_HOST)


def test_a_name_that_changes_its_address_is_judged_every_time(site: Site, inner: ForbiddenListener) -> None:
    """DNS rebinding: public while it is checked, private a moment later."""
    answers = iter([[PUBLIC_ADDRESS], ["127.0.0.1"]])
    site.routes["/"] = redirect(f"http://rebound.example:{inner.port}/")
    with HttpFetcher(gate=EgressGate(resolver=lambda host, port: next(answers))) as fetcher:
        with pytest.raises(PolicyRefused) as refused:
            fetcher.fetch(site.url(host="rebound.example"))
        assert refused.value.code == "ADDRESS_REFUSED"
    assert next(answers, None) is None  # one look-up a connection, no more


@pytest.mark.parametrize("answers", [["127.0.0.1", PUBLIC_ADDRESS], [PUBLIC_ADDRESS, "::1"], ["::ffff:7f00:1"]])
def test_a_name_with_one_private_address_is_refused(inner: ForbiddenListener, answers: list[str]) -> None:
    with HttpFetcher(gate=EgressGate(resolver=lambda host, port: answers)) as fetcher:
        with pytest.raises(PolicyRefused) as refused:
            fetcher.fetch(f"http://mixed.example:{inner.port}/")
        assert refused.value.code == "ADDRESS_REFUSED"


def test_allowing_private_addresses_opens_no_credential_service(dialled: list[str]) -> None:
    metadata = ("169.254.169.254", "2852039166", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200")
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=TIMEOUT_S)) as open_fetcher:
        for host in metadata:
            with pytest.raises(PolicyRefused):
                open_fetcher.fetch(f"http://{host}/latest/meta-data/")


def test_a_header_of_the_environment_opens_no_way(
    inner: ForbiddenListener, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{inner.port}")
    site.routes["/"] = answer(b"<p>x")
    with HttpFetcher(FetchPolicy(timeout_s=TIMEOUT_S), gate=strict_gate()) as fetcher:
        assert fetcher.fetch(site.url(host=PUBLIC_HOST)).body == b"<p>x"


@needs_browser
def test_a_rendered_page_reaches_none_of_them(site: Site, inner: ForbiddenListener) -> None:
    urls = [f"http://{host}:{inner.port}/{number}" for number, host in enumerate(SPELLINGS)]
    script = """
      let left = urls.length, tried = 0
      const done = () => { tried++; if (--left == 0) said.textContent = `tried ${tried}` }
      for (const url of urls) {
        new Image().src = url
        if (left % 10 == 0) document.body.insertAdjacentHTML('beforeend',
          `<link rel=stylesheet href="${url}"><iframe src="${url}"></iframe>`)
        try { fetch(url, {mode: 'no-cors'}).then(done, done) } catch { done() }
      }"""
    body = f"<body><p id=said></p><script>const urls = {json.dumps(urls)};{script}</script>"

    def serve(visit: Visit) -> None:
        visit.send(answer(body.encode()))

    site.routes["/"] = serve
    with BrowserRenderer(FetchPolicy(timeout_s=30), gate=strict_gate()) as renderer:
        page = renderer.render(site.url(host=PUBLIC_HOST))
    assert f"tried {len(urls)}".encode() in page.body
