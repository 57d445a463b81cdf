"""The way from the governor to the browser."""

import pytest

from fetchly.crawler.browser import TABS
from fetchly.crawler.http import FetchPolicy
from fetchly.governing.governor import Tabs
from fetchly.reading import TargetReader


def test_the_reader_of_targets_passes_on_how_many_tabs_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr("fetchly.crawler.browser.BrowserRenderer.set_tabs", lambda self, count: told.append(count))
    reader = TargetReader(FetchPolicy(), render="auto")
    assert isinstance(reader, Tabs)
    assert (reader.most_tabs, reader.browser_pids()) == (TABS, ())
    reader.set_tabs(1)
    assert told == [1]
    assert TargetReader(FetchPolicy(), render="never").most_tabs == 0
    reader.close()
