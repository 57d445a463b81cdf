"""How long each stage of a crawl was at work."""

from typing import Any, cast

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.frontier import QueuedPage
from fetchly.crawling.events import Extracted, FailedPage, ReadPage, RefusedPage
from fetchly.crawling.stages import StageTally, StageUse
from fetchly.document.reader import read_document
from fetchly.errors import FetchError
from fetchly.extraction.extractor import Extraction
from fetchly.extraction.generator import ExtractionStats
from fetchly.goods import Page

URL = "http://a.example/"
QUEUED = QueuedPage(1, URL, "a.example", 0, 0, True)


def read(fetch_ms: float, render_ms: float, read_ms: float) -> ReadPage:
    document = read_document(Page(requested=URL, url=URL, status=200, headers=(), body=b"<p>A page"))
    return ReadPage(
        QUEUED,
        address_of(URL),
        document,
        (),
        "record",
        200,
        (),
        render_ms > 0,
        (),
        fetch_ms,
        read_ms,
        render_ms=render_ms,
    )


def test_seconds_and_threads_by_stage() -> None:
    tally = StageTally()
    page = read(1500.0, 1200.0, 200.0)
    tally.came(page, 1.8)
    tally.came(read(700.0, 0.0, 300.0), 1.0)
    tally.came(FailedPage(QUEUED, FetchError("no", url=URL)), 2.0)
    tally.came(RefusedPage(QUEUED, "NOT_HTML_PDF", "a PDF"), 1.0)
    stats = ExtractionStats(prefill_ms=500.0, decode_ms=2500.0)
    tally.answered(Extracted(page, Extraction(cast(Any, None), None, stats, 1), None, 3200.0))
    tally.answered(Extracted(page, None, FetchError("no", url=URL), 800.0))
    tally.stored(2, 0.05)
    assert tally.uses(10.0) == {
        "fetch": StageUse(4, 4.0, 0.4),
        "render": StageUse(1, 1.2, 0.12),
        "read": StageUse(2, 0.5, 0.05),
        "model": StageUse(2, 4.0, 0.4),
        "prefill": StageUse(1, 0.5, 0.05),
        "decode": StageUse(1, 2.5, 0.25),
        "store": StageUse(2, 0.05, 0.005),
    }


def test_a_run_that_took_no_time_has_no_shares() -> None:
    assert set(StageTally().uses(0.0).values()) == {StageUse()}
