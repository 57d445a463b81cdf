"""Pages that say nearly the same, in a crawl: one record for all of them, and one for sure, whatever happens."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fetchly.crawler.fingerprint import address_of
from fetchly.crawling.options import CrawlOptions
from fetchly.crawling.subject import Subject
from fetchly.errors import ConfigurationError, RecordInvalid
from fetchly.extraction.generator import GenerationTask
from fetchly.extraction.schema import load_schema
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.crawl_site import CrawlSite, Reply
from tests.support.crawls import client_of, crawled

ROOT = Path(__file__).resolve().parents[2]
COPIES = 3


def article(number: int, copy: int, last: int) -> Reply:
    """An article of 600 words, of which a copy has another one; each copy leads to the copies of the next article."""
    rng = random.Random(number)
    words = [f"word{rng.randrange(500)}" for _ in range(600)]
    words[300] = f"copy{copy}"
    links = "".join(f'<a href="/a/{number + 1}/{one}">On</a> ' for one in range(COPIES) if number < last)
    return Reply(
        f"<html><head><title>Item {number}</title></head><body><h1>Item {number}</h1>"
        f"<p>{' '.join(words)}</p><p>{links}</p></body></html>".encode()
    )


def articles(count: int) -> Any:
    def answer(path: str) -> Reply | None:
        parts = path.split("/")
        if parts[1] != "a" or int(parts[2]) >= count:
            return None
        return article(int(parts[2]), int(parts[3]), count - 1)

    return answer


def names(found: list[Any]) -> list[str]:
    return sorted(result.value["name"] for result in found)


def test_one_record_for_pages_that_say_nearly_the_same() -> None:
    with CrawlSite(articles(4)) as site, client_of() as client:
        with crawled(client, site.url("/a/0/0"), near_duplicates=0.95) as crawl:
            found = names(list(crawl))
        summary = crawl.summary
        assert found == [f"Item {number}" for number in range(4)]
        assert (summary.done, dict(summary.skipped), summary.failed) == (4, {"NEAR_DUPLICATE": 6}, {})
        assert Counter(site.paths("/a/")).most_common(1)[0][1] == 1


def test_without_the_option_every_page_has_its_record() -> None:
    with CrawlSite(articles(2)) as site, client_of() as client, crawled(client, site.url("/a/0/0")) as crawl:
        assert names(list(crawl)) == ["Item 0", "Item 1", "Item 1", "Item 1"]


def test_a_double_is_told_with_the_page_that_it_is_like_and_its_place_under_the_limit_is_given_back(
    tmp_path: Path,
) -> None:
    with CrawlSite(articles(4)) as site, client_of() as client:
        state = tmp_path / "state"
        with crawled(client, site.url("/a/0/0"), near_duplicates=0.95, limit=3, state=state) as crawl:
            assert len(list(crawl)) == 3
        rows = sqlite3.connect(state).execute("SELECT url, message FROM pages WHERE code = 'NEAR_DUPLICATE'").fetchall()
    assert len(rows) >= COPIES - 1
    for url, message in rows:
        article_of = url.rsplit("/", 1)[0]
        assert f"% like that of {article_of}/" in message
        assert url not in message


def test_where_the_page_that_came_first_gives_no_record_its_double_does() -> None:
    def answer(task: GenerationTask) -> str:
        if "copy0" in task.prompt.source:
            raise RecordInvalid("no end", code="OUTPUT_LIMIT")
        return name_of(task)

    seeds = [f"/a/0/{copy}" for copy in range(COPIES)]
    with CrawlSite(articles(1)) as site, client_of(answer) as client:
        with crawled(client, [site.url(seed) for seed in seeds], near_duplicates=0.95, concurrency=1) as crawl:
            assert names(list(crawl)) == ["Item 0"]
        summary = crawl.summary
        assert (summary.done, dict(summary.skipped), summary.failed) == (1, {"NEAR_DUPLICATE": 1}, {"OUTPUT_LIMIT": 1})


def test_a_resumed_crawl_knows_what_its_earlier_runs_have_seen(tmp_path: Path) -> None:
    seeds = ["/a/0/0", "/a/0/1"]
    with CrawlSite(articles(1)) as site, client_of() as client:
        options = {"near_duplicates": 0.95, "state": tmp_path / "state"}
        urls = [site.url(seed) for seed in seeds]
        with crawled(client, urls, limit=1, concurrency=1, **options) as crawl:
            assert len(list(crawl)) == 1
        with pytest.raises(ConfigurationError) as failed:
            crawled(client, urls, resume=True, state=tmp_path / "state", near_duplicates=0.9)
        assert failed.value.code == "RUN_DIFFERS"
        with crawled(client, urls, resume=True, **options) as crawl:
            assert len(list(crawl)) == 1
        assert dict(crawl.summary.skipped) == {"NEAR_DUPLICATE": 1}


@pytest.mark.parametrize("share", [0.4, 1.1, True, "much"])
def test_a_share_that_makes_no_sense_is_refused(share: object) -> None:
    with client_of() as client, pytest.raises(ConfigurationError, match="near_duplicates"):
        crawled(client, "http://127.0.0.1:1/", near_duplicates=share)


def test_pages_of_which_another_record_is_wanted_are_no_doubles() -> None:
    schema = load_schema(SCHEMA)
    with CrawlSite(articles(2)) as site, client_of() as client:
        subject = Subject(
            [address_of(site.url("/a/0/0")), address_of(site.url("/a/0/1"))],
            {"even": schema, "odd": schema},
            lambda address: "odd" if address.path.endswith("1") else "even",
            {},
        )
        with client.open_crawl(subject, CrawlOptions(delay_s=0, near_duplicates=0.95)).start() as crawl:
            found = sorted((result.value["name"], result.schema) for result in crawl)
        assert found == [(f"Item {number}", name) for number in (0, 1) for name in ("even", "odd")]
        assert crawl.summary.skipped == {"NEAR_DUPLICATE": 1}  # the third copy of the second article


def test_kills_leave_one_record_of_every_article(tmp_path: Path) -> None:
    """Three runs are killed in the midst of their work; whatever was under way, every article has one record."""
    count, dice = 12, random.Random(5)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    with CrawlSite(articles(count)) as site:
        command = [
            sys.executable, "-m", "tests.support.crawl_program", "crawl", site.url("/a/0/0"), "-s", "schema.json",
            "--allow-private", "--render", "never", "--delay", "0", "--near-duplicates", "0.95", "-o", "out.jsonl",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'llm'}"}
        for kill in range(3):
            asked = len(site.log) + dice.randrange(3, 9)
            program = subprocess.Popen(
                [*command, "--resume"] if kill else command,
                cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            end = time.monotonic() + 60
            while len(site.log) < asked and program.poll() is None and time.monotonic() < end:
                time.sleep(0.005)
            program.send_signal(signal.SIGKILL)
            program.wait()
        done = subprocess.run([*command, "--resume"], cwd=tmp_path, env=environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line)["name"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(lines) == sorted(f"Item {number}" for number in range(count))
