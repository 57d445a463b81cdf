"""A page that wants others fetched or rendered in advance, in a real browser: only what is gone to is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.http import FetchPolicy
from tests.support.browser import needs_browser
from tests.support.site import Site, answer

pytestmark = needs_browser

# Every way of a page to have fetched what nobody has gone to.
SPECULATION = b"""<head><link rel=prefetch href=/prefetch><link rel=prefetch as=document href=/document>
  <link rel=prerender href=/prerender><link rel=next href=/next>
  <script type=speculationrules>{"prefetch": [{"urls": ["/listed", "/gone-to"], "eagerness": "immediate"},
    {"where": {"href_matches": "/linked"}, "eagerness": "immediate"}]}</script>
  <script type=speculationrules>{"prerender": [{"urls": ["/rendered"], "eagerness": "immediate"}]}</script>
  <script type=speculationrules>{"prerender_until_script": [{"urls": ["/half"], "eagerness": "immediate"}]}</script>
  </head><body><h1>Start</h1><a href=/linked>further</a><p id=said></p>
  <script>setTimeout(() => {
      for (const [kind, url] of [["prefetch", "/later"], ["prerender", "/later-rendered"]]) {
        const rules = document.createElement("script"); rules.type = "speculationrules"
        rules.text = JSON.stringify({[kind]: [{urls: [url]}]}); document.head.append(rules) }
    }, 100)
    const busy = setInterval(() => said.append("."), 200)
    setTimeout(() => { clearInterval(busy); said.textContent = "waited" }, 1500)</script>"""
SPECULATING_HEADERS = (("Speculation-Rules", '"/rules.json"'), ("Link", "</header>; rel=prefetch"))


@pytest.fixture(scope="module")
def renderer() -> Iterator[BrowserRenderer]:
    """May go to loopback, where a browser speculates without https."""
    with BrowserRenderer(FetchPolicy(timeout_s=10, allow_private=True)) as opened:
        yield opened


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def test_no_page_is_fetched_or_rendered_that_nobody_goes_to(site: Site, renderer: BrowserRenderer) -> None:
    rules = answer(b'{"prefetch": [{"urls": ["/ruled"]}]}', content_type="application/speculationrules+json")
    site.routes |= {"/": answer(SPECULATION, headers=SPECULATING_HEADERS), "/rules.json": rules}
    assert b">waited</p>" in renderer.render(site.url()).body
    assert [visit.path for visit in site.visits] == ["/"]


def test_what_a_page_has_speculated_on_is_gone_to_as_any_other(site: Site, renderer: BrowserRenderer) -> None:
    going = b"<script>setTimeout(() => { location = '/gone-to' }, 300)</script>"
    site.routes |= {"/": answer(SPECULATION + going), "/gone-to": answer(b"<h1>There")}
    page = renderer.render(site.url())
    assert b"<h1>There" in page.body
    assert not any("rest" in warning for warning in page.warnings)
    assert [visit.path for visit in site.visits] == ["/", "/gone-to"]
