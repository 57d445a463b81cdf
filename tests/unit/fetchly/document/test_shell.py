"""When a page's scripts must run first, and when not."""

from __future__ import annotations

import pytest

from fetchly.document.reader import read_document
from fetchly.document.shell import brought_more, needs_scripts
from fetchly.errors import DocumentError
from fetchly.goods import Document, Page

BUNDLE = "<script src=/static/app.4f2a.js></script>"
WORDS = "<p>" + " ".join(map(str, range(100, 140)))  # more than very few characters, fewer than few
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


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ("<p>Loading", TEXT, True),
        ("<p>Some words here", "<p>Some words here too", False),
        ("<p>Some words here", "<p>Tea", False),
        ("<title>Shop</title><p>Tea", "<title>Shop and many words more</title><p>Tea", False),
    ],
)
def test_scripts_have_filled_a_page_that_says_twice_as_much(before: str, after: str, more: bool) -> None:
    read = [
        read_document(Page(requested="x", url="http://a.example/", status=200, headers=(), body=html.encode()))
        for html in (before, after)
    ]
    assert brought_more(read[0], read[1]) == more
    assert brought_more(None, read[1])


def test_a_rendered_page_is_not_rendered_again() -> None:
    assert reason(f"<body>{BUNDLE}", rendered=True) == ""


@pytest.mark.parametrize(
    "script",
    [
        "<script>document.write('<p>Hello world</p>')</script>",
        "<script>document.querySelector('div').textContent = 'Hello'</script>",
        "<script>document.body.append('Hello')</script>",
        "<script type=module>import '/a.js'</script>",
        "<SCRIPT TYPE='application/x-javascript'>eval(atob('MQ=='))</SCRIPT>",
        "<script type=8a7f-text/javascript>document.body.append('Hello')</script>",  # as an optimizer marks it
        "<img src=x onerror=\"document.body.append('Hello')\">",
    ],
)
def test_where_there_is_no_text_any_script_may_bring_it(script: str) -> None:
    assert "no text" in reason(f"<body><div></div>{script}")


@pytest.mark.parametrize(
    "script",
    [
        f"<script type='application/ld+json'>{'x' * 5000}</script>",
        "<script type=speculationrules>{}</script>",
        "<script type=text/x-handlebars-template><p>{{name}}</p></script>",
        "<script> </script>",
        "<!-- <script src=/a.js></script> -->",
        "<style>p { content: '<script src=/a.js>' }</style>",
    ],
)
def test_what_no_browser_runs_is_no_script(script: str) -> None:
    assert reason(f"<body><div></div>{script}") == ""
    assert reason(f"<body><p>Hi</p><div id=app></div>{script}") == ""


@pytest.mark.parametrize(
    "root",
    [
        '<div data-page="{&quot;a&quot;:1}' + "x" * 3000 + '" id="app"></div>',
        "<DIV class='a' ID = 'root'>\n<!-- 1 --><!-- 2 > 1 -->\n</DIV >",
        "<shop-app theme=dark><!----></shop-app>",
        "<div id=app><!--></div>",
    ],
)
def test_a_root_is_empty_whatever_is_written_around_it(root: str) -> None:
    assert "is empty until scripts fill it" in reason(f"<body><p>Hi{root}{BUNDLE}{WORDS}")


@pytest.mark.parametrize(
    "root",
    [
        "<div id=root>Hello</div>",
        "<div id=root><p></p></div>",
        "<div data-id=root></div>",
        "<div id=rooted></div>",
        "<div id=other id=root></div>",
        "<!-- <div id=root></div> -->",
    ],
)
def test_another_element_is_no_empty_root(root: str) -> None:
    assert reason(f"<body><p>Hi{root}{BUNDLE}{WORDS}") == ""


MANY = 100_000


@pytest.mark.parametrize(
    "html",
    [
        *(
            part * MANY
            for part in (
                *("<div id=root ", "<noscript>", "<noscript>javascript <", "<script ", "<script>x", "<!--", "<!-- -"),
                *("<a-root>", "<div id=app><!-- ", "<div id=app>", "<", "<a", "< ", '<a b="', "<a b='", "</script"),
                *("<div id=root> ", "<!---->", "<script>x</script >", "<div id=root></div", "<x-app></x-app "),
            )
        ),
        "<div id=root>" + "<!---->" * MANY + "x",
        "<div id=root" + " a" * MANY + ">" + " " * MANY + "x",
        "<div " + "id =" * MANY + ">",
        "<div id" + " " * MANY + "x></div>",
        "<script type=" + "a" * MANY + ">x</script>",
        "<noscript>" + "<" * MANY + "</noscript>",
        "<noscript>java" + " " * MANY + "</noscript>",
    ],
    ids=lambda html: html[:14],
)
def test_a_hostile_page_is_judged_in_one_pass(html: str) -> None:
    # Nothing here asserts a time: expressions that go back would take minutes or never end.
    short = read_document(Page(requested="x", url=None, status=None, headers=(), body=b"<p>Hi"))
    body = ("<body>hi" + html + "<script src=a></script>").encode()
    page = Page(requested="x", url="http://a.example/", status=200, headers=(), body=body)
    for document in (short, None):
        assert isinstance(needs_scripts(page, document), str)
