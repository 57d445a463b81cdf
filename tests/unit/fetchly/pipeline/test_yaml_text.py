"""What words of a YAML file are, and where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from fetchly.errors import ConfigurationError
from fetchly.pipeline.positions import Allowance, descend, key_place, plain
from fetchly.pipeline.yaml_text import read_yaml


def read(text: str) -> Any:
    return plain(read_yaml(text.encode(), "f.yaml", Allowance()))


@pytest.mark.parametrize("word", ["no", "on", "yes", "Off", "1:30", "012", "0x1F", "0o7", "1_000", "2024-05-01", ".5"])
def test_what_yaml_1_1_would_read_as_something_else_is_text(word: str) -> None:
    assert read(f"a: {word}") == {"a": word}
    assert read(f"{word}: a") == {word: "a"}


@pytest.mark.parametrize("word", ["+1", "1.", "-", "- ", ".inf", ".nan", "1e999", "9" * 400])
def test_what_json_does_not_write_as_a_number_is_none(word: str) -> None:
    assert not isinstance(read(f"a: [{word}]" if word != "- " else "a: '- '")["a"], int | float)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("12", 12),
        ("-0.5", -0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("'12'", "12"),
    ],
)
def test_words_that_are_no_text(word: str, value: Any) -> None:
    found = read(f"a: {word}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_blocks_and_aliases_are_values_as_any() -> None:
    assert read("a: |\n  x\n  y\nb: &n [1, {c: 2}]\nd: *n\n&k e: *k\n") == {
        "a": "x\ny\n",
        "b": [1, {"c": 2}],
        "d": [1, {"c": 2}],
        "e": "e",
    }


def test_places_are_those_of_the_file() -> None:
    tree = read_yaml("\ufeffa:\n  bücher: [x,\n     {c: 1}]\n".encode(), "f.yaml", Allowance())
    assert descend(tree, ("a", "bücher", 1, "c")).place.text == "f.yaml:3:10"
    assert key_place(tree, ("a", "bücher")).text == "f.yaml:2:3"


@pytest.mark.parametrize("text", ['a: "\\0"', 'a: "\\ud800"', 'a: "\\x00b"'])
def test_escapes_that_spell_no_character_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no character|not YAML"):
        read(text)
