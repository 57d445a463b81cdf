"""Public reports of other programs about browsers, each as what must hold here (a number is that of the report)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator

import pytest

from fetchly.crawler.answers import StatusError
from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.http import FetchPolicy
from fetchly.errors import DocumentError
from tests.support.browser import gone, needs_browser, processes_of
from tests.support.site import Site, answer, redirect

pytestmark = needs_browser


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def renderer() -> Iterator[BrowserRenderer]:
    with BrowserRenderer(FetchPolicy(allow_private=True, timeout_s=10)) as opened:
        yield opened


def test_a_redirect_to_an_error_page_is_that_error(site: Site, renderer: BrowserRenderer) -> None:
    # crawl4ai#1434, crawl4ai#660
    site.routes |= {"/r": redirect("/fail"), "/fail": answer(b"<p>slow down", status="429 Too Many Requests")}
    with pytest.raises(StatusError) as failed:
        renderer.render(site.url("/r"))
    assert (failed.value.status, failed.value.url) == (429, site.url("/fail"))


def test_the_wait_that_a_server_asks_for_is_passed_on(site: Site, renderer: BrowserRenderer) -> None:
    # crawl4ai#1095, crawlee#3623
    site.routes["/"] = answer(b"<p>later", status="429 Too Many Requests", headers=[("Retry-After", "2")])
    with pytest.raises(StatusError) as failed:
        renderer.render(site.url())
    assert (failed.value.retry_after_s, failed.value.retryable) == (2.0, True)


def test_an_empty_page_is_a_page(site: Site, renderer: BrowserRenderer) -> None:
    # firecrawl#2316
    site.routes["/"] = answer(b"")
    page = renderer.render(site.url())
    assert (page.status, page.rendered) == (200, True)


@pytest.mark.parametrize(
    "script",
    ["setTimeout(() => location.reload(), 50)", "setTimeout(() => location = '/?' + Math.random(), 50)"],
)
def test_a_page_that_navigates_for_ever_is_read_within_its_deadline(
    site: Site, renderer: BrowserRenderer, script: str
) -> None:
    # crawl4ai PR#2113
    site.routes["/"] = answer(f"<h1>Round</h1><script>{script}</script>".encode())
    page = renderer.render(site.url())
    assert b"Round" in page.body
    assert any("again and again" in warning for warning in page.warnings)
    assert len(site.visits) <= renderer.policy.max_redirects + 2


def test_the_deadline_holds_where_images_are_not_fetched(site: Site, renderer: BrowserRenderer) -> None:
    # scrapy-playwright#349
    images = b"".join(b"<img src=/%d.png>" % number for number in range(30))
    site.routes |= {
        "/": answer(images + b"<h1>Text</h1><script src=/never.js></script>"),
        "/never.js": lambda visit: visit.stopped.wait(10),  # type: ignore[dict-item]
    }
    start = time.monotonic()
    page = renderer.render(site.url(), timeout_s=2)
    assert b"Text" in page.body
    assert page.warnings
    assert time.monotonic() - start < 8
    assert {visit.path for visit in site.visits} == {"/", "/never.js"}


def test_many_pages_leave_no_process_and_no_thread(site: Site) -> None:
    # crawlee-py#1072, crawlee-py#1443: also first pages that come at the same time
    site.routes["/"] = answer(b"<p>page")
    mine = {process.pid for process in processes_of(os.getpid())}
    names = {thread.name for thread in threading.enumerate()}
    bodies: list[bytes] = []
    with BrowserRenderer(FetchPolicy(allow_private=True), pages_per_browser=4) as opened:
        workers = [
            threading.Thread(target=lambda: bodies.extend(opened.render(site.url()).body for _ in range(2)))
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        started = [process for process in processes_of(os.getpid()) if process.pid not in mine]
    assert len(bodies) == 8
    assert all(b"page" in body for body in bodies)
    assert gone(started)
    left = {thread.name for thread in threading.enumerate()} - names
    assert not [name for name in left if "fetchly" in name]


def test_files_are_told_by_type_and_not_by_name(site: Site, renderer: BrowserRenderer) -> None:
    # groktocrawl#26, firecrawl#342
    site.routes |= {
        "/page.pdf": answer(b"<h1>A page</h1>"),
        "/page.html": answer(b"%PDF-1.7", content_type="application/pdf"),
    }
    assert b"A page" in renderer.render(site.url("/page.pdf")).body
    with pytest.raises(DocumentError, match="application/pdf"):
        renderer.render(site.url("/page.html"))


def test_a_page_is_rendered_inside_a_running_event_loop(site: Site, renderer: BrowserRenderer) -> None:
    # ScrapeGraphAI#771, ScrapeGraphAI#1116
    site.routes["/"] = answer(b"<p>page")

    async def inside() -> bytes:
        return renderer.render(site.url()).body

    assert b"page" in asyncio.run(inside())


def test_a_page_loaded_by_an_image_that_fails_keeps_its_text(site: Site, renderer: BrowserRenderer) -> None:
    # scrapy-playwright#349, the other half: a page may take a failing image for a reason to drop what it stands for
    site.routes["/"] = answer(b"<div><img src=/i.png onerror='this.parentNode.remove()'>Teapot</div>")
    assert b"Teapot" in renderer.render(site.url()).body
