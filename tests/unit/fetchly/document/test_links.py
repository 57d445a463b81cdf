"""Links and images: their addresses, their ids, their words."""

from __future__ import annotations

import pytest

from fetchly.document.links import in_charset
from fetchly.document.reader import ReadOptions, read_document
from fetchly.goods import Document, Page

MARKED = ReadOptions(link_marks=True)


def read(body: str, options: ReadOptions = MARKED) -> Document:
    page = Page("-", "http://h.example/a/b", None, (), body.encode(), media_type="text/html")
    return read_document(page, options)


def lines(body: str) -> list[str]:
    return [block.line for block in read(body).blocks]


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ("<img src=p.jpg>", "http://h.example/a/p.jpg"),
        ("<img src=//cdn.example/p.jpg>", "http://cdn.example/p.jpg"),
        ("<img src=data:image/gif;base64,R0 data-src=p.jpg>", "http://h.example/a/p.jpg"),
        ("<img src=/loading.gif data-lazy-src=/p.jpg>", "http://h.example/p.jpg"),
        ("<img src=/small.jpg data-original=/p.jpg>", "http://h.example/p.jpg"),
        ("<img src=/placeholder-300x200.png srcset='/s.jpg 300w, /p.jpg 900w'>", "http://h.example/p.jpg"),
        ("<img srcset='/s.jpg, /p.jpg 2x'>", "http://h.example/p.jpg"),
        ("<img srcset='/t/w_300,h_200/s.jpg 300w,/t/w_900,h_600/p.jpg 900w'>", "http://h.example/t/w_900,h_600/p.jpg"),
        ("<picture><source srcset='/p.webp 800w'><img src=/blank.gif></picture>", "http://h.example/p.webp"),
        ("<img src='p q.jpg'>", "http://h.example/a/p%20q.jpg"),
        ("<img src=/default-view-of-the-sea.jpg>", "http://h.example/default-view-of-the-sea.jpg"),
    ],
)
def test_the_address_of_a_picture_however_it_is_loaded(image: str, url: str) -> None:
    document = read(f"<p>x</p>{image}")
    assert [(link.id, link.url) for link in document.links] == [("I1", url)]
    assert document.blocks[1].line.endswith(" [I1]")
    assert document.links[0].css_path.endswith("img")


@pytest.mark.parametrize(
    "image",
    [
        "<img src=data:image/png;base64,AAAA>",
        "<img src=/spacer.gif>",
        "<img src=/p.jpg width=1 height=1>",
        "<img src='https://www.facebook.com/tr?id=1'>",
        "<img src=/img/icon-heart.png>",
        "<img src=/arrow.svg>",
        "<img src=/p.jpg width=16 height=16>",
        "<img class=avatar src=/p.jpg>",
        "<img>",
    ],
)
def test_what_is_no_picture_is_skipped(image: str) -> None:
    document = read(f"<p>x</p>{image}")
    assert [block.line for block in document.blocks] == ["x"]
    assert document.links == ()


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("<img src=/p.jpg alt='A jar'>", "[image] A jar [I1]"),
        ("<img src=/oak%20trivet.jpg>", "[image] oak trivet.jpg [I1]"),
        ("<img src=/517387f575fc2a99.jpg?w=3>", "[image] jpg [I1]"),
        ("<img src=/p/123/>", "[image] picture [I1]"),
        ("<img src=/red-pot.png alt='IMG_1.png'>", "[image] red-pot.png [I1]"),
        ("<img src=data:, alt='A jar'>", "[image] A jar"),
    ],
)
def test_the_words_of_a_picture(image: str, line: str) -> None:
    assert lines(f"<p>x</p>{image}") == ["x", line]


def test_without_marks_a_picture_is_its_words_alone() -> None:
    document = read("<p>x<img src=/p.jpg alt='A jar'><img src=/q.jpg>", ReadOptions())
    assert [block.line for block in document.blocks] == ["x", "[image] A jar"]
    assert [link.id for link in document.links] == ["I1", "I2"]


def test_pictures_that_look_alike_in_words_are_told_apart_by_their_ids() -> None:
    assert lines("<img src=/1.jpg alt=Pot><img src=/2.jpg alt=Pot><img src=/1.jpg alt=Pot>") == [
        "[image] Pot [I1]",
        "[image] Pot [I2]",
    ]


