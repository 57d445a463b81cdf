"""Pages as a whole: exact offsets, selectors that lead back, hostile mark-up, empty pages, real pages."""

from __future__ import annotations

import gzip
import json
import resource
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from selectolax.lexbor import LexborHTMLParser

from fetchly.document import dom
from fetchly.document.clean import collapse
from fetchly.document.decode import decode
from fetchly.document.reader import ReadOptions, read_document
from fetchly.errors import DocumentError
from fetchly.goods import Document, Page
from tests.support.shared_data import shared_path

GOLDEN = Path(__file__).parents[3] / "golden" / "documents"


def page_of(body: str | bytes) -> Page:
    data = body.encode() if isinstance(body, str) else body
    return Page("-", "https://bees.example/shop/heather", 200, (), data, media_type="text/html", charset=None)


def shown(document: Document) -> str:
    """A document in words, one block in a line or two: what the golden files hold."""
    parts = [
        f"url {document.url}",
        f"title {document.title}",
        f"lang {document.lang}",
        f"hidden {document.hidden_characters}",
        f"data left out {document.left_out_data}",
    ]
    for block in document.blocks:
        parts.append(f"{block.kind:<10}|{block.line}|")
        if block.text != block.line:
            parts.append(f"{'':<10}={block.text}=")
        parts.append(f"{'':<10}@{block.css_path}")
    parts += [f"{link.id} {link.url} {link.text} @{link.css_path}" for link in document.links]
    return "\n".join(parts) + "\n"


def check_offsets(document: Document) -> None:
    position = 0
    for block in document.blocks:
        assert document.text[block.start : block.end] == block.text
        assert block.start == position
        assert block.text
        assert block.text == collapse(block.text)
        position = block.end + 1
    assert document.text == "\n".join(block.text for block in document.blocks)


def check_paths(document: Document, html: str) -> None:
    """Every selector leads to one element of the page, and the block's words stand in it."""
    parser = LexborHTMLParser(html)
    parser.strip_tags(["rp", "rt"])  # the reading aid of ruby text
    for block in document.blocks:
        found = parser.css(block.css_path)
        assert len(found) == 1, block.css_path
        element = found[0]
        if element.tag == "script":
            continue  # JSON: its strings are escaped
        owner = element.parent if element.tag in ("dd", "img") and element.parent is not None else element
        words = "".join(collapse(owner.text()).split())
        missing = [word for word in block.text.split() if word not in words]
        if missing:  # what attributes say: alt, content, datetime, href
            values = [value for node in owner.css("*") for value in node.attributes.values() if value]
            words = "".join(collapse(unquote("\n".join([*values, words]))).split())
            for word in missing:
                assert word.strip("(),.") in words, (block.css_path, word)


@pytest.mark.parametrize("name", sorted(file.stem for file in GOLDEN.glob("*.html")))
def test_golden_documents(name: str) -> None:
    html = (GOLDEN / f"{name}.html").read_bytes()
    document = read_document(page_of(html), ReadOptions(link_marks=True))
    assert shown(document) == (GOLDEN / f"{name}.txt").read_text("utf-8")
    check_offsets(document)
    check_paths(document, decode(html).text)


def dev_pages(count: int) -> list[bytes]:
    shared = shared_path()
    if shared is None:
        pytest.skip("needs the shared pages beside the checkout")
    pages: list[bytes] = []
    for name in ("recipes", "articles", "wcxb", "products", "swde", "contacts"):
        with (shared / "data" / name / "dev.jsonl").open(encoding="utf-8") as records:
            for _, line in zip(range(count), records, strict=False):
                identifier = json.loads(line)["id"]
                pages.append(gzip.decompress((shared / "data" / name / "html" / f"{identifier}.html.gz").read_bytes()))
    return pages


def test_real_pages_have_exact_offsets_and_selectors_that_lead_back() -> None:
    pages = dev_pages(4)
    assert len(pages) >= 20
    for body in pages:
        document = read_document(page_of(body))
        check_offsets(document)
        check_paths(document, decode(body).text)


