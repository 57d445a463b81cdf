"""Which page of a crawl another one is like, and what of it a killed crawl still knows."""

from __future__ import annotations

import random
from pathlib import Path

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.frontier import Frontier, QueuedPage
from fetchly.crawler.signatures import text_signature

WORDS = [f"word{number}" for number in range(400)]


def text(seed: int, *, changes: int = 0) -> bytes:
    rng = random.Random(seed)
    words = [rng.choice(WORDS) for _ in range(600)]
    for number in range(changes):
        words[rng.randrange(600)] = f"new{number}"
    signature = text_signature(" ".join(words))
    assert signature is not None
    return signature


def frontier(file: Path | None, *, resume: bool = False) -> Frontier:
    return Frontier(file, {}, resume=resume)


def taken(frontier: Frontier, number: int) -> QueuedPage:
    address = address_of(f"http://example.org/{number}")
    with frontier.transaction():
        frontier.add([address], depth=0)
        page = frontier.peek(address.host)
        assert page is not None
        frontier.take(page)
    return page


def done(frontier: Frontier, page: QueuedPage) -> None:
    frontier.complete(page, address_of(page.url), "{}", 1)


def test_a_page_is_like_the_likest_that_is_like_enough() -> None:
    with_state = frontier(None)
    near = with_state.near_duplicates(0.9)
    pages = [taken(with_state, number) for number in range(3)]
    with with_state.transaction():
        near.begin(pages[0].id, pages[0].url, text(1, changes=4))
        near.begin(pages[1].id, pages[1].url, text(1, changes=1))
        near.begin(pages[2].id, pages[2].url, text(2))
        found = near.find(text(1))
        assert found is not None
        assert (found.page, found.url, found.is_done) == (pages[1].id, pages[1].url, False)
        assert 0.95 < found.share <= 1
        for page in pages[:2]:
            done(with_state, page)
            near.end(page.id, is_done=True)
        found = near.find(text(1))
        assert found is not None
        assert (found.page, found.is_done) == (pages[1].id, True)
        assert near.find(text(3)) is None
        assert near.find(text(1, changes=60)) is None
    with_state.close()


def test_nothing_is_like_a_page_without_a_record() -> None:
    with_state = frontier(None)
    near = with_state.near_duplicates(0.9)
    page = taken(with_state, 0)
    with with_state.transaction():
        near.begin(page.id, page.url, text(1))
        near.end(page.id, is_done=False)
        near.end(page.id, is_done=False)
        assert near.find(text(1)) is None
    with_state.close()


def test_a_resumed_crawl_knows_the_pages_that_are_done_and_no_others(tmp_path: Path) -> None:
    first = frontier(tmp_path / "state")
    near = first.near_duplicates(0.95)
    pages = [taken(first, number) for number in range(3)]
    with first.transaction():
        for number, page in enumerate(pages):
            near.begin(page.id, page.url, text(number))
        done(first, pages[0])
        near.end(pages[0].id, is_done=True)
    first.close()

    resumed = frontier(tmp_path / "state", resume=True)
    near = resumed.near_duplicates(0.95)
    found = near.find(text(0))
    assert found is not None
    assert (found.url, found.share, found.is_done) == ("http://example.org/0", 1.0, True)
    assert near.find(text(1)) is None
    resumed.close()


def test_what_was_not_committed_is_not_known(tmp_path: Path) -> None:
    first = frontier(tmp_path / "state")
    near = first.near_duplicates(0.95)
    page = taken(first, 0)
    try:
        with first.transaction():
            near.begin(page.id, page.url, text(0))
            done(first, page)
            near.end(page.id, is_done=True)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        first.close()
    resumed = frontier(tmp_path / "state", resume=True)
    assert resumed.near_duplicates(0.95).find(text(0)) is None
    resumed.close()
