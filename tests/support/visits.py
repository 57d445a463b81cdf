"""One browser for many tests, each of which says what is done on its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fetchly.crawler.actions import checked_actions
from fetchly.crawler.assignment import Assignment
from fetchly.crawler.browser_process import BrowserProcess
from fetchly.crawler.browser_thread import BrowserThread
from fetchly.crawler.http import FetchPolicy, MayFollow
from fetchly.crawler.interaction import Interaction
from fetchly.crawler.scrolling import scrolling
from fetchly.document.reader import ReadOptions, read_document
from fetchly.egress import EgressGate
from fetchly.goods import Page

SECONDS = 60.0
"""For a page, on a machine that has much else to do."""


class Browser:
    """Visits pages of loopback."""

    def __init__(self, gate: EgressGate | None = None) -> None:
        gate = gate if gate is not None else EgressGate(allow_private=True)
        self._policy = FetchPolicy(allow_private=True)
        self._thread = BrowserThread(lambda: BrowserProcess(gate, None), 2)

    def visit(
        self,
        url: str,
        done: Sequence[dict[str, Any]] = (),
        scroll: str = "never",
        may_follow: MayFollow | None = None,
    ) -> Page:
        interaction = Interaction(checked_actions(list(done)), scrolling(scroll))
        return self._thread.visit(Assignment(url, self._policy, SECONDS, None, interaction), None, may_follow)

    def close(self) -> None:
        self._thread.close()


@contextmanager
def opened_browser(gate: EgressGate | None = None) -> Iterator[Browser]:
    browser = Browser(gate)
    try:
        yield browser
    finally:
        browser.close()


def html(page: Page) -> str:
    return page.body.decode("utf-8")


def seen(page: Page) -> str:
    """The text that a reader sees of it, machine-readable data aside."""
    blocks = read_document(page, ReadOptions(structured=False)).blocks
    return "\n".join(block.text for block in blocks if block.kind != "title")
