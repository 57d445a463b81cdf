"""Any soup of tags gives a document whose offsets are exact and whose selectors lead to one element."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from fetchly.document.clean import collapse
from fetchly.document.decode import decode
from fetchly.document.reader import ReadOptions, read_document
from fetchly.errors import DocumentError
from fetchly.goods import Page

NAMES = (
    "div p span b a li ul ol table tr td th thead tbody dl dt dd h1 h2 pre br img nav footer section select option svg "
    "title noscript template button label form o:p x-y math details dialog time main article"
)
ATTRIBUTES = (
    '| id="a"| id="B"| id="1x"| hidden=""| style="display:none"| href="/x"| alt="pic"| rowspan="2"| colspan="3"'
    '| class="cookie"| role="navigation"| style="display:block"| class="label"| class="value"| class="breadcrumb"'
    '| src="/p.jpg"| role="tabpanel" hidden=""| itemscope=""| itemprop="a"| itemprop="b" itemscope=""| itemref="a B"'
    '| vocab="https://schema.org" typeof="T"| property="p"| datetime="2026-01-02"| id="S:1" hidden=""| aria-label="n"'
)
TAGS = st.builds(
    lambda close, name, attribute: f"</{name}>" if close else f"<{name}{attribute}>",
    st.booleans(),
    st.sampled_from(NAMES.split()),
    st.sampled_from(ATTRIBUTES.split("|")),
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=12)
SOUP = st.lists(st.one_of(TAGS, TEXTS, st.sampled_from(["<!-- c -->", "&amp;", "<", "\n", " "])), max_size=60).map(
    "".join
)


KEYS = ["@type", "@id", "@graph", "@list", "@value", "name", "text", "offers", "item", "itemListElement"]
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.just("https://h/x")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(KEYS), inner),
    ),
    max_leaves=20,
)
SCRIPTS = JSON.map(lambda value: f'<script type="application/ld+json">{json.dumps(value)}</script>')


@settings(max_examples=250, deadline=None)
@given(st.lists(st.one_of(SOUP, SCRIPTS), max_size=3).map("".join), st.booleans(), st.booleans())
def test_soup(soup: str, link_marks: bool, keep_hidden: bool) -> None:
    body = soup.encode()
    options = ReadOptions(link_marks=link_marks, keep_hidden=keep_hidden)
    try:
        document = read_document(Page("-", "http://h/", 200, (), body, media_type="text/html"), options)
    except DocumentError as error:
        if error.code not in ("DOCUMENT_EMPTY", "DOCUMENT_NOT_HTML"):
            raise
        return
    parser = LexborHTMLParser(decode(body).text)
    position = 0
    for block in document.blocks:
        assert document.text[block.start : block.end] == block.text
        assert (block.start, block.text) == (position, collapse(block.text))
        assert block.text
        assert "\n" not in block.line
        position = block.end + 1
        assert len(parser.css(block.css_path)) == 1, block.css_path
    for link in document.links:
        assert len(parser.css(link.css_path)) == 1, link.css_path
    assert len({link.id for link in document.links}) == len(document.links)
    kinds = [block.kind for block in document.blocks if block.kind in ("data", "other")]
    assert kinds == sorted(kinds)  # `data`, then `other`, last of all
    assert {block.kind for block in document.blocks[len(document.blocks) - len(kinds) :]} <= {"data", "other"}


WORDS = st.text(st.characters(categories=("Lu", "Ll", "Nd")), min_size=1, max_size=6)
INLINE = st.sampled_from(("b", "i", "em", "span", "a", "font", "sup", "code", "mark"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(WORDS, INLINE, st.booleans()), min_size=1, max_size=12))
def test_inline_text_is_never_glued_or_torn(parts: list[tuple[str, str, bool]]) -> None:
    """A space stands between two words exactly where the page has one, whatever inline element each stands in."""
    body = "".join(f"{' ' if spaced else ''}<{tag}>{word}</{tag}>" for word, tag, spaced in parts)
    document = read_document(Page("-", None, 200, (), f"<meta charset=utf-8><p>{body}</p>".encode()))
    expected = ""
    for position, (word, tag, spaced) in enumerate(parts):
        links = tag == "a" and position > 0 and parts[position - 1][1] == "a"  # two links are two things
        expected += (" " if spaced or links else "") + word
    assert document.text == collapse(expected)


@settings(max_examples=100, deadline=None)
@given(WORDS, st.integers(1, 400), st.sampled_from(["&#8203;", "&shy;", "\u2060", "<i style='display:none'>x</i>"]))
def test_hidden_characters_never_tear_a_word(word: str, count: int, hidden: str) -> None:
    body = "".join(hidden * count + char for char in word)
    document = read_document(Page("-", None, 200, (), f"<meta charset=utf-8><p>{body}</p>".encode()))
    assert document.text == word
    assert document.hidden_characters == (0 if hidden == "&shy;" else count * len(word))
