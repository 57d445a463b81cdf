"""Public reports about the cleaning of pages in other tools, each with what must hold here."""

from __future__ import annotations

import threading

import pytest

from fetchly.document.reader import ReadOptions, read_document
from fetchly.goods import Document, Page


def read(body: str, *, url: str = "http://h.example/a/b", link_marks: bool = False) -> Document:
    page = Page("-", url, None, (), body.encode(), media_type="text/html")
    return read_document(page, ReadOptions(link_marks=link_marks))


def lines(body: str) -> list[str]:
    return [block.line for block in read(body).blocks]


# scrapy gh:7042 (a relative URL ignored <base>)
@pytest.mark.parametrize("base", ["/x/", "http://h.example/x/", "../x/"])
def test_relative_addresses_obey_the_base(base: str) -> None:
    document = read(f"<head><base href={base}></head><a href=y>y</a><img src=z.jpg alt=z>")
    assert [link.url for link in document.links] == ["http://h.example/x/y", "http://h.example/x/z.jpg"]


# crawl4ai#1920, crawl4ai#2007, crawl4ai#1327 (spans were stripped, values moved to wrong columns)
def test_rows_below_a_rowspan_keep_their_columns() -> None:
    assert lines(
        "<table><tr><th>Size<th>Colour<th>Price<tr><td rowspan=2>L<td>red<td>5<tr><td>blue<td>6"
        "<tr><td colspan=2>any<td>7</table>"
    ) == [
        "Size | Colour | Price",
        "Size: L | Colour: red | Price: 5",
        "Size: L | Colour: blue | Price: 6",
        "Size: any | Price: 7",
    ]


# html-to-markdown#233 (a table with a colspan became a list)
def test_a_table_with_a_spanning_first_row_stays_a_table() -> None:
    document = read("<table><tr><td colspan=2>Prices<tr><td>Tea<td>3</table>")
    assert [(block.kind, block.line) for block in document.blocks] == [
        ("paragraph", "Prices"),
        ("table_row", "Tea | 3"),
    ]


# trafilatura#167, trafilatura#431, trafilatura#233, trafilatura#769 (nested lists merged, items lost)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "<ul><li>Coffee<li>Tea<ul><li>Black tea<li>Green tea</ul><li>Milk</ul>",
            ["- Coffee", "- Tea", "  - Black tea", "  - Green tea", "- Milk"],
        ),
        ("<ul><li><span>one</span><li><p>two</p><li><div><b>three</b></div></ul>", ["- one", "- two", "- three"]),
        ("<body><ul><li>a<ul><li>b<ul><li>c</ul></ul></ul>", ["- a", "  - b", "    - c"]),
    ],
)
def test_nested_lists_keep_every_item_apart(body: str, expected: list[str]) -> None:
    assert lines(body) == expected


# crawl4ai#453 (pruning left nothing of a product page)
def test_a_product_page_of_short_texts_is_read_whole() -> None:
    document = read(
        "<div class=product><h1>Pot</h1><span>£5</span><div>In stock</div><div><b>SKU</b> <i>7</i></div>"
        "<ul><li>clay</ul></div>"
    )
    assert [block.line for block in document.blocks] == ["# Pot", "£5", "In stock", "SKU 7", "- clay"]


# trafilatura#811 (snippets of different cards were merged)
def test_the_cards_of_a_listing_do_not_mix() -> None:
    card = "<div class=card><a href=/{0}><img src=/{0}.jpg><h3>Pot {0}</h3></a><span>£{0}</span><p>Text {0}.</p></div>"
    document = read("".join(card.format(n) for n in (1, 2, 3)))
    for number in (1, 2, 3):
        assert [block.text for block in document.blocks[3 * number - 3 : 3 * number]] == [
            f"Pot {number}",
            f"£{number}",
            f"Text {number}.",
        ]


# selectolax#217, selectolax#91, selectolax#135, selectolax#167, selectolax#5 (crashes on select, option, svg, template)
def test_huge_selects_and_odd_nesting_in_threads() -> None:
    body = (
        "<div><select>" + "<option selected>a" * 10_000 + "</select><svg><template><p>b</template></svg>"
        "<template><svg><select></template><p>text"
    )
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(read(body).text)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["b\ntext"] * 4  # a `<p>` ends the drawing around it


# selectolax#68 (`J ohn` after tags were unwrapped)
@pytest.mark.parametrize("tag", ["strong", "b", "i", "em", "u", "span", "font", "mark", "small", "code", "a"])
def test_a_word_across_inline_elements_is_one_word(tag: str) -> None:
    assert lines(f"<p><{tag}>J</{tag}>ohn <{tag}>D</{tag}><{tag} class=x></{tag}>oe</p>") == ["John Doe"]


# extruct#84, extruct#109, extruct#143, extruct#45 (one odd script lost all metadata)
def test_an_odd_script_does_not_cost_the_others() -> None:
    script = '<script type="application/ld+json">{}</script>'
    document = read(
        script.format('{"@type":"Product","name":"control\x0bcharacter"};')
        + script.format('{"@type":"Event","name":"broken"')
        + script.format('//<![CDATA[\n{"@type":"Person","name":"Ann",}\n//]]>')
        + script.format('<!-- {"@type":"Place","name":"Hall"} -->')
        + "<meta name=author content=Bo><p>x"
    )
    assert [block.line for block in document.blocks] == [
        "x",
        "Author: Bo",
        "Product name: control character",
        "Place name: Hall",
        "Person name: Ann",
    ]
    assert document.left_out_data == 1


# firecrawl#78, crawl4ai#1526 (nothing but the text of the cookie banner)
def test_the_banner_does_not_take_the_place_of_the_page() -> None:
    document = read(
        "<body><div id=cookie-consent-overlay style='position:fixed'><h2>Privacy</h2><p>We use cookies.</p>"
        "<button>Accept</button></div><main><h1>Bees</h1><p>They make honey all summer long.</p></main>"
    )
    assert [(block.kind, block.text) for block in document.blocks] == [
        ("heading", "Bees"),
        ("paragraph", "They make honey all summer long."),
        ("other", "Privacy"),
        ("other", "We use cookies."),
        ("other", "Accept"),
    ]
