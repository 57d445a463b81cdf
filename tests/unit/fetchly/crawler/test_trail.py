"""A tab's navigations, in whichever order a browser reports them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest

from fetchly.crawler.trail import Trail
from fetchly.errors import PolicyRefused


@dataclass(eq=False)
class Frame:
    url: str = "about:blank"


@dataclass(eq=False)
class Tab:
    main_frame: Frame = field(default_factory=Frame)
    listeners: dict[str, Callable[[Any], None]] = field(default_factory=dict)

    def on(self, event: str, listener: Callable[[Any], None]) -> None:
        self.listeners[event] = listener

    def tell(self, event: str, what: Any) -> None:
        if event == "framenavigated":
            self.main_frame.url = what
            what = self.main_frame
        self.listeners[event](what)


@dataclass(eq=False)
class Request:
    url: str
    frame: Frame
    failure: str | None = None

    def is_navigation_request(self) -> bool:
        return True


@dataclass(eq=False)
class Response:
    request: Request

    @property
    def url(self) -> str:
        return self.request.url


class Proxy:
    """Refuses one host."""

    def refusal(self, host: str, port: int) -> PolicyRefused | None:
        return PolicyRefused("closed", url="", code="ADDRESS_REFUSED") if host == "inner.example" else None


OLD, NEW, INNER = "http://a.example/old", "http://a.example/new#part", "http://inner.example/"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_what_is_shown_does_not_hang_on_the_order_of_events(order: tuple[int, ...]) -> None:
    tab = Tab()
    trail = Trail(Proxy(), OLD)  # type: ignore[arg-type]
    trail.follow(tab)  # type: ignore[arg-type]
    old, new = Request(OLD, tab.main_frame), Request(NEW, tab.main_frame)
    tab.tell("request", old)
    tab.tell("response", first := Response(old))
    tab.tell("framenavigated", OLD)
    assert trail.shown is first
    tab.tell("request", new)
    answer = Response(new)
    events = [("response", answer), ("framenavigated", NEW), ("requestfailed", old)]
    for number in order:
        tab.tell(*events[number])
    assert trail.shown is answer
    assert (trail.first, trail.last, trail.before(answer)) == (first, answer, (OLD,))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (0, 1), (1, 0), (0, 2), (0,)])
def test_why_nothing_is_shown_does_not_hang_on_it_either(order: tuple[int, ...]) -> None:
    """The browser may say that it shows nothing before it says of which request."""
    tab = Tab()
    trail = Trail(Proxy(), OLD)  # type: ignore[arg-type]
    trail.follow(tab)  # type: ignore[arg-type]
    old, inner = Request(OLD, tab.main_frame, "net::ERR_ABORTED"), Request(INNER, tab.main_frame, "net::ERR_TUNNEL")
    tab.tell("request", old)
    tab.tell("response", Response(old))
    events = [("request", inner), ("requestfailed", old), ("requestfailed", inner)]
    for number in order:
        tab.tell(*events[number])
    assert trail.not_loaded("net::ERR_TUNNEL_CONNECTION_FAILED").code == "ADDRESS_REFUSED"


def test_a_page_that_renames_itself_stays_what_it_is() -> None:
    tab = Tab()
    trail = Trail(Proxy(), OLD)  # type: ignore[arg-type]
    trail.follow(tab)  # type: ignore[arg-type]
    request = Request(OLD, tab.main_frame)
    tab.tell("request", request)
    tab.tell("response", answer := Response(request))
    for address in (OLD, f"{OLD}#part", "http://a.example/renamed", "chrome-error://chromewebdata/"):
        tab.tell("framenavigated", address)
        assert trail.shown is answer
