"""What a user has a browser do on a page: a real browser does it, or says which action failed, where and why."""

from __future__ import annotations

import re
import socket
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from fetchly.crawler.performer import ActionFailed
from fetchly.egress import EgressGate, Endpoint
from fetchly.errors import FetchlyError, PolicyRefused
from tests.support.browser import needs_browser
from tests.support.site import Site, answer, redirect
from tests.support.visits import Browser, opened_browser, seen

pytestmark = needs_browser


class Gate(EgressGate):
    """Loopback is open, but for one port, which stands for the private network."""

    closed: int = 0

    def connect(self, endpoint: Endpoint, *, url: str, timeout_s: float) -> socket.socket:
        if endpoint.port == self.closed:
            raise PolicyRefused("a private address", url=url, code="ADDRESS_REFUSED")
        return super().connect(endpoint, url=url, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate(allow_private=True)


@pytest.fixture(scope="module")
def browser(gate: Gate) -> Iterator[Browser]:
    with opened_browser(gate) as opened:
        yield opened


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


FORM = b"""<h1>Shop</h1><p id=said></p><form><input id=q><select id=s><option value=a>Apples<option value=p>Pears
</select><button type=button id=go>Go</button></form><div id=list></div><a id=more>more</a>
<p style="height: 5000px"><p id=end>.</p><script>
let n = 0;
const say = text => said.textContent += text + ' / ';
q.onkeydown = event => { if (event.key === 'Enter') { event.preventDefault(); say('entered ' + q.value) } };
s.onchange = () => say('chose ' + s.value);
go.onclick = () => setTimeout(() => { say('went'); const late = document.createElement('b'); late.id = 'late';
  late.textContent = 'Late'; document.body.prepend(late); setTimeout(() => late.remove(), 700) }, 300);
more.onclick = () => { list.insertAdjacentHTML('beforeend', `<p>Row ${n++}`); if (n == 4) more.style.display = 'none' };
addEventListener('scroll', () => { if (scrollY > 3000) say('deep'); if (scrollY === 250) say('by 250') });
</script>"""


def test_actions_are_done_in_order(site: Site, browser: Browser) -> None:
    site.routes["/"] = answer(FORM)
    page = browser.visit(
        site.url(),
        [
            {"fill": {"selector": "#q", "text": "pears; alert(1)"}},
            {"press": "Enter"},
            {"press": {"key": "Enter", "selector": "#q"}},
            {"select": {"selector": "#s", "option": "Pears"}},
            {"click": "#go"},
            {"wait": {"gone": "#late"}},
            {"scroll": 250},
            {"scroll": "bottom"},
            {"scroll": "#go"},
            {"wait": 0.01},
            {"click": "#nothing", "optional": True, "timeout": 0.1},
            {"repeat": 3, "actions": [{"click": "#nothing", "optional": True, "timeout": 0.1}]},
            {"repeat": 10, "until_gone": "#more", "actions": [{"click": "text=more"}]},
            {"wait": {"text": "Row 3"}},
            {"wait": {"selector": "#list > p"}},
        ],
    )
    said = [part.strip() for part in next(line for line in seen(page).splitlines() if " /" in line).split("/")]
    assert said[:2] == ["entered pears; alert(1)"] * 2
    assert list(dict.fromkeys(said[1:])) == ["entered pears; alert(1)", "chose p", "went", "by 250", "deep", ""]
    assert re.findall(r"Row (\d)", seen(page)) == ["0", "1", "2", "3"]
    assert page.warnings == ()


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (
            [{"wait": 0.01}, {"click": "#gone"}],
            "action 2 (click '#gone'): no element matches it; the page then was 'T' at",
        ),
        ([{"click": "#hidden"}], "action 1 (click '#hidden'): 1 match it, and none is visible"),
        ([{"click": "#under"}], 'another element covers it: <div id="veil">'),
        ([{"click": "#off"}], "element is not enabled"),
        ([{"fill": {"selector": "p", "text": "s3cret"}}], "action 1 (fill 'p')"),
        ([{"fill": {"selector": "#off", "text": "s3cret"}}], "element is not enabled"),
        ([{"select": {"selector": "select", "option": "Plums"}}], "did not find some options"),
        ([{"wait": {"text": "Sold out"}}], "the text did not show"),
        ([{"wait": {"gone": "#under"}}], "it was still there"),
        ([{"press": "NoSuchKey"}], "Unknown key"),
        ([{"click": "a[[b"}], "a[[b"),
        (
            [{"repeat": 2, "actions": [{"wait": 0.01}, {"click": "#gone", "timeout": 0.1}]}],
            "action 1.2 (click '#gone')",
        ),
    ],
)
def test_an_action_that_fails_says_which_and_what_was_there(
    site: Site, browser: Browser, done: list[dict[str, Any]], said: str
) -> None:
    site.routes["/"] = answer(
        b"<title>T</title><p id=p>x</p><b id=hidden style='display: none'>h</b><select><option>Figs</select>"
        b"<input id=off disabled><div style='position: relative'><button id=under>u</button>"
        b"<div id=veil style='position: absolute; inset: 0'>veil</div></div>"
    )
    limited = [{**each, "timeout": 2.0} if "repeat" not in each else each for each in done]
    with pytest.raises(ActionFailed) as failed:
        browser.visit(site.url(), limited)
    line = failed.value.line()
    assert said in line
    assert "s3cret" not in line
    assert (failed.value.code, failed.value.url, failed.value.retryable) == ("ACTION_FAILED", site.url(), False)


