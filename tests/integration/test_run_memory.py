"""Thousands of pages through the rows and the sinks of a run: what is held does not grow with them."""

import tracemalloc
from contextlib import closing
from pathlib import Path

from fetchly.crawling.results import PageResult, result_of
from fetchly.extraction.generator import ExtractionStats
from fetchly.pipeline.outlets import Outlets
from fetchly.pipeline.pipeline import Pipeline
from fetchly.pipeline.rows import RowMaker
from tests.support.pipelines import items, lines_of, rows_of

PAGES = 2_000
URL = "http://shop.example/p/"


def stored(number: int) -> str:
    """What a state keeps of a page. Every tenth has a name that was there before."""
    name = f"Item {number - 5 if number % 10 == 9 else number}"
    return PageResult(
        requested=f"{URL}{number}", url=f"{URL}{number}", status=200, redirects=(), rendered=False,
        value={"name": name}, evidence={}, warnings=(), attempt=1, identity="i", stats=ExtractionStats(),
        schema="item",
    ).as_text()  # fmt: skip


def test_memory_is_flat_over_thousands_of_pages(tmp_path: Path) -> None:
    sinks = [{"jsonl": "out.jsonl"}, {"csv": "out.csv"}, {"sqlite": "out.db"}]
    data = items(URL, sinks=sinks, transform={"deduplicate": "name", "set": {"shop": "ours"}})
    pipeline = Pipeline.from_dict(data, folder=tmp_path)
    outlets = Outlets(
        pipeline, pipeline.sinks, tmp_path / "run", stop_at_rejected=True, reject=lambda row: None, clock=lambda: 0.0
    )
    peaks = []
    with closing(RowMaker(pipeline)) as maker, closing(outlets):
        outlets.open("run", "settings")
        tracemalloc.start()
        try:
            for number in range(PAGES):
                outlets.add(maker.rows_of(result_of(stored(number))))
                if number % (PAGES // 5) == PAGES // 5 - 1:
                    peaks.append(tracemalloc.get_traced_memory()[1])
                    tracemalloc.reset_peak()
        finally:
            tracemalloc.stop()
        outlets.finish()
    assert max(peaks[1:]) < peaks[0] + 200_000, peaks
    assert maker.duplicates == PAGES // 10
    assert len(lines_of(tmp_path / "out.jsonl")) == len(rows_of(tmp_path / "out.db")) == PAGES - PAGES // 10
