from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fetchly.extraction.sections import GAP_MARK, MOST_BLOCKS, choose_sections
from fetchly.goods import Block
from tests.support.documents import make_document

SCHEMA = {
    "title": "Product",
    "type": "object",
    "properties": {
        "price": {"type": "number"},
        "stock": {"enum": ["yes", "no", None]},
        "seller": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


def count(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_the_best_are_shown_in_order_and_the_rest_is_counted() -> None:
    filler = [f"nothing of note stands here {i}" for i in range(60)]
    blocks = make_document("Title here", *filler, "price 5 and stock yes", "more about the seller", *filler).blocks
    choice = choose_sections(SCHEMA, blocks, 40, count)
    page = choice.page(len(blocks)).split("\n")
    assert count(["\n".join(page)])[0] <= 40
    assert page.index("price 5 and stock yes") < page.index("more about the seller")
    assert GAP_MARK in page
    shown = {block.index for block in choice.shown}
    assert choice.left_out_blocks == len(blocks) - len(shown)
    assert choice.left_out_characters == sum(len(b.text) for i, b in enumerate(blocks) if i not in shown)


def test_a_label_comes_with_its_value() -> None:
    filler = [f"nothing of note stands here {i}" for i in range(80)]
    blocks = make_document("Title here", *filler[:40], "Preis", "5,00 €", *filler[40:]).blocks
    shown = [block.text for block in choose_sections(SCHEMA, blocks, 30, count).shown]
    assert shown.index("Preis") + 1 == shown.index("5,00 €")


def test_the_entries_of_a_list_are_shown_together() -> None:
    items = [("list_item", f"{number} eggs and {number} cups of flour") for number in range(1, 9)]
    kinds = [*items, ("paragraph", "The weather."), *(("list_item", f"see also page {n}") for n in range(8))]
    blocks = [Block(kind, text, f"- {text}", "li", 0, 0) for kind, text in kinds]  # type: ignore[arg-type]
    schema = {"type": "object", "properties": {"ingredients": {"type": "array", "items": {"type": "string"}}}}
    shown = {block.index for block in choose_sections(schema, blocks, 80, count).shown}
    assert set(range(8)) <= shown


def test_a_long_block_is_cut_at_a_word_and_counted() -> None:
    long = " ".join(f"word{i}" for i in range(500))
    choice = choose_sections(SCHEMA, make_document("price", long).blocks, 50, count)
    cut = choice.shown[1].text
    assert 10 <= len(cut.split()) <= 25
    assert long.startswith(cut + " ")
    assert choice.left_out_blocks == 1
    assert choice.left_out_characters == len(long) - len(cut)


def test_marks_of_the_line_survive_a_cut() -> None:
    text = " ".join(["word"] * 100)
    block = Block("list_item", text, f"- {text}", "li", 0, len(text))
    choice = choose_sections(SCHEMA, [block], 20, count)
    assert choice.shown[0].line.startswith("- word")
    assert choice.shown[0].line == f"- {choice.shown[0].text}"


def test_of_a_cut_row_only_the_cells_that_are_shown_can_be_copied() -> None:
    cells = [f"cell{number} more{number}" for number in range(60)]
    line = " | ".join(f"A long header {number}: {cell}" for number, cell in enumerate(cells))
    block = Block("table_row", " ".join(cells), line, "tr", 0, 0)
    (shown,) = choose_sections(SCHEMA, [block], 60, count).shown
    assert shown.text.split()
    assert all(word in shown.line.split() for word in shown.text.split())
    assert (
        shown.text.split()[-1] in shown.line.split(" | ")[-1] or shown.text.split()[-1] in shown.line.split(" | ")[-2]
    )


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


def test_of_an_endless_page_both_ends_are_weighed() -> None:
    counted: list[int] = []

    def counting(texts: list[str]) -> list[int]:
        counted.append(len(texts))
        return count(texts)

    blocks = make_document("The price is 1", *["word"] * (2 * MOST_BLOCKS), "The price is 2").blocks
    choice = choose_sections(SCHEMA, blocks, 30, counting)
    assert max(counted) == MOST_BLOCKS
    assert {"The price is 1", "The price is 2"} <= {block.text for block in choice.shown}
    assert choice.left_out_blocks == len(blocks) - len(choice.shown)


@given(
    st.lists(st.sampled_from(["price 5", "a b c d e f g h", "x", "Seller: Bob", "word " * 30]), max_size=25),
    st.integers(4, 60),
)
def test_the_budget_holds_and_order_is_kept(texts: list[str], budget: int) -> None:
    blocks = make_document(*texts).blocks
    choice = choose_sections(SCHEMA, blocks, budget, count)
    assert count([choice.page(len(blocks))])[0] <= budget
    places = [block.index for block in choice.shown]
    assert places == sorted(set(places))
    assert bool(places) == bool(texts)
    assert choice == choose_sections(SCHEMA, blocks, budget, count)
    for block in choice.shown:
        assert blocks[block.index].text.startswith(block.text)
