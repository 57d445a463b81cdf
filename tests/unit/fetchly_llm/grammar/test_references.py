"""Documents: places, identifiers, anchors and circles."""

from __future__ import annotations

import pytest

from fetchly_llm.grammar.keywords import Dialect
from fetchly_llm.grammar.references import Document, ReferenceUnresolved, endless


def test_pointers_are_unescaped_and_percent_decoded() -> None:
    document = Document({"$defs": {"a/b~c%": {"const": 1}, "é": {"const": 2}}, "enum": [{"type": "null"}]}, "2020-12")
    assert document.resolve(document.root, "#/$defs/a~1b~0c%25").schema == {"const": 1}
    assert document.resolve(document.root, "#/$defs/%C3%A9").pointer == "/$defs/é"
    assert document.resolve(document.root, "#/enum/0").schema == {"type": "null"}


@pytest.mark.parametrize("reference", ["#/enum/1", "#/enum/x", "#/enum/00", "#/const", "#/$defs/none", "#a", "x.json"])
def test_what_names_no_schema_is_refused(reference: str) -> None:
    document = Document({"enum": [{"type": "null"}], "const": "text"}, "2020-12")
    with pytest.raises(ReferenceUnresolved):
        document.resolve(document.root, reference)


@pytest.mark.parametrize(
    ("dialect", "keyword", "value"),
    [
        ("2020-12", "$anchor", "here"),
        ("2020-12", "$dynamicAnchor", "here"),
        ("draft-07", "$id", "#here"),
        ("draft-04", "id", "#here"),
    ],
)
def test_anchors_by_dialect(dialect: Dialect, keyword: str, value: str) -> None:
    document = Document({"definitions": {"a": {keyword: value}}}, dialect)
    assert document.resolve(document.root, "#here").pointer == "/definitions/a"


def test_opaque_identifiers() -> None:
    document = Document({"$id": "urn:uuid:1", "$defs": {"a": {"$anchor": "x"}}}, "2020-12")
    assert document.resolve(document.root, "#x").pointer == "/$defs/a"
    assert document.resolve(document.root, "urn:uuid:1#/$defs/a").pointer == "/$defs/a"


def test_recursion_through_a_value_is_no_circle() -> None:
    assert endless(Document({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}}, "2020-12")) is None
    circle = endless(Document({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, "2020-12"))
    assert circle is not None
    assert circle.pointer == "/properties/a/not"
