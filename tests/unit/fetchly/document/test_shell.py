"""When a page's scripts must run first, and when not."""

from __future__ import annotations

import pytest

from fetchly.document.reader import read_document
from fetchly.document.shell import needs_scripts
from fetchly.errors import DocumentError
from fetchly.goods import Document, Page

BUNDLE = "<script src=/static/app.4f2a.js></script>"
TEXT = "<p>" + "A stoneware teapot that holds more than a litre. " * 10 + "</p>"


def reason(html: str, **said: object) -> str:
    page = Page(requested="x", url="http://a.example/", status=200, headers=(), body=html.encode(), **said)  # type: ignore[arg-type]
    document: Document | None
    try:
        document = read_document(page)
    except DocumentError:
        document = None
    return needs_scripts(page, document)


@pytest.mark.parametrize(
    ("html", "word"),
    [
        (f"<title>Shop</title><body><p>Hi<div id=root></div>{BUNDLE}", "'root'"),
        (f'<body><p>Hi<div id="__next" class="a b"> <!-- app --> </div>{BUNDLE}', "'__next'"),
        (f"<body><h1>Shop</h1><main id='app'></main>{BUNDLE}", "'app'"),
        (f"<body><p>Hi<app-root></app-root>{BUNDLE}", "app-root"),
        (f"<body><noscript>You need to enable JavaScript to run this app.</noscript>{BUNDLE}", "JavaScript"),
        (f"<body><p>Loading</p>{BUNDLE}", "7 characters"),
        (f"<body>{BUNDLE}", "no text"),
        ("<body><div></div><script>document.body.innerHTML = '<h1>Made</h1>'</script>", "no text"),
    ],
)
def test_a_shell_is_known_by_what_it_lacks(html: str, word: str) -> None:
    assert word in reason(html)


@pytest.mark.parametrize(
    "html",
    [
        f"<body><div id=root>{TEXT}</div>{BUNDLE}",
        f"<body>{TEXT}<div id=app></div>{BUNDLE}",  # a widget beside the text
        "<body><h1>Example Domain</h1><p>This domain is for use in documents.</p>",
        "<body><p>Short.</p><script>window.dataLayer = window.dataLayer || []</script>",
        "<body><script type=application/json>" + "x" * 5000 + "</script>",
        "<body></body>",
        f"<body><noscript><img src=/pixel.gif></noscript><p>{'Brief but whole. ' * 8}</p>{BUNDLE}",
    ],
)
def test_a_page_that_says_something_is_left_as_it_is(html: str) -> None:
    assert reason(html) == ""


def test_a_rendered_page_is_not_rendered_again() -> None:
    assert reason(f"<body>{BUNDLE}", rendered=True) == ""


def test_a_long_hostile_page_is_judged_in_linear_time() -> None:
    for part in ("<div id=root ", "<noscript>", "<script ", "<!--", "<a-root>", "<div id=app><!-- "):
        reason("<body>" + part * 50_000)
