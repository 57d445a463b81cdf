from __future__ import annotations

from typing import Any

import pytest

from fetchly.document.reader import read_document
from fetchly.extraction.grounding import LONGEST_EXCERPT, Grounder, excerpt
from fetchly.extraction.text_search import fold
from fetchly.goods import Block, BlockKind, Document, Evidence, Link, Page
from tests.support.documents import make_document


def page(*blocks: tuple[str, str] | tuple[str, str, BlockKind], links: tuple[Link, ...] = ()) -> Document:
    """(text, CSS path, kind) of each block."""
    made: list[Block] = []
    at = 0
    for text, path, *kind in blocks:
        made.append(Block(kind[0] if kind else "paragraph", text, text, path, at, at + len(text)))
        at += len(text) + 1
    return Document("https://shop.test/", None, "en", "\n".join(b[0] for b in blocks), tuple(made), links)


def paths(document: Document, value: Any, **more: Any) -> dict[str, str | None]:
    return {pointer: found.css_path for pointer, found in Grounder(document).evidence(value, **more).items()}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("Blue Kettle", "Blue Kettle"),
        ("blue  kettle", "Blue Kettle"),
        ('the "best" one', "The “best”\u00a0one"),
        ("cafe\u0301", "Café"),
        ("1/2 cup", "½ cup"),
        ("soft-hyphen", None),
        ("well known", "well\u00ad known"),
        ("日本", "日本"),
        ("Kettle The", None),
        ("Kettle\nThe", None),
        ("cafe", None),
        ("", None),
        ("  ", None),
    ],
)
def test_places(value: str, found: str | None) -> None:
    document = make_document(
        "Blue Kettle", "The “best”\u00a0one", "Café", "½ cup", "well\u00ad known", "私は日本人です"
    )
    evidence = Grounder(document).evidence(value)[""]
    assert evidence.found is (found is not None)
    if found is not None:
        assert document.text[evidence.start : evidence.end] == found
        assert evidence.text is not None
        assert found in evidence.text


def test_whole_words_come_first() -> None:
    document = make_document("In 2024 we sold", "4 pieces")
    evidence = Grounder(document).evidence("4")[""]
    assert evidence.text == "4 pieces"
    assert evidence.css_path == "body>p:nth-of-type(2)"


def test_entries_of_a_list_get_their_own_places_in_reading_order() -> None:
    document = make_document("A: 5 €", "B: 5 €", "C: 5 €")
    found = Grounder(document).evidence(["5 €", "5 €", "5 €"])
    assert [found[f"/{i}"].start for i in range(3)] == [3, 10, 17]


def test_a_list_runs_on_between_what_is_certain() -> None:
    document = make_document("salt", "Dough", "flour", "salt", "Filling", "salt", "apples", "salt")
    found = Grounder(document).evidence({"items": ["flour", "salt", "salt", "apples", "salt"]})
    assert [found[f"/items/{i}"].start for i in range(5)] == [11, 17, 30, 35, 42]


def test_every_value_has_an_entry_and_null_has_none() -> None:
    document = make_document("Price 1.234,50 €", "Red", "Blue")
    record = {"price": 1234.5, "colours": ["Red", "Green"], "open": True, "n~/": "Blue", "none": None, "count": 3}
    evidence = Grounder(document).evidence(record, {"/price": "1.234,50 €"})
    assert {k: v.found for k, v in evidence.items()} == {
        "/price": True,
        "/colours/0": True,
        "/colours/1": False,
        "/open": False,
        "/n~0~1": True,
        "/count": False,
    }
    price = evidence["/price"]
    assert document.text[price.start : price.end] == "1.234,50 €"
    assert evidence["/colours/1"] == Evidence(found=False)


