"""How much may be on its way from stage to stage."""

from fetchly.crawling.queues import QueueBounds, Queues, QueueUse
from fetchly.governing.decisions import Load

BOUNDS = QueueBounds(pages=8, tokens=1000, characters=50_000, page_tokens=400)


def test_a_page_is_begun_only_where_its_tokens_will_fit() -> None:
    queues = Queues(BOUNDS)
    assert queues.has_room()
    queues.begin(1)
    assert queues.has_room()
    queues.begin(2)
    assert not queues.has_room(), "each may turn out to have 400"
    queues.end(1)
    queues.wait(1, 100, 400)
    assert queues.has_room()


def test_the_texts_that_wait_are_bounded_too_and_one_page_always_goes() -> None:
    # A page of which the model reads 400 tokens may be one of 30 megabytes.
    queues = Queues(BOUNDS)
    queues.begin(1)
    queues.end(1)
    queues.wait(1, 10, 60_000)
    assert not queues.has_room()
    queues.answered(1)
    assert queues.has_room()
    small = Queues(QueueBounds(pages=8, tokens=100, characters=10, page_tokens=400))
    assert small.has_room()


def test_work_that_is_no_page_takes_a_thread_and_no_tokens() -> None:
    queues = Queues(BOUNDS)
    for _ in range(8):
        queues.begin(None)
    assert queues.has_room()
    assert (queues.busy, queues.load()) == (8, Load(8, 0, 0))
    assert queues.end() == 0.0
    assert queues.load() == Load(7, 0, 1)


def test_the_most_that_was_held_is_kept() -> None:
    now = [10.0]
    queues = Queues(BOUNDS, lambda: now[0])
    for page in (1, 2):
        queues.begin(page)
    now[0] = 12.5
    assert queues.end(2) == 2.5
    queues.wait(2, 300, 1200)
    assert queues.load() == Load(1, 1, 1)
    assert queues.load().is_any
    queues.answered(2)
    queues.end(1)
    assert queues.load() == Load(0, 0, 3)
    assert not queues.load().is_any
    assert queues.uses() == {
        "pages": QueueUse(0, 2, 8),
        "model_tokens": QueueUse(0, 300, 1000),
        "model_characters": QueueUse(0, 1200, 50_000),
    }
