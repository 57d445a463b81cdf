from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.request import Message
from fetchly_llm.tokenizer import Tokenizer
from tests.support.tiny_tokenizer import MISSING, SPECIALS, TEMPLATE, byte_level_json

TOKENIZER = Tokenizer(byte_level_json(), eos_token_ids=(2,), chat_template=TEMPLATE)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_text_survives_the_way_there_and_back(text: str) -> None:
    expected = "".join("\ufffd" if set(letter.encode()) & set(MISSING) else letter for letter in text)
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == expected


@given(st.lists(st.sampled_from([*SPECIALS, "<|", "|>", "im_end", " ", "hello", "\n"])))
def test_data_never_becomes_a_special_token(pieces: list[str]) -> None:
    text = "".join(pieces)
    ids = TOKENIZER.encode(text)
    assert not TOKENIZER.special_token_ids.intersection(ids)
    assert TOKENIZER.decode(ids) == text


@given(st.text(max_size=30), st.text(max_size=30))
def test_chats_share_everything_up_to_the_last_equal_segment(first: str, second: str) -> None:
    usable = [text.encode("utf-8", "ignore").decode() for text in (first, second)]
    one, two = (TOKENIZER.chat([Message("system", ("be good",)), Message("user", ("schema", text))]) for text in usable)
    assert one.segment_ends[:2] == two.segment_ends[:2]
    assert one.ids[: one.segment_ends[1]] == two.ids[: two.segment_ends[1]]