def test_a_list_that_has_more_after_its_last_round_is_said(site: Site, browser: Browser) -> None:
    site.routes["/"] = answer(FORM)
    page = browser.visit(site.url(), [{"repeat": 2, "until_gone": "#more", "actions": [{"click": "#more"}]}])
    assert re.findall(r"Row (\d)", seen(page)) == ["0", "1"]
    assert page.warnings == ("action 1: '#more' is still there after 2 rounds: read as it was then",)


def test_a_click_may_lead_to_another_page(site: Site, browser: Browser) -> None:
    site.routes |= {
        "/": answer(b"<a href=/on>on</a>"),
        "/on": redirect("/there"),
        "/there": answer(b"<p>There<script>setTimeout(() => p.textContent = 'late', 300)</script><p id=p>"),
    }
    page = browser.visit(site.url(), [{"click": "a"}, {"wait": {"text": "There"}}])
    assert seen(page).split("\n") == ["There", "late"]
    assert (page.url, page.redirects) == (site.url("/there"), (site.url("/"), site.url("/on")))


@pytest.mark.parametrize("target", ["", "_blank"])
def test_a_click_reaches_nothing_that_is_refused(site: Site, browser: Browser, gate: Gate, target: str) -> None:
    with Site(routes={"/": answer(b"secret")}) as inner:
        gate.closed = inner.port
        site.routes["/"] = answer(f"<h1>Page</h1><a target='{target}' href='{inner.url()}'>in</a>".encode())
        if target:
            page = browser.visit(site.url(), [{"click": "a"}])
            assert seen(page).startswith("Page")
            assert page.warnings == (f"the page opened 1 windows, which were closed, for {inner.url()}",)
        else:
            with pytest.raises(PolicyRefused) as refused:
                browser.visit(site.url(), [{"click": "a"}, {"click": "#never reached"}])
            assert (refused.value.url, refused.value.code) == (inner.url(), "ADDRESS_REFUSED")
        assert inner.connections == 0


