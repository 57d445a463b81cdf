"""Datasets in, lines for the engine out: complete in themselves, the same every time, nothing lost uncounted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fetchly.document.reader import ReadOptions, read_document
from fetchly.errors import ConfigurationError, DocumentError
from fetchly.goods import Document, Page, Prompt
from fetchly.lab.dataset import Dataset
from fetchly.lab.example_file import ExampleFile
from fetchly.lab.examples import Example, ExampleMaker, ExampleOptions
from fetchly_llm.grammar.prepare import prepare
from tests.support.answering import TEXT, TEXTS, count_tokens, record_schema
from tests.support.grammar_walks import toy_compiler, write

SCHEMA = record_schema(title=TEXT, price=TEXT, tags=TEXTS, brand=TEXT, sku=TEXT)
PAGE = "<html lang=en><title>{0} - Shop</title><h1>{0}</h1><p>Only $ {1} today</p><ul><li>blue<li>glazed</ul>"


class Letters:
    """A tokenizer of characters."""

    model_digest = "letters"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return count_tokens(list(texts))

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        return tuple(map(ord, prompt.system + prompt.task + prompt.page))

    def token_ids(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))


def gold(number: int, **more: Any) -> dict[str, Any]:
    expected = {"title": f"Jug {number}", "price": f"{number}.50", "tags": ["blue", "glazed"], "sku": "J-1"}
    usable = ["title", "price", "tags"]
    return {
        "id": f"p{number}",
        "vertical": "thing",
        "expected": expected,
        "usable": usable,
        "missing": ["brand"],
        **more,
    }


def dataset(folder: Path, *lines: dict[str, Any], pages: dict[str, str] | None = None) -> Dataset:
    (folder / "html").mkdir(parents=True, exist_ok=True)
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "schemas" / "thing.json").write_text(json.dumps(SCHEMA))
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for number, line in enumerate(lines, 1):
        html = (pages or {}).get(line["id"], PAGE.format(f"Jug {number}", f"{number}.50"))
        (folder / "html" / f"{line['id']}.html").write_text(html)
    return Dataset.open(folder, "train")


def made(data: Dataset, read: Any = read_document, **options: Any) -> tuple[list[Example], ExampleMaker]:
    maker = ExampleMaker(Letters(), read, ExampleOptions(**options))
    return [example for record in data.records() for example in maker.of(data, record)], maker


def test_a_line_has_all_that_the_engine_needs(tmp_path: Path) -> None:
    (example,), _ = made(dataset(tmp_path / "things", gold(1)))
    line = example.line()
    assert json.loads(json.dumps(line)) == line
    assert line["answer"] == '{"title": "Jug 1", "price": "1.50", "tags": ["blue", "glazed"], "brand": null}'
    assert (line["id"], line["set"], line["variant"]) == ("p1", "things", 0)
    assert set(line["versions"]) == {"format", "model"}
    prepared = prepare(line["schema"], mode="check")
    grammar = toy_compiler().compile(prepared.enforced, line["source"], allowed_escapes=prepared.allowed_escapes)
    matcher = grammar.matcher()
    assert write(matcher, line["answer"])
    assert matcher.is_accepting
    shown = "".join(map(chr, line["prompt_ids"]))
    assert "Only $ 1.50 today" in shown
    assert "- tags (list of text)" in shown
    assert "sku" not in shown, "the page does not say it, though the answer has it: the schema does not ask"


def test_what_is_lost_is_counted(tmp_path: Path) -> None:
    pages = {"p2": PAGE.format("Jug 2", "9.99"), "p3": "<title>x</title>", "p4": PAGE.format("Pot", "7.00")}
    data = dataset(tmp_path / "things", *(gold(number) for number in (1, 2, 3, 4)), pages=pages)
    examples, maker = made(data)
    tally = maker.tally.summary()
    assert {example.id for example in examples} == {"p1", "p2", "p4"}
    assert tally["pages"] == 4
    assert tally["examples"] == 3
    assert tally["lost_fields"]["things price: not found"] == 2
    assert tally["lost_fields"]["things title: not found"] == 1
    assert tally["lost_fields"]["things sku: may not be on the page"] == 3
    assert tally["dropped_examples"] == {"the page cannot be read: DOCUMENT_EMPTY": 1}
    assert tally["prompt_tokens"]["max"] == max(len(example.prompt_ids) for example in examples)


def test_the_reasons_for_no_example(tmp_path: Path) -> None:
    unknown = gold(1, usable=[], missing=[], expected={})
    elsewhere = {**gold(2), "expected": {"title": "Cup"}, "usable": ["title"], "missing": []}
    examples, maker = made(dataset(tmp_path / "things", unknown, elsewhere, gold(3)), longest_answer=20)
    assert examples == []
    assert dict(maker.tally.dropped) == {"no field has a known answer": 2, "the answer is too long": 1}


def test_variants_differ_and_come_again(tmp_path: Path) -> None:
    data = dataset(tmp_path / "things", *(gold(number) for number in range(1, 6)))
    first, _ = made(data, variants=4, seed=1)
    again, _ = made(data, variants=4, seed=1)
    other, _ = made(data, variants=4, seed=2)
    assert first == again
    assert [e.schema for e in first] != [e.schema for e in other]
    plain = [example for example in first if example.variant == 0]
    assert all(list(e.schema["properties"]) == ["title", "price", "tags", "brand"] for e in plain)
    assert len({json.dumps(e.schema) for e in first if e.variant}) > 8


def test_what_the_page_says_to_machines_is_shown_to_a_share(tmp_path: Path) -> None:
    seen: list[bool] = []

    def read(page: Page, options: ReadOptions) -> Document:
        seen.append(options.structured)
        return read_document(page, options)

    data = dataset(tmp_path / "things", *(gold(number) for number in range(1, 9)))
    for share, allowed in ((0.0, {False}), (1.0, {True}), (0.5, {True, False})):
        seen.clear()
        examples, _ = made(data, read, structured=share, variants=2)
        assert set(seen) == allowed
        assert {example.structured for example in examples} == allowed
        assert len(seen) == len({(example.id, example.structured) for example in examples}), "each reading is made once"


def test_a_page_that_breaks_the_parser_is_counted(tmp_path: Path) -> None:
    def read(page: Page, options: ReadOptions) -> Document:
        raise DocumentError("the parser died", code="PARSER_CRASHED")

    examples, maker = made(dataset(tmp_path / "things", gold(1)), read)
    assert examples == []
    assert dict(maker.tally.dropped) == {"the page cannot be read: PARSER_CRASHED": 1}


def test_a_file_appears_whole_and_is_the_same_every_time(tmp_path: Path) -> None:
    examples, _ = made(dataset(tmp_path / "things", gold(1), gold(2)))
    contents = []
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        with ExampleFile(tmp_path / name) as file:
            for example in examples:
                file.add(example)
            assert not (tmp_path / name).exists()
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    lines = gzip.decompress(contents[0]).decode().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [example.id for example in examples]
    with ExampleFile(tmp_path / "c.jsonl") as file:
        file.add(examples[0])
    assert (tmp_path / "c.jsonl").read_text().splitlines() == lines[:1]


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), ExampleFile(tmp_path / "x.jsonl"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    for place in (tmp_path / "none" / "x.jsonl", tmp_path):
        with pytest.raises(ConfigurationError):
            ExampleFile(place)


def test_a_file_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("old")
    with pytest.raises(ConfigurationError, match="exists already") as raised:
        ExampleFile(file)
    assert raised.value.code == "OUTPUT_EXISTS"
    assert file.read_text() == "old"
    file.write_text("")
    with ExampleFile(file):
        pass
