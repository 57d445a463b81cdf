"""The real engine in a crawl that is killed: the same records, byte for byte."""

from pathlib import Path

import pytest

from tests.support.crawl_engine import run_beside_a_kill

PAGES = 6


@pytest.mark.model
@pytest.mark.slow
def test_the_engines_records_are_the_same_after_a_kill(tmp_path: Path) -> None:
    run = run_beside_a_kill(PAGES, tmp_path)
    assert 0 < run.at_the_kill < PAGES
    assert len(run.undisturbed) == PAGES
    assert run.killed == run.undisturbed
