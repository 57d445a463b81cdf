"""The table of what used what."""

from dataclasses import replace

import pytest

from fetchly.cli.crawl_table import print_uses
from fetchly.crawler.frontier import FrontierCounts
from fetchly.crawling.queues import QueueUse
from fetchly.crawling.stages import StageUse
from fetchly.crawling.summary import CrawlProgress, Tally, summary_of
from fetchly.governing.governor import Holding, HostUse, ProcessUse
from fetchly.governing.gpu_memory import GpuUse

PROGRESS = CrawlProgress(
    counts=FrontierCounts(0, 0, 120, {}, {}, 120),
    seconds=100.0,
    tokens_per_s=30.0,
    waiting=0,
    busy=0,
    hosts=(),
    stages={
        "fetch": StageUse(120, 31.24, 0.312),
        "model": StageUse(120, 90.0, 0.9),
        "decode": StageUse(120, 70.0, 0.7),
    },
    queues={
        "pages": QueueUse(0, 7, 8),
        "model_tokens": QueueUse(0, 12_000, 16_000),
        "model_characters": QueueUse(0, 1, 2),
    },
)
HOST = HostUse(
    memory_limit=2_000_000_000,
    peak_memory=1_840_000_000,
    processes={"fetchly": ProcessUse(640_000_000, 95.5), "chromium": ProcessUse(1_100_000_000, 22.0)},
    held_back={"memory": Holding(3, 12.0)},
    by_rss=("chromium",),
    gpus=(
        GpuUse("NVIDIA H200", 3_200_000_000, 130_000_000_000, 143_771_000_000),
        GpuUse("NVIDIA L4", None, 20_000_000_000, 24_000_000_000),
    ),
)


def test_a_row_for_each_that_used_anything(capsys: pytest.CaptureFixture[str]) -> None:
    print_uses(summary_of(PROGRESS, Tally(), stopped=False, coverage={}, host=HOST))
    said = capsys.readouterr()
    assert said.out == ""
    rows = [" ".join(line.split()) for line in said.err.splitlines() if line.strip()]
    assert rows == [
        "used by pages seconds at a time at most",
        "fetch 120 31.2 0.31 7 of 8 pages",
        "model 120 90.0 0.90 12,000 of 16,000 tokens waiting",
        "decode 120 70.0 0.70",
        "fetchly (processors) 95.5 0.95 640 MB",
        "chromium (processors) 22.0 0.22 1.1 GB (with shared pages)",
        "all 1.8 GB of 2.0 GB",
        "NVIDIA H200 (memory) 3.2 GB, 130.0 GB of 143.8 GB left",
        "NVIDIA L4 (memory) not known, 20.0 GB of 24.0 GB left",
        "held back for memory 12.0 3 times",
    ]


def test_the_summary_has_the_same_figures() -> None:
    host = replace(HOST, words="x", gpus=HOST.gpus[1:])
    figures = summary_of(PROGRESS, Tally(), stopped=False, coverage={}, host=host).as_dict()
    assert figures["stages"]["fetch"] == {"pages": 120, "busy_s": 31.24, "share": 0.312}
    assert figures["queues"]["model_tokens"] == {"now": 0, "most": 12_000, "bound": 16_000}
    assert figures["host"] == {
        "memory_limit": 2_000_000_000,
        "peak_memory": 1_840_000_000,
        "processes": {
            "fetchly": {"peak_memory": 640_000_000, "cpu_s": 95.5},
            "chromium": {"peak_memory": 1_100_000_000, "cpu_s": 22.0},
        },
        "held_back": {"memory": {"times": 3, "seconds": 12.0}},
        "by_rss": ("chromium",),
        "words": "x",
        "gpus": ({"name": "NVIDIA L4", "peak_memory": None, "least_free": 20_000_000_000, "total": 24_000_000_000},),
    }
