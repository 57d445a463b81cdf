from __future__ import annotations

from dataclasses import replace

from fetchly.extraction.format import FORMAT_VERSION
from fetchly.extraction.prompt import build_prompt, render_task
from fetchly.goods import Document, Link
from tests.support.documents import make_document

SCHEMA = {
    "title": "Product",
    "description": "A thing\nfor sale.",
    "type": "object",
    "properties": {
        "name": {"type": "string", "x-verbatim": True, "description": "Name of it."},
        "price": {"type": "number"},
        "stock": {"enum": ["yes", "no", None]},
        "day": {"type": "string", "format": "date"},
        "link": {"type": "string", "format": "uri"},
        "mail": {"type": "string", "format": "ipv4"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "seller": {"anyOf": [{"$ref": "#/$defs/Seller"}, {"type": "null"}], "description": "Who sells."},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
    },
    "$defs": {
        "Seller": {"type": "object", "properties": {"name": {"type": "string"}}},
        "Part": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}}},
        },
    },
}


def count(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_task() -> None:
    assert render_task(SCHEMA) == "\n".join(
        [
            "Product: A thing for sale.",
            "Fields:",
            "- name (text): Name of it.",
            "- price (number)",
            "- stock (one of yes, no)",
            "- day (date)",
            "- link (id of a link)",
            "- mail (ipv4)",
            "- tags (list of own words)",
            "- seller (group): Who sells.",
            "  - name (own words)",
            "- parts (list of group)",
            "  - n (whole number)",
            "  - parts (list of group)",
        ]
    )
    assert render_task({"type": "array", "items": {"type": "number"}}) == "Record\nValue: list of number"


def test_all_fits() -> None:
    document = make_document("One two", "Three")
    built = build_prompt(SCHEMA, document, 100, count)
    assert built.prompt.page == built.prompt.source == "One two\nThree"
    assert built.sections.left_out_blocks == built.sections.left_out_characters == 0


def test_the_page_begins_on_a_line_of_its_own() -> None:
    task = build_prompt(SCHEMA, make_document("One"), 100, count).prompt.task
    assert task == f"{render_task(SCHEMA)}\n\nPage:\n"


def test_the_version_stands_in_the_prompt() -> None:
    assert build_prompt(SCHEMA, make_document("One"), 100, count).prompt.system.startswith(f"Format {FORMAT_VERSION}.")


def linked(*lines: tuple[str, str]) -> Document:
    """A document whose blocks have such texts and such lines, and three links."""
    document = make_document(*(text for text, _ in lines))
    blocks = tuple(replace(block, line=line) for block, (_, line) in zip(document.blocks, lines, strict=True))
    links = tuple(Link(name, "", f"https://shop.example/{name}") for name in ("L1", "L2", "I1"))
    return replace(document, blocks=blocks, links=links)


def test_links_are_those_of_the_page_that_are_shown() -> None:
    document = linked(("One two", "One [L2] two [I1]"), ("again", "again [L2]"), ("far", "far [L1] " + "word " * 60))
    assert build_prompt(SCHEMA, document, 500, count).prompt.links == ("L2", "I1", "L1")
    shown = build_prompt({"type": "object", "properties": {"again": {"type": "string"}}}, document, 20, count).prompt
    assert "[L2]" in shown.page
    assert ("L1" in shown.links) == ("[L1]" in shown.page)


def test_what_the_page_writes_is_no_link_mark() -> None:
    document = linked(("see [L1] there", "see [L1] there"), ("buy [L2] here", "buy [L2] here [L2]"), ("[L9]", "[L9]"))
    assert build_prompt(SCHEMA, document, 500, count).prompt.links == ("L2",)