def test_downloads_and_windows_that_a_click_opens_are_refused_and_said(site: Site, browser: Browser) -> None:
    site.routes |= {
        "/": answer(b"<h1>Page</h1><a id=file href=/file>file</a><a id=window href=/window target=_blank>window</a>"
                    b"<a id=blob download=x.txt href='data:text/plain,x'>blob</a>"),
        "/file": answer(b"PK", content_type="application/zip"),
        "/window": answer(b"<h1>Other</h1>"),
    }  # fmt: skip
    page = browser.visit(site.url(), [{"click": "#file"}, {"click": "#blob"}, {"click": "#window"}])
    assert "Page" in seen(page)
    assert page.warnings[0] == f"a download was refused: {site.url('/file')}"
    assert page.warnings[-1] == f"the page opened 1 windows, which were closed, for {site.url('/window')}"
    assert "a download was refused: data:text/plain,x" in page.warnings
    assert "/window" not in [visit.path for visit in site.visits]


def test_an_overlay_is_taken_from_before_the_page_and_not_pressed(site: Site, browser: Browser) -> None:
    site.routes["/"] = answer(
        b"""<main inert><h1>Page</h1><p>What the page is about, in some words that a reader came for.</p>
        <button id=more onclick="this.textContent = 'opened'">more</button></main>
        <dialog id=ask><p>We use cookies.</p><button onclick="document.title = 'given'">Accept</button></dialog>
        <div style="position: fixed; inset: 0; background: #0008"></div><script>ask.showModal()</script>"""
    )
    page = browser.visit(site.url(), [{"click": "#more"}])
    assert "opened" in seen(page) or b">opened<" in page.body
    assert "cookies" not in seen(page)
    assert b"given</title>" not in page.body


SEARCH = b"<title>Shop</title><form action=/found><input id=q name=q><input type=hidden name=in value=all></form>"
TYPE = [{"fill": {"selector": "#q", "text": "s3cret pass/word"}}, {"press": {"key": "Enter", "selector": "#q"}}]


def test_what_is_typed_into_a_form_stands_in_no_address_that_is_told(site: Site, browser: Browser) -> None:
    site.routes |= {"/": answer(SEARCH), "/found": answer(b"<title>Results</title><h1>Found")}
    page = browser.visit(site.url(), TYPE)
    assert seen(page) == "Found"
    assert site.visits[-1].path == "/found?q=s3cret+pass%2Fword&in=all", "the site is told"
    assert page.url == site.url("/found?q=&in=all")


LEADS = {
    "an element that is missing": answer(b"<title>No s3cret  Pass/word here</title><h1>Found"),
    "an error of the site": answer(b"no", status="500 Oops"),
    "a download": answer(b"%PDF-1.7", content_type="application/pdf"),
    "a redirect": redirect("/none?was=s3cret%20pass/word"),
    "a private address": b"",
}


@pytest.mark.parametrize("leads", LEADS)
def test_what_is_typed_into_a_form_stands_in_no_error(site: Site, browser: Browser, gate: Gate, leads: str) -> None:
    with Site(routes={"/": answer(b"secret")}) as inner:
        gate.closed = inner.port
        away = redirect(inner.url("/?q=s3cret%20pass/word"))
        site.routes |= {"/": answer(SEARCH), "/found": LEADS[leads] or away}
        with pytest.raises(FetchlyError) as failed:
            browser.visit(site.url(), [*TYPE, {"click": "#none", "timeout": 1.0}])
    told = "".join(traceback.format_exception(failed.value)) + failed.value.line() + str(vars(failed.value))
    assert "s3cret" not in told.lower()
    assert "?q=" in failed.value.line() or "?was=" in failed.value.line(), "where it led is told"


def test_who_is_asked_where_a_form_leads_is_not_told_what_was_typed(site: Site, browser: Browser) -> None:
    asked: list[str] = []

    def ask(url: str) -> None:
        asked.append(url)

    site.routes |= {"/": answer(SEARCH), "/found": answer(b"<h1>Found")}
    browser.visit(site.url(), TYPE, may_follow=ask)
    assert asked == [site.url("/found?q=&in=all")]