@pytest.mark.parametrize(
    "body",
    [
        "<div></div>",
        "<title>Shop</title><div id=root></div><script>render()</script>",
        "<p hidden>secret</p>",
        "<img src=x alt=''>",
        "<p>&nbsp;\u200b</p>",
        "<meta name=description content=x>",
    ],
)
def test_a_page_without_text_is_empty(body: str) -> None:
    with pytest.raises(DocumentError) as failed:
        read_document(page_of(body))
    assert failed.value.code == "DOCUMENT_EMPTY"
    assert "\n" not in failed.value.line()


def test_plain_text_is_read_line_by_line() -> None:
    document = read_document(Page("-", None, None, (), b"Milk & <bread>\n\n  2 eggs\r\n", media_type="text/plain"))
    assert [block.line for block in document.blocks] == ["Milk & <bread>", "  2 eggs"]
    assert document.url is None


def test_standard_input_has_no_base_for_links() -> None:
    document = read_document(Page("-", None, None, (), b"<a href=/a>x</a><a href=http://h/b>y</a>"))
    assert [link.url for link in document.links] == ["/a", "http://h/b"]


# ---- hostile mark-up

HOSTILE = {
    "nested divs": "<div>" * 5000 + "deep",
    "nested divs with text": "<div>x" * 5000,
    "nested spans": "<span>" * 20_000 + "deep",
    "nested lists": "<ul><li>x" * 3000,
    "nested tables": "<table><tr><td>x" * 2000,
    "options": "<select>" + "<option>a" * 10_000 + "</select><p>x",
    "rowspans": "<table>"
    + "<tr>"
    + "<td rowspan=65534 colspan=1000>x" * 2000
    + "</tr>"
    + "<tr><td>y" * 2000
    + "</table>",
    "wide header": "<table><tr>" + "<th>" + "h" * 79 + "</th><th>b</th>" + "<tr><td>1<td>2" * 5000 + "</table>",
    "long header": "<table><tr><th>" + "h" * 100_000 + "<th>b" + "<tr><td>1<td>2" * 2000 + "</table>",
    "terms": "<dl>" + "<dt>a" * 5000 + "<dd>b</dl>",
    "unclosed tags": "<a <a <a <a " * 5000 + ">x",
    "angle brackets": "x" + "<" * 200_000,
    "same id": "<p id=a>x" * 5000,
    "entities": "x" + "&amp;" * 100_000,
    "svg": "<p>y<svg>" + "<g>" * 3000,
    "nested banners": "<div class=cookie>x" * 5000,
    "banners": "<div class=cookie-banner>x</div>" * 10_000 + "<p>" + "y" * 20_000,
    "labels": "<p>" + "<i class=label>a</i><i class=value>b</i>" * 20_000,
    "links side by side": "<p>" + "<a href=x>a</a>" * 20_000,
    "panels": "<div class=tabs>" + "<p></p>" * 5000 + "<p>x</p>" + "<div hidden>y</div>" * 10_000,
    "nested panels": "<p>x" + "<div role=tabpanel hidden>x" * 4000,
    "nested pictures": "<div role=img aria-label=x><b></b>" * 4000 + "y",
    "nested values": "x<div itemscope>" + "<div itemprop=a>x" * 5000,
    "panels behind text": "<div class=tabs>"
    + ("<p>" + "<i></i>" * 100 + "</p>") * 90
    + "<p>x</p>"
    + "<div hidden>y</div>" * 10_000
    + "</div>",
    "wide panels": "<div class=tabs><p>" + "<i></i>" * 50_000 + "</p>" + "<div hidden>y</div>" * 5000 + "</div>x",
    "names that CSS escapes": "<p>x" + "<o:p>a<p>b</p></o:p>" * 16_000,
    "items with one reference": "<p>x<p id=big>"
    + "<i></i>" * 20_000
    + "</p>"
    + "<div itemscope itemref=big></div>" * 1000,
    "things left out": "<p>x<div itemscope itemtype=x/Product itemref=p><b itemprop=name>n</b></div><p id=p>"
    + "<i itemscope itemprop=sameAs itemref=p></i>" * 4000,
    "a long list": "<p>x<script type='application/ld+json'>"
    + '{"@type":"ItemList","itemListElement":['
    + '{"@type":"Product","name":"a"},' * 20_000
    + "{}]}</script>",
    "commas": "<p>x<script type='application/ld+json'>{" + ", /* */" * 100_000 + "</script>",
    "shadow trees in each other": "x" + "<my-a><template shadowrootmode=open><slot></slot>a" * 2000,
    "controls": "<button aria-controls=a></button>" * 20_000 + "<div id=a hidden>y</div>" * 20_000 + "x",
    "items": "x" + "<div itemscope itemprop=a itemref=z>" * 4000,
    "typed": "x" + "<div typeof=T property=p>" * 4000,
    "long script": '<p>x<script type="application/ld+json">' + '{"@type":"T","a":[' + "1," * 50_000 + "1]}</script>",
    "open quotes": "<p>x<script type='application/ld+json'>" + '\\"' * 200_000 + "</script>",
    "spaces": "<p>x<script type='application/ld+json'>" + "a" + " " * 500_000 + "a</script>",
    "open comments": "<p>x<script type='application/ld+json'>" + "/*" * 200_000 + "</script>",
    "open tags": '<p>x<script type="application/ld+json">{"a":"' + "<style><style" * 2000 + '"}</script>',
    "image titles": "".join(f"<img alt={i}>" for i in range(5000)),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_pages_are_read_quickly(name: str) -> None:
    start = time.process_time()
    document = read_document(page_of(HOSTILE[name]))
    check_offsets(document)
    assert sum(len(block.line) + len(block.css_path) for block in document.blocks) < 30_000_000
    assert time.process_time() - start < 4  # hours, without the guards


@pytest.mark.parametrize(
    "body",
    [
        "<div>" * 400_000,
        "<p>" + "".join(f"<font color={i}>" for i in range(3000)) + "</p>" + "<p>x" * 3000,
    ],
)
def test_what_would_take_minutes_or_gigabytes_is_refused_before_parsing(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dom, "LexborHTMLParser", None)  # calling it would fail the test
    with pytest.raises(DocumentError) as failed:
        read_document(page_of(body))
    assert failed.value.code == "DOCUMENT_TOO_COMPLEX"


def test_a_deep_page_of_text_is_read_whole() -> None:
    document = read_document(page_of("<div>" * 5000 + "deep"))
    assert document.text == "deep"
    assert document.blocks[0].css_path.count(">") <= dom.MAX_PATH_DEPTH


def test_two_megabytes_are_read_in_bounded_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body = "<html><body>" + "<p>A line of <b>honest</b> text, number 7</p>" * 47_000
    assert len(body) > 2_000_000
    assert len(read_document(page_of(body)).blocks) == 47_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB


def test_a_long_script_that_looks_like_a_tag_is_read() -> None:
    body = "<script>if(a<b){" + "x = y ; " * 20_000 + "}</script><p>fine</p>"
    assert read_document(page_of(body)).text == "fine"


@pytest.mark.parametrize(
    ("body", "rendered", "hint"),
    [
        (b"<div id=app></div>", False, "--render always"),
        (b"<div id=app></div>", True, "save it from a browser"),
        (b"<p hidden>secret", False, "--keep-hidden"),
    ],
)
def test_a_page_without_text_says_what_may_bring_it(body: bytes, rendered: bool, hint: str) -> None:
    page = Page(requested="x", url=None, status=None, headers=(), body=body, rendered=rendered)
    with pytest.raises(DocumentError) as failed:
        read_document(page)
    assert failed.value.code == "DOCUMENT_EMPTY"
    assert hint in (failed.value.hint or "")
