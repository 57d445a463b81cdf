import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.grammar.structure import in_values


def marked(text: str) -> str:
    """The text with every byte of structure as a dot."""
    raw = text.encode()
    return bytes(byte if flag else ord(".") for byte, flag in zip(raw, in_values(raw), strict=True)).decode()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": "b"}', ".......b.."),
        ('{"a": 12.5, "b": [true, null]}', "......12.5........true..null.."),
        ('{"a b": {"c": -1}}', "..............-1.."),
        ('["x", "y: z"]', "..x....y: z.."),
        (r'{"q": "say \"hi\", {ok}"}', r".......say \"hi\", {ok}.."),
        ('{"a": "cut of', ".......cut of"),
        ('"top"', ".top."),
        ("17", "17"),
        ("", ""),
    ],
)
def test_values_are_told_from_keys_and_punctuation(text: str, values: str) -> None:
    assert marked(text) == values


@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.text(max_size=8), st.lists, max_leaves=4)))
def test_every_flagged_byte_belongs_to_a_leaf(value: dict[str, object]) -> None:
    raw = json.dumps(value, ensure_ascii=False).encode("utf-8", errors="surrogatepass")

    def size(part: object) -> int:
        if isinstance(part, dict):
            return sum(size(child) for child in part.values())
        if isinstance(part, list):
            return sum(size(child) for child in part)
        spelt = json.dumps(part, ensure_ascii=False).encode("utf-8", errors="surrogatepass")
        return len(spelt) - 2 if isinstance(part, str) else len(spelt)

    assert int(in_values(raw).sum()) == size(value)
