from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel, field_validator

from fetchly.errors import ConfigurationError, SchemaError
from fetchly.extraction.schema import load_schema


class Book(BaseModel):
    title: str
    price: float | None = None

    @field_validator("title")
    @classmethod
    def capital(cls, value: str) -> str:
        if value.islower():
            raise ValueError("a title has a capital")
        return value


@dataclasses.dataclass
class Point:
    x: int
    label: str | None = None


class Pair(typing_extensions.TypedDict):
    left: str


class OldPair(TypedDict):
    left: str


def test_unknown_name_suggests() -> None:
    with pytest.raises(SchemaError, match="prodct") as caught:
        load_schema("prodct")
    assert caught.value.code == "SCHEMA_UNKNOWN"
    assert caught.value.exit_code == 2
    assert "did you mean 'product'" in caught.value.line()
    assert "article" in caught.value.line()


def test_bare_word_is_never_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchemaError):
        load_schema("mine")
    assert load_schema("./mine").name == "mine"


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    path.write_text('\ufeff{"type": "object"}', encoding="utf-8")
    assert load_schema(path).name == load_schema(str(path)).name == "shop"
    with pytest.raises(ConfigurationError, match="does not exist"):
        load_schema(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_schema(tmp_path)


@pytest.mark.parametrize(
    ("text", "where", "code"),
    [
        ('{"type":\n  object}', ":2:3", "SCHEMA_NOT_JSON"),
        ('{"a": 1,\n "a": 2}', " 2:2", "SCHEMA_DUPLICATE_KEY"),
        ('{"maximum": NaN}', "", "SCHEMA_NOT_JSON"),
        ("[1]", "", "SCHEMA_INVALID"),
        ("true", "", "SCHEMA_INVALID"),
        ("[" * 100_000, "", "SCHEMA_TOO_DEEP"),
    ],
)
def test_bad_files_are_located(tmp_path: Path, text: str, where: str, code: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        load_schema(path)
    assert caught.value.code == code
    assert caught.value.where == f"{path}{where}"


def test_dicts() -> None:
    source: dict[Any, Any] = {"title": "Thing", "type": "object"}
    schema = load_schema(source)
    assert schema.name == "Thing"
    source["type"] = "array"
    assert schema.json["type"] == "object"
    for bad in ({"a": {1: 2}}, {"a": {1, 2}}, {"a": float("nan")}):
        with pytest.raises(SchemaError):
            load_schema(bad)


def test_types_lead_there_and_back() -> None:
    book = load_schema(Book)
    assert book.json["required"] == ["title"]
    assert book.to_python({"title": "A"}) == Book(title="A")
    assert load_schema(Point).to_python({"x": 1}) == Point(1)
    assert load_schema(Pair).to_python({"left": "a"}) == {"left": "a"}
    books = load_schema(list[Book])
    assert books.name == "Book list"
    assert books.json["type"] == "array"
    assert books.to_python([{"title": "A"}]) == [Book(title="A")]
    assert load_schema({"type": "object"}).to_python({"x": 1}) == {"x": 1}


@pytest.mark.parametrize("source", [5, None, b"x", object(), OldPair, type("Odd", (), {})])
def test_other_types_are_refused(source: Any) -> None:
    if source is OldPair and hasattr(TypedDict, "__mutable_keys__"):
        pytest.skip("this python's TypedDict is fine")
    with pytest.raises(SchemaError) as caught:
        load_schema(source)
    assert caught.value.code == "SCHEMA_KIND_UNSUPPORTED"
    assert caught.value.hint


def test_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_models_for_test.py").write_text(
        "from pydantic import BaseModel\nclass Item(BaseModel):\n    name: str\nraw = {'type': 'object'}\nword = 'x'\n"
    )
    monkeypatch.chdir(tmp_path)
    item = load_schema("shop_models_for_test:Item")
    assert item.name == "Item"
    assert item.label == "shop_models_for_test:Item"
    assert item.to_python({"name": "a"}).name == "a"
    assert load_schema("shop_models_for_test:raw").model is None
    for wrong in ("no_such_module_here:Item", "shop_models_for_test:Itm", "shop_models_for_test:word"):
        with pytest.raises(ConfigurationError):
            load_schema(wrong)


def test_outlines_terms() -> None:
    types = pytest.importorskip("outlines.types")
    assert load_schema(types.JsonSchema(Point)).json["required"] == ["x"]
    with pytest.raises(SchemaError, match="describes text"):
        load_schema(types.email)
