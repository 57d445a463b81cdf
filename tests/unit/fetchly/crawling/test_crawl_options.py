"""What a user may say about a crawl."""

from pathlib import Path
from typing import Any

import pytest

from fetchly.crawling.options import CrawlOptions, crawl_options
from fetchly.errors import ConfigurationError
from fetchly.extraction.extractor import ExtractionOptions


def test_options_as_a_caller_writes_them() -> None:
    options = crawl_options({"delay": 2, "follow": "/a/*", "exclude": ["/b", "/c"], "state": "x", "limit": None})
    assert options == CrawlOptions(delay_s=2, follow=("/a/*",), exclude=("/b", "/c"), state=Path("x"))


def test_no_delay_means_no_reserve() -> None:
    assert CrawlOptions().host_slots == 2
    assert CrawlOptions(delay_s=0, concurrency=16).host_slots == 16
    assert CrawlOptions(delay_s=0, concurrency=16, per_host=3).host_slots == 3


@pytest.mark.parametrize(
    "values",
    [
        {"limit": 0}, {"limit": True}, {"limit": 1.5}, {"depth": -1}, {"concurrency": 0}, {"per_host": 0}, {"tries": 0},
        {"delay": -0.1}, {"delay": "1"}, {"delay": float("inf")}, {"delay": float("nan")}, {"waiting_tokens": 0},
        {"resume": True}, {"failed": True, "state": "x"}, {"follow": [1]}, {"delay_s": 1.0}, {"colour": 1},
        {"memory_limit": "much"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        crawl_options(values)


def test_no_option_means_two_things() -> None:
    """Both kinds are given to `Client.crawl` side by side."""
    assert not set(CrawlOptions.__dataclass_fields__) & set(ExtractionOptions.__dataclass_fields__)
