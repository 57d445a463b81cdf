"""Any soup of tags gives a document whose offsets are exact and whose selectors lead to one element."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from fetchly.document.clean import collapse
from fetchly.document.decode import decode
from fetchly.document.reader import read_document
from fetchly.errors import DocumentError
from fetchly.goods import Page

NAMES = (
    "div p span b a li ul ol table tr td th thead tbody dl dt dd h1 h2 pre br img nav footer section select option svg "
    "title noscript template button label form o:p x-y math details dialog"
)
ATTRIBUTES = (
    '| id="a"| id="B"| id="1x"| hidden=""| style="display:none"| href="/x"| alt="pic"| rowspan="2"| colspan="3"'
    '| class="cookie"| role="navigation"| style="display:block"'
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


@settings(max_examples=250, deadline=None)
@given(SOUP)
def test_soup(soup: str) -> None:
    body = soup.encode()
    try:
        document = read_document(Page("-", "http://h/", 200, (), body, media_type="text/html"), link_marks=True)
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
    assert len({link.url for link in document.links}) == len(document.links)
