"""A memory limit as users write it."""

import pytest

from fetchly.errors import ConfigurationError
from fetchly.governing.memory_limit import MemoryLimit, in_words, memory_limit


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (None, MemoryLimit()),
        ("2GB", MemoryLimit(size=2_000_000_000)),
        (" 1.5 GiB ", MemoryLimit(size=1_610_612_736)),
        ("512m", MemoryLimit(size=512_000_000)),
        ("750MB", MemoryLimit(size=750_000_000)),
        (300_000_000, MemoryLimit(size=300_000_000)),
        ("75%", MemoryLimit(share=0.75)),
        ("12.5 %", MemoryLimit(share=0.125)),
        ("100%", MemoryLimit(share=1.0)),
        ("OFF", MemoryLimit(is_governed=False)),
    ],
)
def test_an_amount(value: str | int | None, limit: MemoryLimit) -> None:
    assert memory_limit(value) == limit


@pytest.mark.parametrize("value", ["", "0", "-1", "0%", "101%", "%", "2 apples", "2gbit", "nan", "1e400", True, 0, -5])
def test_what_is_no_amount_is_refused(value: str | int) -> None:
    with pytest.raises(ConfigurationError) as error:
        memory_limit(value)
    assert error.value.where == "memory_limit"
    assert "2GB" in str(error.value.hint)


def test_bytes_for_a_reader() -> None:
    assert (in_words(1_840_000_000), in_words(639_600_000)) == ("1.8 GB", "640 MB")
