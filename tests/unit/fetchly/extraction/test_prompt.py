from __future__ import annotations

from fetchly.extraction.prompt import PROMPT_VERSION, build_prompt, render_task
from fetchly.extraction.sections import GAP_MARK, choose_sections, relevance, schema_words
from fetchly.goods import Block
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
            "- name (text of the page): Name of it.",
            "- price (number)",
            "- stock (one of yes, no)",
            "- day (date)",
            "- link (uri)",
            "- tags (list of text)",
            "- seller (group): Who sells.",
            "  - name (text)",
            "- parts (list of group)",
            "  - n (whole number)",
            "  - parts (list of group)",
        ]
    )
    assert render_task({"type": "array", "items": {"type": "number"}}) == "Record\nValue: list of number"
    assert PROMPT_VERSION == "0"


def test_all_fits() -> None:
    document = make_document("One two", "Three")
    built = build_prompt(SCHEMA, document, 100, count)
    assert built.prompt.page == built.prompt.source == "One two\nThree"
    assert built.sections.left_out_blocks == built.sections.left_out_tokens == 0


def test_the_best_are_shown_in_order_and_the_rest_is_counted() -> None:
    filler = [f"nothing of note stands here {i}" for i in range(60)]
    document = make_document("Title here", *filler, "price 5 and stock yes", "more about the seller", *filler)
    built = build_prompt(SCHEMA, document, 40, count)
    page = built.prompt.page.split("\n")
    assert count([built.prompt.page])[0] <= 40
    assert "price 5 and stock yes" in page
    assert page.index("price 5 and stock yes") < page.index("more about the seller")
    assert GAP_MARK in page
    assert GAP_MARK not in built.prompt.source
    shown = {block.index for block in built.sections.shown}
    assert built.sections.left_out_blocks == len(document.blocks) - len(shown)
    assert built.sections.left_out_tokens == sum(
        count([b.text])[0] for i, b in enumerate(document.blocks) if i not in shown
    )


def test_a_long_block_is_cut_at_a_word_and_counted() -> None:
    long = " ".join(f"word{i}" for i in range(500))
    document = make_document("price", long)
    built = build_prompt(SCHEMA, document, 50, count)
    cut = built.prompt.source.split("\n")[1]
    assert 10 <= len(cut.split()) <= 25
    assert long.startswith(cut + " ")
    assert built.sections.left_out_blocks == 1
    assert built.sections.left_out_tokens == 500 - len(cut.split())


def test_marks_of_the_line_survive_a_cut() -> None:
    text = " ".join(["word"] * 100)
    block = Block("list_item", text, f"- {text}", "li", 0, len(text))
    choice = choose_sections(SCHEMA, [block], 20, count)
    assert choice.shown[0].line.startswith("- word")
    assert choice.shown[0].line == f"- {choice.shown[0].text}"


def test_one_word_longer_than_the_budget() -> None:
    def by_character(texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    choice = choose_sections(SCHEMA, make_document("x" * 500).blocks, 100, by_character)
    assert 0 < len(choice.page(1)) <= 100
    chinese = choose_sections(SCHEMA, make_document("中" * 500).blocks, 100, by_character)
    assert 40 <= len(chinese.shown[0].text) <= 60


def test_nothing_to_show() -> None:
    assert choose_sections(SCHEMA, [], 10, count).page(0) == ""
    assert choose_sections(SCHEMA, make_document("a b c", "d e f").blocks, 1, count).shown


def test_relevance() -> None:
    assert {"price", "seller", "part"} <= schema_words(SCHEMA)
    blocks = make_document(*["words"] * 40, "the price").blocks
    scores = relevance(SCHEMA, blocks)
    assert scores[40] == max(scores[10:])
    assert scores[39] > scores[20]
