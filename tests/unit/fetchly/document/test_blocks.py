"""Mark-up to blocks, one habit of pages at a time."""

from __future__ import annotations

import pytest

from fetchly.document.reader import ReadOptions, read_document
from fetchly.goods import Document, Page


def read(body: str, *, link_marks: bool = False) -> Document:
    page = Page("-", "http://h.example/a/b", None, (), body.encode(), media_type="text/html")
    return read_document(page, ReadOptions(link_marks=link_marks))


def lines(body: str, *, link_marks: bool = False) -> list[str]:
    return [block.line for block in read(body, link_marks=link_marks).blocks]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<p><strong>J</strong>ohn</p>", ["John"]),
        ("<p>a</p><p>b</p>", ["a", "b"]),
        ("a<div>b</div>c", ["a", "b", "c"]),
        ("<p>a<br>b<br/><br>c", ["a", "b", "c"]),
        ("<p>a\n  b\t&nbsp;c", ["a b c"]),
        ("<p>so&shy;ft\u200bly \u202eright\u202c", ["softly right"]),
        ("<p>a\u200cb \U0001f469\u200d\U0001f373", ["a\u200cb \U0001f469\u200d\U0001f373"]),
        ("<span>Brand:</span><span>Acme</span>", ["Brand: Acme"]),
        ("<span class=a>Milano</span><span class=b>Via Aldini</span>", ["Milano Via Aldini"]),
        ("<span class=a></span><span class=b>Milano</span>", ["Milano"]),
        ("<span class=a>You</span><span>Tube</span> <i>Mac</i><i>Book</i>", ["YouTube MacBook"]),
        ("<span class=a>£5.</span><span class=b>99</span>", ["£5.99"]),
        ("<span>Price:</span><span>£5</span>", ["Price: £5"]),
        ("<b>Opens 10:</b><i>30</i>", ["Opens 10:30"]),
        ("<b>http:</b>//x", ["http://x"]),
        ("<a href=a>One</a><a href=b>Two</a>", ["One Two"]),
        ("<button>Buy</button><button>Save</button>", ["Buy Save"]),
        ("5<svg><title>star</title></svg>12", ["5 12"]),
        ("<p>x<wbr>y<sup>2</sup>", ["xy2"]),
        ("<span style='display:block'>a</span><span>b</span>", ["a", "b"]),
        ("<div style='display: inline'>a</div><div style='display:inline'>b</div>", ["ab"]),
        ("<h3>T</h3><h1>U</h1>", ["### T", "# U"]),
        ("<h2><a href=x><span>In</span> link</a></h2>", ["## In link"]),
        ("<p>漢<ruby>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>", ["漢字"]),
        ("<dialog>x</dialog><dialog open>y</dialog>", ["y"]),
        ("<details><summary>Q</summary>A</details>", ["Q", "A"]),
        ("<div aria-hidden=true>$5</div>", ["$5"]),
        ("<body hidden style='display:none'>x", ["x"]),
        ("<pre>a\n\n  b\tc</pre>", ["a", "  b c"]),
        ("<div role=heading aria-level=3>T</div><div role=heading>U</div>", ["### T", "## U"]),
        ("<p>Rated <span role=img aria-label='4 of 5'></span>", ["Rated 4 of 5"]),
        ("<p>x <svg role=img aria-label=Vegan></svg> y", ["x Vegan y"]),
        ("<p>so <math alttext='x^2'><mi>x</mi><mn>2</mn></math> is", ["so x^2 is"]),
        ("<p><time datetime=2026-01-02T10:00>2 days ago</time> by Ann", ["2 days ago (2026-01-02) by Ann"]),
        ("<p><time datetime=2026-01-02>2 Jan 2026</time>", ["2 Jan 2026"]),
        ("<p>On <time datetime=2026-01-02></time>", ["On 2026-01-02"]),
        ("<p><time datetime=10:00>ten</time> <time>now</time>", ["ten now"]),
        ("<p><abbr title=2026-01-02>Friday</abbr> <abbr title=Saint>St</abbr>", ["Friday (2026-01-02) St"]),
        ("<p>\ue001 Call us \uf095", ["Call us"]),
        ("<p>\u203a<p>|<p>* * *<p>\u2605\u2605\u2606<p>$$<p>x", ["\u2605\u2605\u2606", "$$", "x"]),
        ("<p>Date <time datetime=2026-01-02><div>2 January 2026</div></time>", ["Date", "2 January 2026"]),
        ("<p>On <time datetime=2026-01-02></time><p>5 May 2025", ["On 2026-01-02", "5 May 2025"]),
        (f"<p>On <time datetime=2026-01-02></time><p>In 2026 {'a' * 40}", ["On 2026-01-02", f"In 2026 {'a' * 40}"]),
        ("<div>Date <time datetime=2026-01-02><div>2 January 2026</div></time>", ["Date", "2 January 2026"]),
        ("<div>  <time datetime=2026-01-02><div>2 days ago</div></time>", ["2 days ago", "(2026-01-02)"]),
        ("<pre>a\n&#13;b&#11;c\u2028d&#12;e\u2029f\x85g&#13;\nh</pre>", list("abcdefgh")),
        ("<pre>a<b role=img aria-label='b\nc'></b></pre>", ["a b c"]),
        ("<p>Menu<p>Menu<p>10<p>10<p>menu", ["Menu", "10", "10", "menu"]),
        ("x<script>1</script><style>2</style><template>3</template><!--4--><iframe>5</iframe>", ["x"]),
        ("<select><option>1</select><textarea>2</textarea><input value=3><p>x", ["x"]),
    ],
)
def test_text(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<ul><li>Tea<ul><li>Black<li>Green</ul><li>Milk</ul>", ["- Tea", "  - Black", "  - Green", "- Milk"]),
        ("<ul><li><p>a<p>b</ul>", ["- a", "  b"]),
        ("<ul><li><span>a</span></li></ul>", ["- a"]),
        ("<ol><li>a<li value=7>b<li>c</ol>", ["1. a", "7. b", "8. c"]),
        ("<ol start=x><li>a</ol>", ["1. a"]),
        ("<ol><li>a<ol><li>b</ol><li>c</ol>", ["1. a", "  1. b", "2. c"]),
        ("<ul><li><h3>T</h3>x</ul>", ["### T", "- x"]),
        ("<li>a<li>b", ["- a", "- b"]),
        ("<ul><li>yes<li>yes<li>no</ul>", ["- yes", "- yes", "- no"]),
        ("<ul><li><h3>T</h3><p>yes<p>yes</ul>", ["### T", "- yes", "  yes"]),
        ("<ul><li>✓<li>✗<li>–<li>∞<li>👍</ul>", ["- ✓", "- ✗", "- –", "- ∞", "- 👍"]),
        ("<ul><li>a<li>|<li>b<li>›</ul>", ["- a", "- b"]),
        ("<ul><li>▢<p>2 eggs</ul>", ["  2 eggs"]),
    ],
)
def test_lists(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("<tr><th>A<th>B<tr><td>1<td>2", ["A | B", "A: 1 | B: 2"]),
        ("<thead><tr><td>A<td>B<tbody><tr><td>1<td>2", ["A | B", "A: 1 | B: 2"]),
        ("<tr><th>A<th>B<tr><td>1<td>", ["A | B", "A: 1"]),
        ("<tr><td>a<td>b<tr><td>c<td>d", ["a | b", "c | d"]),
        ("<tr><th>A<td>1<tr><th>B<td>2", ["A: 1", "B: 2"]),
        ("<tr><th>A<td>1<td>2", ["A: 1 | 2"]),
        ("<tr><td>A:<td>1", ["A: 1"]),
        ("<tr><th>A<th>B<tr><td rowspan=2>1<td>2<tr><td>3", ["A | B", "A: 1 | B: 2", "A: 1 | B: 3"]),
        ("<tr><th>A<th>B<th>C<tr><td colspan=2>1<td>3", ["A | B | C", "A: 1 | C: 3"]),
        ("<tr><th colspan=2>A<th>C<tr><td>1<td>2<td>3", ["A | C", "A: 1 | 2 | C: 3"]),
        ("<tr><td rowspan=0>1<td>2<tr><td>3<tr><td>4", ["1 | 2", "1 | 3", "1 | 4"]),
        ("<tr><td>a<br>b<td>c", ["a; b | c"]),
        ("<tr><td><h2>T</h2>text<td>side", ["## T", "text", "side"]),
        ("<tr><td><p>one<p>two", ["one", "two"]),
        ("<tr><th>A<th>B<tr><td>yes<td>✓<tr><td>yes<td>✓", ["A | B", "A: yes | B: ✓", "A: yes | B: ✓"]),
        ("<tr><td>✗<tr><td>∞<tr><td>yes<tr><td>yes", ["✗", "∞", "yes", "yes"]),
        ("<tr><td><p>✗<tr><td>▢<br>one", ["✗", "one"]),
        ("<tr><td>x<td><table><tr><td>1<td>2</table>", ["x", "1 | 2"]),
        ("<tr><td colspan=-1 rowspan=abc>a<td>b", ["a | b"]),
        (f"<tr><td>{'long ' * 100}<td>b", [("long " * 100).strip(), "b"]),
        ("<tr><td><b>A</b><td>1", ["A: 1"]),
        ("<tr><td class=label>A<td>1", ["A: 1"]),
        ("<tr><td><b>A</b><td><b>B</b><td><strong>C</strong><tr><td>1<td>2<td>3", ["A | B | C", "A: 1 | B: 2 | C: 3"]),
        ("<tr><td>A:<td>1<td>B:<td>2", ["A: 1 | B: 2"]),
        ("<tr><td>A:<td>1<td>B:", ["A: 1 | B:"]),
        ("<tr><th>A<th>B<tr><th colspan=2>May<tr><td>1<td>2", ["A | B", "May", "A: 1 | B: 2"]),
        ("<tr><th>A<th>B<tr><th scope=row>x<td>2", ["A | B", "A: x | B: 2"]),
        (
            "<thead><tr><th rowspan=2>A<th colspan=2>B<tr><th>C<th>D<tbody><tr><td>1<td>2<td>3<tr><td>4<td colspan=2>5",
            ["A | B", "C | D", "A: 1 | B C: 2 | B D: 3", "A: 4 | B: 5"],
        ),
    ],
)
def test_tables(rows: str, expected: list[str]) -> None:
    assert lines(f"<table>{rows}</table>") == expected


