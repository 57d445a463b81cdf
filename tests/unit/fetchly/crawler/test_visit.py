"""What a visit makes of a browser that goes away, by a tab that only pretends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchly.crawler.assignment import Assignment
from fetchly.crawler.browser_process import OpenTab
from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.proxy import EgressProxy
from fetchly.crawler.typed_text import TypedText
from fetchly.crawler.visit import Visit
from fetchly.errors import FetchError

pytest.importorskip("playwright")
GONE = "Page.goto: Target page, context or browser has been closed"


class Tab:
    """Fails to load, and hears nothing."""

    def __init__(self, message: str) -> None:
        self._message = message
        self.main_frame = object()

    def on(self, name: str, handler: object) -> None:
        pass

    async def goto(self, url: str, **options: object) -> None:
        from playwright.async_api import Error

        raise Error(self._message)


@pytest.mark.parametrize(
    ("message", "code"), [(GONE, "BROWSER_CRASHED"), ("net::ERR_CONNECTION_RESET at http://a/", "CONNECTION_FAILED")]
)
def test_a_browser_that_says_it_is_gone_is_so_before_it_counts_as_disconnected(message: str, code: str) -> None:
    async def nothing(*_: object) -> None:
        pass

    async def visited() -> None:
        context = SimpleNamespace(on=lambda *_: None, route=nothing, add_init_script=nothing, new_cdp_session=nothing)
        browser = SimpleNamespace(is_connected=lambda: True)
        running = SimpleNamespace(browser=browser, hung=False)
        tab: Any = SimpleNamespace(page=Tab(message), context=context, running=running)
        proxy: Any = SimpleNamespace(mark="x", refusal=lambda host, port: None)
        assignment = Assignment("http://a.example/", FetchPolicy(), 5.0)
        await Visit(cast(OpenTab, tab), cast(EgressProxy, proxy), assignment, TypedText((), assignment.url)).page()

    with pytest.raises(FetchError) as failed:
        asyncio.run(visited())
    assert failed.value.code == code
    assert failed.value.retryable
