"""What was typed into a page, left out of what is told of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest

from fetchly.crawler.actions import checked_actions
from fetchly.crawler.answers import StatusError
from fetchly.crawler.typed_text import TypedText
from fetchly.errors import FetchError
from fetchly.goods import Page

SITE = "https://a.example"


def typed(*texts: str, url: str = f"{SITE}/") -> TypedText:
    fills: list[dict[str, Any]] = [{"fill": {"selector": "input", "text": text}} for text in texts]
    return TypedText(checked_actions(fills), url)


@pytest.mark.parametrize(
    ("url", "left"),
    [
        (f"{SITE}/?q=hunter2", f"{SITE}/?q="),
        (f"{SITE}/find?a=1&q=hunter2&b=2", f"{SITE}/find?a=1&q=&b=2"),
        (f"{SITE}/?q=HUNTER2#of=hunter2", f"{SITE}/?q=#of="),
        (f"{SITE}/#/find/hunter2", f"{SITE}/#/find/"),
        (f"{SITE}/?q=name%3Ahunter2", f"{SITE}/?q=name%3A"),
        (f"{SITE}/?hunter2", f"{SITE}/?"),
        (f"{SITE}/?q=hunter", f"{SITE}/?q=hunter"),
        (f"{SITE}/hunter2/?q=1", f"{SITE}/hunter2/?q=1"),
        (SITE, SITE),
        ("about:blank", "about:blank"),
    ],
)
def test_an_address_is_without_what_was_typed(url: str, left: str) -> None:
    assert typed("hunter2").address(url) == left


@pytest.mark.parametrize(
    "text", ["a b  c\nd", "100% & more = #1?", "s3cr/et+", "Grüße", "пароль", "密码 密码", "<>\"'"]
)
@pytest.mark.parametrize("charset", ["utf-8", "cp1252", "cp1251", "gb18030", "shift_jis"])
def test_however_a_form_writes_it(text: str, charset: str) -> None:
    sent = text.replace("\n", "\r\n").encode(charset, "xmlcharrefreplace")
    for query in (urlencode({"q": sent}), f"q={quote(sent, safe='')}", f"q={quote_plus(sent).lower()}"):
        assert typed("other", text).address(f"{SITE}/?{query}&z=1") == f"{SITE}/?q=&z=1"


@pytest.mark.parametrize("text", ["hunter2!", "p@ss word!", "naïve£", "🎉party"])
def test_an_address_within_an_address_is_encoded_again(text: str) -> None:
    way = f"{SITE}/login?next={quote(f'/s?q={quote(text)}', safe='')}"
    assert typed(text).address(f"{way}&z=1") == f"{SITE}/login?next=%2Fs%3Fq%3D&z=1"
    assert typed(text).address(f"{SITE}/?to={quote(way, safe='')}").endswith("q%253D")
    assert typed(text).address(f"{SITE}/?q={text}") == f"{SITE}/?q="


def test_a_short_text_is_only_taken_for_a_whole_value() -> None:
    assert typed("1").address(f"{SITE}/?page=12&count=1&x=a1") == f"{SITE}/?page=12&count=&x=a1"
    assert (
        typed("1").addresses(f"ROBOTS {SITE}/?count=1: no ({SITE}/?n=1)") == f"ROBOTS {SITE}/?count=: no ({SITE}/?n=)"
    )


def test_a_text_without_an_end_is_left_out_to_its_own() -> None:
    text = "long " * 20_000
    assert typed(text).address(f"{SITE}/?{urlencode({'q': text})}") == f"{SITE}/?q="
    assert typed(text).words(f"Results for {text}") == "Results for ..."


def test_what_the_page_was_asked_for_by_is_no_trace() -> None:
    url = f"{SITE}/?of=pears"
    assert typed("pears", url=url).address(f"{url}&q=pears") == f"{url}&q="
    assert typed("pears", url=url).address(url) == url


def test_who_types_nothing_hides_nothing() -> None:
    url = f"{SITE}/?q=1#2"
    for nothing in (typed(), typed("", " ")):
        assert not nothing
        assert (nothing.address(url), nothing.words(""), nothing.words("a")) == (url, "", "a")


def test_texts_of_repeated_actions_count() -> None:
    done = checked_actions([{"repeat": 2, "actions": [{"fill": {"selector": "input", "text": "hunter2"}}]}])
    assert TypedText(done, SITE).address(f"{SITE}/?q=hunter2") == f"{SITE}/?q="


def test_what_a_page_says_is_hidden_in_words() -> None:
    assert typed("red pears", "red").words("2 results for Red  pears, redder") == "2 results for ..., ...der"


def test_all_that_a_page_and_an_error_tell_is_without_it() -> None:
    url, left = f"{SITE}/?q=hunter2", f"{SITE}/?q="
    page = Page(f"{SITE}/", url, 200, (), b"hunter2", redirects=(url, SITE), warnings=(f"refused: {url}",))
    hidden = typed("hunter2").page(page)
    assert (hidden.url, hidden.redirects, hidden.warnings) == (left, (left, SITE), (f"refused: {left}",))
    assert hidden.body == b"hunter2"
    assert typed("hunter2").page(Page("-", None, None, (), b"")).url is None
    error = StatusError(f"it is {url}", url=url, status=404, redirects=(url,), hint=f"see {url}.")
    told: FetchError = typed("hunter2").error(error)
    assert told is error
    assert "hunter2" not in f"{vars(error)}{error}{error.line()}"
    assert (error.url, error.redirects, error.status, error.hint) == (left, (left,), 404, f"see {left}.")