CARDS = [("Hazel", "12 €", "In stock"), ("Birch", "12 €", "Sold out"), ("Oak", "12 €", "In stock")]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("nested", [True, False])
def test_cards_do_not_mix(order: tuple[int, int, int], nested: bool) -> None:
    """Every price stands in every card, before or after its name, with and without an element for each card."""
    blocks: list[tuple[str, str]] = [("From 12 €", "body>nav>a")]
    for number, card in enumerate(CARDS, 1):
        for field in order:
            tag = ("h3", "b", "i")[field]
            where = f"li:nth-of-type({number})>{tag}" if nested else f"{tag}:nth-of-type({number})"
            blocks.append((card[field], f"body>ul>{where}"))
    document = page(*blocks, ("12 € shipping: In stock", "body>footer"))
    record = [{"name": name, "price": 12, "state": state} for name, _, state in CARDS]
    found = paths(document, record, spans={f"/{i}/price": "12 €" for i in range(3)})
    for number in range(1, 4):
        card = f"body>ul>li:nth-of-type({number})>TAG" if nested else f"body>ul>TAG:nth-of-type({number})"
        assert found[f"/{number - 1}/price"] == card.replace("TAG", "b")
        assert found[f"/{number - 1}/state"] == card.replace("TAG", "i")


def test_a_reader_s_place_comes_before_a_machine_s() -> None:
    document = page(
        ("Blue Kettle | Shop", "head>title", "title"),
        ("Home > Blue Kettle", "body>nav", "other"),
        ("Blue Kettle", "body>main>h1", "heading"),
        ("19 €", "body>main>p"),
        ("name: Blue Kettle", "head>script", "data"),
        ("price: 19 €", "head>script", "data"),
        ("sku: 77", "head>script", "data"),
    )
    found = paths(document, {"sku": "77", "name": "Blue Kettle", "price": "19 €"})
    assert found == {"/sku": "head>script", "/name": "body>main>h1", "/price": "body>main>p"}


def test_a_label_decides_between_equals() -> None:
    document = page(("Regular price: 10", "body>p:nth-of-type(1)"), ("Weight: 10", "body>p:nth-of-type(2)"))
    assert paths(document, {"weight": 10, "x": None}, spans={"/weight": "10"}) == {"/weight": "body>p:nth-of-type(2)"}
    document = page(("Weight", "body>dt"), ("10", "body>dd:nth-of-type(1)"), ("10", "body>dd:nth-of-type(2)"))
    assert paths(document, {"weight": 10}, spans={"/weight": "10"}) == {"/weight": "body>dd:nth-of-type(1)"}
    document = page(("10", "body>dd:nth-of-type(1)"), ("Net weight", "body>dt"), ("10", "body>dd:nth-of-type(2)"))
    assert paths(document, {"netWeight": 10}, spans={"/netWeight": "10"}) == {"/netWeight": "body>dd:nth-of-type(2)"}


def test_a_nested_object_stays_near_its_own() -> None:
    document = page(
        ("Berlin", "body>header>p"),
        ("Ada Lovelace", "body>main>div:nth-of-type(1)>h2"),
        ("Berlin", "body>main>div:nth-of-type(1)>p"),
        ("Alan Turing", "body>main>div:nth-of-type(2)>h2"),
        ("Berlin", "body>main>div:nth-of-type(2)>p"),
    )
    record = {"people": [{"name": n, "address": {"city": "Berlin"}} for n in ("Ada Lovelace", "Alan Turing")]}
    found = paths(document, record)
    assert found["/people/0/address/city"] == "body>main>div:nth-of-type(1)>p"
    assert found["/people/1/address/city"] == "body>main>div:nth-of-type(2)>p"


def test_the_nearest_in_the_tree_comes_before_the_nearest_in_the_text() -> None:
    """Paths as the reader writes them: a card's own price is four blocks away, the next card's one."""

    def card(*lines: str) -> str:
        return "<div>" * 5 + "".join(f"<p>{line}" for line in lines) + "</div>" * 5

    html = card("Price 10", "aa", "bb", "cc", "dd", "Alpha") + card("Price 10", "ee", "ff", "Beta")
    document = read_document(Page("-", None, None, (), f"<html lang=en><body>{html}".encode()))
    for number, name in ((1, "Alpha"), (2, "Beta")):
        found = paths(document, {"name": name, "cost": "10"})
        assert found["/cost"] == f"body>div:nth-of-type({number})>div>div>div>div>p:nth-of-type(1)"


