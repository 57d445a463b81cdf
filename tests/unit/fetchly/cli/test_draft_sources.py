import pytest

from fetchly.cli.extract import draft_sources
from fetchly.errors import ConfigurationError


def test_names_are_sources_and_none_is_plain_decoding() -> None:
    assert draft_sources("forced, lookup") == ("forced", "lookup")
    assert draft_sources("none") == ()


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_nothing_named_is_an_error_and_not_plain_decoding(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        draft_sources(text)
    assert "none" in caught.value.line()
