"""A real browser on a hostile site: what comes out of a page that only scripts make."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fetchly.crawler.answers import StatusError
from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.http import FetchPolicy
from fetchly.errors import ConfigurationError, DocumentError, FetchError, Interrupted
from fetchly.goods import Page
from tests.support.browser import needs_browser
from tests.support.site import Site, Visit, answer, redirect

pytestmark = needs_browser


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def renderer() -> Iterator[BrowserRenderer]:
    with BrowserRenderer(FetchPolicy(allow_private=True, timeout_s=15, max_bytes=1_000_000)) as opened:
        yield opened


def text(page: Page) -> str:
    assert page.charset == "utf-8"
    return page.body.decode("utf-8")


def test_a_page_filled_only_by_scripts(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {
        "/": answer(b"<div id=app></div><script src=/app.js></script>", headers=[("X-A", "1")]),
        "/app.js": answer(
            b"fetch('/data').then(r => r.json()).then(d => setTimeout(() => {"
            b"document.getElementById('app').innerHTML = `<h1>${d.name}</h1>`}, 300))",
            content_type="text/javascript",
        ),
        "/data": answer('{"name": "Höney €4"}'.encode(), content_type="application/json"),
    }
    page = renderer.render(site.url("/?q=1"))
    assert "<h1>Höney €4</h1>" in text(page)
    assert (page.status, page.rendered, page.media_type, page.url) == (200, True, "text/html", site.url("/?q=1"))
    assert (page.requested, page.redirects, page.warnings) == (site.url("/?q=1"), (), ())
    assert ("x-a", "1") in page.headers
    assert site.visits[0].headers["user-agent"] == renderer.policy.user_agent


def test_redirects_of_the_server_and_of_scripts_are_reported(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {
        "/a": redirect("/b"),
        "/b": answer(b"<p>on<script>location = '/c'</script>"),
        "/c": redirect("/d#part"),
        "/d": answer(b"<p>there<script>history.pushState({}, '', '/e')</script>"),
    }
    page = renderer.render(site.url("/a"))
    assert "there" in text(page)
    assert page.url == site.url("/e")
    assert [url.split("#")[0] for url in page.redirects] == [site.url("/a"), site.url("/b"), site.url("/c")]


def test_open_shadow_roots_slots_and_frames_stand_where_a_reader_sees_them(
    site: Site, renderer: BrowserRenderer
) -> None:
    site.routes |= {
        "/": answer(
            b"""<body><my-card><b slot=price>5 EUR</b>rest</my-card>
            <iframe srcdoc="<p>in the <a href='/x'>frame</a></p>"></iframe><iframe srcdoc=unseen hidden></iframe>
            <script>customElements.define('my-card', class extends HTMLElement { connectedCallback() {
              this.attachShadow({mode: 'open'}).innerHTML =
                '<h2>Card</h2><slot name=price>none</slot><my-inner></my-inner><slot></slot>' }});
            customElements.define('my-inner', class extends HTMLElement { connectedCallback() {
              this.attachShadow({mode: 'open'}).innerHTML = '<i>deep</i>' }})</script>"""
        )
    }
    page = text(renderer.render(site.url()))
    assert '<h2>Card</h2><b slot="price">5 EUR</b><my-inner><i>deep</i></my-inner>rest' in page
    assert f'<p>in the <a href="{site.url("/x")}">frame</a></p>' in page
    assert "unseen</" not in page


NESTED = """<body><script>let e = document.body; for (let i = 0; i < %d; i++)
    e = e.appendChild(document.createElement('div'));
    e.attachShadow({mode: 'open'}).innerHTML = '<p>deepest</p>'</script>"""


def test_nesting_beyond_what_a_parser_allows_is_read(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = answer((NESTED % 600).encode())
    assert "<p>deepest</p>" in text(renderer.render(site.url()))


def test_a_page_that_brings_its_tab_down_leaves_the_others(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {"/": answer((NESTED % 20_000).encode()), "/next": answer(b"<p>fine")}
    with pytest.raises(FetchError) as failed:
        renderer.render(site.url())
    assert failed.value.code == "BROWSER_CRASHED"
    assert "fine" in text(renderer.render(site.url("/next")))


def test_the_scripts_of_a_page_cannot_mislead_the_reader(site: Site, renderer: BrowserRenderer) -> None:
    script = b"""for (const name of ['outerHTML', 'innerHTML']) Object.defineProperty(Element.prototype, name,
      {get() { return 'forged' }}); Document.prototype.querySelectorAll = () => { throw 1 }; window.performance = 5"""
    site.routes["/"] = answer(b"<p>true</p><script>" + script + b"</script>")
    assert "<p>true</p>" in text(renderer.render(site.url()))


# ---- pages that do not end


def test_a_page_that_never_finishes_loading_is_read_as_it_is(site: Site, renderer: BrowserRenderer) -> None:
    def drip(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>Start</h1>" + b" " * 2000)
        visit.drip(b"<p>more</p>" * 1000, pause_s=0.05, size=11)

    site.routes["/"] = drip
    page = renderer.render(site.url(), timeout_s=3)
    assert "<h1>Start</h1>" in text(page)
    assert "more" in text(page)
    assert "did not come to rest within 1.5 s" in page.warnings[0]


def test_a_subresource_that_never_comes_does_not_hold_the_page(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {
        "/": answer(b"<h1>Here</h1><script>fetch('/never')</script>"),
        "/never": lambda visit: visit.stopped.wait(10),  # type: ignore[dict-item]
    }
    page = renderer.render(site.url(), timeout_s=10)
    assert "Here" in text(page)
    assert page.warnings == ()


def test_silence_is_a_timeout(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = lambda visit: visit.stopped.wait(10)  # type: ignore[assignment]
    with pytest.raises(FetchError) as failed:
        renderer.render(site.url(), timeout_s=1)
    assert (failed.value.code, failed.value.retryable) == ("TIMEOUT", True)


@pytest.mark.parametrize(
    "script",
    [
        b"while (true) {}",
        b"while (true) alert(1)",
        b"while (true) { confirm('?'); prompt('?') }",
        b"setInterval(() => { const end = Date.now() + 200; while (Date.now() < end) {} }, 0)",
        b"onbeforeunload = () => 'stay'; (function f() { Promise.resolve().then(f) })()",
    ],
)
def test_scripts_without_an_end_are_stopped(site: Site, renderer: BrowserRenderer, script: bytes) -> None:
    site.routes |= {"/": answer(b"<h1>Before</h1><script>" + script + b"</script>"), "/next": answer(b"<p>fine")}
    start = time.monotonic()
    page = renderer.render(site.url(), timeout_s=3)
    assert "Before" in text(page)
    assert time.monotonic() - start < 8  # and no longer than a few times the deadline, whatever else runs here
    assert "fine" in text(renderer.render(site.url("/next")))


def test_a_clock_does_not_keep_a_page_from_being_read(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = answer(b"<p id=p>x<script>setInterval(() => p.textContent = 'at ' + Date.now(), 50)</script>")
    page = renderer.render(site.url())
    assert "at " in text(page)
    assert page.warnings == ()


def test_a_page_larger_than_the_limit_is_refused(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = answer(b"<p id=p><script>p.textContent = 'x'.repeat(2000000)</script>")
    with pytest.raises(FetchError) as failed:
        renderer.render(site.url())
    assert failed.value.code == "BODY_TOO_LARGE"


# ---- answers that are no page


@pytest.mark.parametrize("status", ["403 Forbidden", "503 Busy"])
def test_an_error_status_is_an_error(site: Site, renderer: BrowserRenderer, status: str) -> None:
    site.routes |= {"/": redirect("/e"), "/e": answer(b"<p>sorry", status=status, headers=[("Retry-After", "7")])}
    with pytest.raises(StatusError) as failed:
        renderer.render(site.url())
    assert (failed.value.status, failed.value.url, failed.value.retry_after_s) == (int(status[:3]), site.url("/e"), 7.0)
    assert failed.value.redirects == (site.url("/"),)


def test_an_error_status_without_a_body_is_the_same(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = answer(b"", status="404 Not Found")
    with pytest.raises(StatusError):
        renderer.render(site.url())


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"a": 1}', "application/json"),
        (b"<rss><channel/></rss>", "application/rss+xml"),
        (b"a < b & c", "text/plain"),
        (b"\x89PNG\r\n\x1a\n0000", "image/png"),
    ],
)
def test_what_is_no_html_comes_as_its_bytes(
    site: Site, renderer: BrowserRenderer, body: bytes, content_type: str
) -> None:
    site.routes["/"] = answer(body, content_type=content_type)
    page = renderer.render(site.url())
    assert (page.body, page.media_type, page.rendered) == (body, content_type, False)


def test_an_answer_without_content_is_an_empty_page(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = answer(status="204 No Content")
    assert renderer.render(site.url()).body == b""


@pytest.mark.parametrize(
    ("headers", "content_type"),
    [
        ([], "application/pdf"),
        ([], "application/zip"),
        ([("Content-Disposition", "attachment; filename=../../x.html")], "text/html"),
    ],
)
def test_a_download_is_refused_by_its_type(
    site: Site, renderer: BrowserRenderer, headers: list[tuple[str, str]], content_type: str
) -> None:
    site.routes["/"] = answer(b"PK\x03\x04", content_type=content_type, headers=headers)
    with pytest.raises(DocumentError, match=content_type) as failed:
        renderer.render(site.url())
    assert failed.value.code == "DOCUMENT_NOT_HTML"


def test_a_download_that_a_page_starts_leaves_the_page(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {
        "/": answer(b"<h1>Page</h1><script>location = '/file'</script>"),
        "/file": answer(b"PK", content_type="application/zip"),
    }
    page = renderer.render(site.url())
    assert "Page" in text(page)
    assert page.url == site.url()


def test_popups_do_not_take_the_place_of_the_page(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {
        "/": answer(b"<h1>Page</h1><script>open('/pop'); open('about:blank')</script><a id=a href=/pop target=_blank>"
                    b"x</a><script>a.click()</script>"),
        "/pop": answer(b"<h1>Popup</h1><script>opener.document.body.innerHTML = 'taken'</script>"),
    }  # fmt: skip
    page = renderer.render(site.url())
    assert "Page" in text(page)
    assert page.url == site.url()


def test_nothing_listens_is_said(renderer: BrowserRenderer) -> None:
    with Site() as site:
        url = site.url()
    with pytest.raises(FetchError) as failed:
        renderer.render(url)
    assert failed.value.code == "CONNECTION_FAILED"
    assert "refused the connection" in failed.value.line()


def test_no_service_worker_is_left_to_answer_for_a_site(site: Site, renderer: BrowserRenderer) -> None:
    register = b"<p>page<script>navigator.serviceWorker.register('/sw.js').catch(() => 0)</script>"
    site.routes |= {"/": answer(register), "/sw.js": answer(b"", content_type="text/javascript")}
    assert b"page" in renderer.render(site.url(host="localhost")).body  # loopback: a secure context
    assert [visit.path for visit in site.visits] == ["/"]


# ---- pages that are already here


def test_a_fetched_page_is_rendered_under_its_address_without_a_second_request(
    site: Site, renderer: BrowserRenderer
) -> None:
    site.routes["/data"] = lambda visit: visit.send(answer(visit.headers.get("cookie", "none").encode()))
    held = Page(
        requested=site.url("/from"),
        url=site.url("/page"),
        status=203,
        headers=(("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-b", "2"), ("content-encoding", "gzip")),
        body=b"<meta charset=gbk><p id=p><script>fetch('data').then(r => r.text())"
        b".then(t => p.textContent = '\xc3\xa9 ' + t)</script>",
        media_type="text/html",
        charset="utf-8",
        redirects=(site.url("/from"),),
    )
    page = renderer.render_html(held)
    assert '<p id="p">é a=1; b=2</p>' in text(page)
    assert (page.url, page.status, page.redirects, page.headers) == (held.url, 203, held.redirects, held.headers)
    assert (page.requested, page.rendered) == (site.url("/from"), True)
    assert [visit.path for visit in site.visits] == ["/data"]


def test_a_page_without_an_address_is_rendered_and_asks_nothing_of_any(renderer: BrowserRenderer) -> None:
    script = b"p.textContent = location.origin; fetch('/x').catch(() => p.textContent += ' no')"
    body = b"<p id=p><script>" + script + b"</script>"
    page = renderer.render_html(Page(requested="-", url=None, status=None, headers=(), body=body))
    assert "http://page.invalid no" in text(page)
    assert (page.url, page.status) == (None, None)


def test_a_held_page_may_lead_elsewhere(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/there"] = answer(b"<p>there")
    held = Page(
        requested="x", url=site.url("/here"), status=200, headers=(), body=b"<script>location = '/there'</script>"
    )
    page = renderer.render_html(held)
    assert "there" in text(page)
    assert (page.url, page.requested, page.redirects) == (site.url("/there"), "x", (site.url("/here"),))


# ---- callers


def test_pages_side_by_side_from_threads(site: Site) -> None:
    site.routes["/"] = lambda visit: visit.send(answer(f"<p>page {visit.path}".encode()))
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = text(opened.render(site.url(f"/?{number}")))

    with BrowserRenderer(FetchPolicy(allow_private=True), tabs=3, pages_per_browser=3) as opened:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert {number: f"/?{number}<" in page for number, page in results.items()} == dict.fromkeys(range(6), True)


def test_a_stop_is_heard_within_a_moment(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {"/": lambda visit: visit.stopped.wait(10), "/next": answer(b"<p>fine")}  # type: ignore[dict-item]
    start = time.monotonic()
    with pytest.raises(Interrupted):
        renderer.render(site.url(), should_stop=lambda: len(site.visits) > 0)
    assert time.monotonic() - start < 5
    assert "fine" in text(renderer.render(site.url("/next")))


def test_a_closed_renderer_refuses() -> None:
    opened = BrowserRenderer()
    opened.close()
    opened.close()
    with pytest.raises(ConfigurationError, match="closed"):
        opened.render("http://example.org/")