def test_a_layout_table_by_its_own_word_has_no_rows() -> None:
    assert lines("<table role=presentation><tr><td>a<td>b</table>") == ["a", "b"]


def test_the_text_of_a_row_is_what_the_page_says_once() -> None:
    document = read("<table><tr><th>A<th>B<tr><td rowspan=2>1<td>2<tr><td>3</table>")
    assert document.text == "A B\n1 2\n3"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<dl><dt>A<dd>1<dt>B:<dd>2</dl>", ["A: 1", "B: 2"]),
        ("<dl><dt>A<dd>1<dd>2</dl>", ["A: 1", "A: 2"]),
        ("<dl><dt>A<dt>B<dd>1</dl>", ["A, B: 1"]),
        ("<dl><div><dt>A</dt><dd>1</dd></div></dl>", ["A: 1"]),
        ("<dl><dt>A</dl>", ["A:"]),
        ("<dl><dd>1</dl>", ["1"]),
        ("<dl><dt>A<dd><ul><li>1<li>2</ul></dl>", ["A: 1; 2"]),
        ("<dl><dt>A<dd><h2>T</h2>x</dl>", ["A:", "## T", "x"]),
        ("<dl><dt><h3>Q</h3><dd>a</dl>", ["### Q", "a"]),
        ("<dl><dt>A<dd><dl><dt>B<dd>1</dl></dl>", ["A:", "B: 1"]),
        ("<dl><dt></dt><dd>1</dl>", ["1"]),
        ("<dl><dt>A<dd>✓<dt>B<dd>✓</dl>", ["A: ✓", "B: ✓"]),
    ],
)
def test_definitions(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<div><div class=label>A</div><div class=value>1</div></div>", ["A: 1"]),
        ("<li><span class=spec-name>A</span><span class=spec-value>1</span></li>", ["- A: 1"]),
        ("<p><span class=label>A: </span><span class=value>1</span>", ["A: 1"]),
        ("<div>A:<br>1</div>", ["A: 1"]),
        ("<div><p>A:</p><p>1</p></div>", ["A: 1"]),
        ("<div><p>A</p><p>1</p></div>", ["A", "1"]),
        ("<div><p>A:</p><p>B:</p></div>", ["A:", "B:"]),
        ("<div><p>A:</p><p>✓</p><p>B:</p><p>–</p><p>›</p></div>", ["A:", "✓", "B:", "–"]),
        ("<div><div class=label>A</div><div class=value>∞</div></div>", ["A: ∞"]),
        ("<div><p>A:</p><ul><li>1</li><li>2</li></ul></div>", ["A:", "- 1", "- 2"]),
        ("<div><h3>A:</h3><p>1</p></div>", ["### A:", "1"]),
        ("<div><div class=title>A</div><div class=text>1</div></div>", ["A", "1"]),
        ("<pre>A:\n1</pre>", ["A:", "1"]),
        (f"<div><p>{'A' * 61}:</p><p>1</p></div>", ["A" * 61 + ":", "1"]),
    ],
)
def test_labels_and_values_of_any_mark_up(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<nav aria-label=breadcrumb><ol><li>A<li>/<li>B</ol></nav><p>x", ["Breadcrumb: A > B", "x"]),
        ("<p>x<div class=breadcrumbs><a href=a>A</a> » B</div>", ["x", "Breadcrumb: A » B"]),
        ("<nav class=breadcrumb><h2>You are here</h2><p>A</nav>", ["## You are here", "A"]),
    ],
)
def test_breadcrumbs_are_one_line_of_content(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


def test_link_share_is_the_part_of_the_text_in_links() -> None:
    document = read("<p><a href=a>abcd</a> efg<p>x<p><a href=b>yz</a><dl><dt>k<dd><a href=c>vv</a></dl>")
    assert [block.link_share for block in document.blocks] == [0.5, 0.0, 1.0, 0.5]


def test_hidden_text_is_dropped_and_counted() -> None:
    document = read("<p>x<p hidden>abc<div style='visibility:hidden'><b>de</b> f</div><p style='DISPLAY:none'>g")
    assert document.text == "x"
    assert document.hidden_characters == 3 + 2 + 1 + 1


def test_noscript_is_read_only_where_there_is_nothing_else() -> None:
    assert lines("<p>x</p><noscript><p>y</p></noscript>") == ["x"]
    assert lines("<div></div><noscript><p>y</p></noscript>") == ["y"]


def test_links_are_numbered_once_and_absolute() -> None:
    document = read(
        "<base href=/c/><a href=d>D</a> <a href='d'><img alt=pic></a> <a href='../e f'></a>"
        "<a href=mailto:a@b.c>m</a> <a href=javascript:x()>js</a> <a href=#top>top</a> <a href='http://[bad'>?</a>"
        "<a>none</a>",
        link_marks=True,
    )
    assert [(link.id, link.text, link.url) for link in document.links] == [
        ("L1", "D", "http://h.example/c/d"),
        ("L2", "", "http://h.example/e%20f"),
        ("L3", "m", "mailto:a@b.c"),
    ]
    assert document.blocks[0].line.startswith("D [L1]")
    assert "[L" not in document.text


def test_a_link_around_blocks_has_all_their_text() -> None:
    document = read("<a href=x><div>Title</div><div>£5</div></a>", link_marks=True)
    assert document.links[0].text == "Title £5"
    assert [block.line for block in document.blocks] == ["Title", "£5 [L1]"]


def test_images_are_their_words_once_and_never_tear_a_sentence() -> None:
    document = read("<p>see <img alt='A jar'> here</p><img alt='a jar'><img alt=''><img><p>Pot</p>")
    assert [(block.kind, block.line) for block in document.blocks] == [
        ("paragraph", "see here"),
        ("image", "[image] A jar"),
        ("paragraph", "Pot"),
    ]


@pytest.mark.parametrize(
    "wrapper",
    ["<nav>{}</nav>", "<footer>{}</footer>", "<div role=navigation>{}</div>", "<div class='x optanon-bar'>{}</div>"],
)
def test_what_is_not_content_is_kept_apart(wrapper: str) -> None:
    document = read("<p>x</p>" + wrapper.format("<ul><li>y</ul>"))
    assert [(block.kind, block.line) for block in document.blocks] == [("paragraph", "x"), ("other", "- y")]


def test_the_footer_of_an_article_is_content() -> None:
    assert [block.kind for block in read("<article><footer>by Ann</footer></article>").blocks] == ["paragraph"]


def test_the_head_speaks_last() -> None:
    document = read(
        "<html lang=de-AT><title> A\n&amp; b </title><meta name=Description content=' d  e '>"
        "<meta property=article:author content='https://x/ann'><meta name=author content=Ann>"
        "<meta property=og:site_name content='A & b'><meta itemprop=datePublished content=2026-01-02>"
        "<link rel=canonical href=http://h.example/c><body><p>x"
    )
    assert [block.line for block in document.blocks] == [
        "Title: A & b",
        "x",
        "Description: d e",
        "Author: Ann",
        "Published: 2026-01-02",
    ]
    assert (document.title, document.lang, document.blocks[0].kind) == ("A & b", "de-AT", "title")


def test_the_title_of_a_drawing_is_not_the_title_of_the_page() -> None:
    assert read("<svg><title>Logo</title></svg><p>x").title is None


# ---- shadow trees


def host(content: str, children: str = "", tag: str = "my-card", mode: str = "open") -> str:
    return f"<{tag}><template shadowrootmode={mode}>{content}</template>{children}</{tag}>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (host("<p>Teapot price 12</p>"), ["Teapot price 12"]),
        (host("<p>a", mode="closed"), ["a"]),
        (host("<p>a", tag="section"), ["a"]),
        (host("<p>a<slot></slot>c</p>", "b"), ["abc"]),
        (host("<h2><slot name=t>none</slot></h2><slot></slot>", "x <b slot=t>T</b> y"), ["## T", "x y"]),
        (host("<h2><slot name=t>none</slot></h2>", "<p>rest"), ["## none", "rest"]),
        (host("<slot>none</slot>", " \n "), ["none"]),
        (host("<p>a</p>", "<p>b<p slot=no>c"), ["a", "b", "c"]),
        (host("<slot name=a><slot name=b></slot></slot>", "<p slot=a>a<p slot=b>b"), ["a", "b"]),
        (host(f"<p>a{host('<i>[<slot></slot>]</i>', '<slot></slot>')}", "b"), ["a[b]"]),
        (host("<p>a<template shadowrootmode=open>b</template>"), ["ba"]),
        ("<p>x" + host("a", tag="ul"), ["x"]),
        ("<p>x" + host("a", mode="x"), ["x"]),
        ("<p>x<my-card><template><p>a</template></my-card>", ["x"]),
        (host("<p>a") + host("<p>b", "<template shadowrootmode=open><p>c</template>"), ["a", "b"]),
        (host("<style>p{}</style><p hidden>s</p><p>a"), ["a"]),
    ],
)
def test_a_declared_shadow_tree_is_read_with_its_slots(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


def test_no_selector_leads_into_a_shadow_tree() -> None:
    document = read(
        f"<p id=a>x</p>{host('<p id=a>y<b id=c>z</b><p><slot></slot>', '<i>w</i><div id=d>v</div>')}<p>u</p>"
    )
    assert [(block.text, block.css_path) for block in document.blocks] == [
        ("x", "#a"),
        ("yz", "body>my-card"),
        ("w", "body>my-card"),
        ("v", "#d"),
        ("u", "body>p:nth-of-type(2)"),
    ]
