from hypothesis import given
from hypothesis import strategies as st

from fetchly.extraction.server_tokens import estimate_tokens


def test_an_estimate() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("tea pot") == 4
    assert estimate_tokens("£48.50\n") == 2 + 5 + 1
    assert estimate_tokens("茶壶") == 6


@given(st.text(max_size=60), st.text(max_size=60))
def test_an_estimate_is_bounded_and_grows_with_the_text(one: str, other: str) -> None:
    """No tokenizer makes more tokens of a text than it has bytes; no text has fewer than a part of it."""
    assert estimate_tokens(one) <= len(one.encode("utf-8", "surrogatepass"))
    assert estimate_tokens(one + other) >= estimate_tokens(one) - 1