def test_a_url_is_where_its_link_is() -> None:
    links = (
        Link("L1", "Read more", "https://shop.test/1", "body>article:nth-of-type(1)>a"),
        Link("L2", "Read more", "https://shop.test/2", "body>article:nth-of-type(2)>a"),
        Link("I1", "", "https://shop.test/1.png", "body>img"),
    )
    document = page(
        ("One Read more", "body>article:nth-of-type(1)"),
        ("Two Read more", "body>article:nth-of-type(2)"),
        links=links,
    )
    record = {"url": "https://shop.test/2", "image": "https://shop.test/1.png"}
    found = Grounder(document).evidence(record, links={"/url": "L2", "/image": "I1"})
    assert found["/url"] == Evidence(True, "body>article:nth-of-type(2)>a", "Read more", 18, 27)
    assert found["/image"] == Evidence(True, "body>img", "", None, None)


def test_evidence_is_short_and_its_offsets_exact() -> None:
    text = " ".join(f"word{i}" for i in range(2000)) + " needle " + " ".join(f"tail{i}" for i in range(2000))
    document = make_document("first", text)
    found = Grounder(document).evidence("needle")[""]
    assert found.text is not None
    assert len(found.text) <= LONGEST_EXCERPT
    assert document.text[found.start : found.end] == "needle"
    assert found.text.startswith("…word")
    assert " needle " in found.text
    words = found.text.strip("…").split(" ")
    assert set(words) <= set(text.split(" "))


@pytest.mark.parametrize("start", [0, 1, 150, 299, 300, 450, 1999])
@pytest.mark.parametrize("length", [1, 50, 290, 298, 300, 900])
@pytest.mark.parametrize("filler", ["x", "ab "])
def test_excerpts_show_the_value(start: int, length: int, filler: str) -> None:
    text = (filler * 2000)[:2000]
    end = min(len(text), start + length)
    shown = excerpt(text, start, end)
    assert len(shown) <= LONGEST_EXCERPT
    assert text[start:end][: LONGEST_EXCERPT - 2] in shown
    assert shown.strip("…") in text


def test_short_blocks_are_shown_whole() -> None:
    assert excerpt("x" * LONGEST_EXCERPT, 3, 5) == "x" * LONGEST_EXCERPT


def test_many_places_of_many_values_are_no_search_of_all_pairs() -> None:
    """200 records of 5 fields on a page where each value stands 200 times: counted in comparisons, not in seconds."""
    lines = [f"Item {i}: size M, 5 €, new, red" for i in range(200)]
    document = make_document(*lines)
    record = [{"name": f"Item {i}", "size": "M", "price": "5 €", "state": "new", "colour": "red"} for i in range(200)]
    compared = 0
    from fetchly.extraction import placement

    original = placement._Placement._distance

    def counted(self: Any, block: int, near: Any) -> float:
        nonlocal compared
        compared += 1
        return original(self, block, near)

    placement._Placement._distance = counted  # type: ignore[method-assign]
    try:
        found = Grounder(document).evidence(record)
    finally:
        placement._Placement._distance = original  # type: ignore[method-assign]
    assert all(found[f"/{i}/price"].css_path == f"body>p:nth-of-type({i + 1})" for i in range(200))
    assert compared < 200 * 4 * 100


def test_fold_maps_back() -> None:
    folded = fold("  Ä “x”\n\ny ")
    assert folded.text == 'a\u0308 "x" y'
    assert [folded.origin[folded.text.index(c)] for c in "axy"] == [2, 5, 9]
    assert fold("It`s Plain").text == "it's plain"