@pytest.mark.parametrize(
    ("link", "line", "text"),
    [
        ("<a href=/x>text</a>", "text [L1]", "text"),
        ("<a href=/x aria-label=Name><svg></svg></a>", "Name [L1]", "Name"),
        ("<a href=/x title=Name><i></i></a>", "Name [L1]", "Name"),
        ("<a href=/x><svg><title>Name</title></svg></a>", "Name [L1]", "Name"),
        ("<a href=/x><img src=/p.jpg alt=Pot></a>", "[image] Pot [I1] [L1]", "Pot"),
        ("<a href=/x><img src=/p.jpg alt=Pot><b>The pot</b></a>", "[image] Pot [I1]", "The pot"),
    ],
)
def test_the_name_of_a_link(link: str, line: str, text: str) -> None:
    document = read(f"<p>{link}</p>")
    assert document.blocks[0].line == line
    assert document.links[0].text == text


def test_ids_are_one_for_each_address() -> None:
    document = read("<a href=/x>a</a><p><a href='/x'>b</a><p><a href='../x'>c</a>")
    assert [block.line for block in document.blocks] == ["a [L1]", "b [L1]", "c [L1]"]
    assert [(link.id, link.text) for link in document.links] == [("L1", "a")]


def test_the_base_is_relative_to_the_page_and_holds_for_pictures() -> None:
    document = read("<base href=../c/><a href=d>x</a><img src=p.jpg alt=y>")
    assert [link.url for link in document.links] == ["http://h.example/c/d", "http://h.example/c/p.jpg"]


def test_long_and_odd_addresses_end() -> None:
    sources = ["x" * 5000, "," * 100_000, "a, " * 50_000, "http://[bad", "dot." * 1000 + "gif"]
    body = "".join(f"<img src='{source}' srcset='{source}'>" for source in sources)
    assert len(read(f"<p>x{body}").blocks) <= 3


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "<p>x<map name=m><area href=/c alt=Garden><area href=/d></map>",
            ["/c", "/d"],
        ),  # a reader clicks into a picture
        ("<p>x<map hidden><area href=/c></map>", ["/c"]),  # a map is never shown itself
        ("<p>x<div hidden><map><area href=/c></map></div>", []),
        ("<p>x<details><summary>More</summary><a href=/c>c</a></details>", ["/c"]),  # one click away
        ("<p>x<div style='display:none'><a href=/trap>win</a></div>", []),  # a honeypot, as often as a menu
        ("<p>x<a href=/trap hidden>win</a>", []),
        ("<p>x<dialog><a href=/c>c</a></dialog>", []),
        ("<p>x<a href=/c><span hidden>y</span></a>", ["/c"]),
        ("<link rel=next href=/2><p>x", []),  # no browser shows it; what it names is linked from the page, too
        ("<p>x<a href=javascript:go(2)>2</a><a href='#top'>up</a><a>no</a>", []),
        ("<p>x<nav><a href=/c>c</a></nav><footer><a href=/d>d</a></footer>", ["/c", "/d"]),
        ("<p>x<a rel=nofollow href=/c>c</a>", ["/c"]),
    ],
)
def test_links_are_what_a_reader_reaches(body: str, found: list[str]) -> None:
    assert [link.url.removeprefix("http://h.example") for link in read(body).links] == found


def test_the_parts_of_a_picture_have_their_words_and_leave_the_text_alone() -> None:
    document = read("<p>x</p><img src=/p.jpg usemap=#m alt=Plan><map name=m><area href=/c alt='The  garden'></map>")
    assert [block.line for block in document.blocks] == ["x", "[image] Plan [I1]"]
    assert [(link.id, link.text) for link in document.links] == [("L1", "The garden"), ("I1", "Plan")]


@pytest.mark.parametrize(
    ("charset", "query"),
    [
        ("windows-1251", "%E2%E0%F1%FF"),
        ("utf-8", "%D0%B2%D0%B0%D1%81%D1%8F"),
        ("utf-16le", "%D0%B2%D0%B0%D1%81%D1%8F"),
        ("no-such-charset", "%D0%B2%D0%B0%D1%81%D1%8F"),
        ("iso-8859-1", "%26%231074%3B%26%231072%3B%26%231089%3B%26%231103%3B"),  # as browsers say what they cannot
    ],
)
def test_a_query_is_sent_in_the_charset_of_its_page(charset: str, query: str) -> None:
    assert in_charset("http://h/вася?a=%20&q=вася&b", charset) == f"http://h/вася?a=%20&q={query}&b"
    assert in_charset("http://h/вася?a", charset) == "http://h/вася?a"
