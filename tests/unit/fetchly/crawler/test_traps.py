"""What is one shape, how many pages of it are read, and that what is left out comes back when it is asked for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.frontier import Frontier
from fetchly.crawler.traps import REPEATING_SHARE, TRAP_SUSPECTED, shape_of

HOST = "http://a.example"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/calendar?year=1999", "/calendar?year=20001"),
        ("/calendar/2024/05/", "/calendar/1/1/"),
        ("/item-12.html?page=3", "/item-7.html?page=44"),
        ("/a?sid=9f86d081884c7d65", "/a?sid=2c26b46b68ffc68ff99b453c1d304134"),
        ("/u/6ba7b810-9dad-11d1-80b4-00c04fd430c8", "/u/6ba7b811-9dad-11d1-80b4-00c04fd430c8"),
        ("/a/b/a/b/a/b/", "/a/b/a/b/a/b/a/b/"),
        ("/a/b/b/a/a/b/", "/b/a/a/a/?x=1"),
    ],
)
def test_one_shape(one: str, other: str) -> None:
    assert shape_of(address_of(HOST + one)) == shape_of(address_of(HOST + other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/news/a-storm", "/news/a-calm"),
        ("/a?x=1", "/a?y=1"),
        ("/a/1", "/b/1"),
        ("/a/b/a/b/", "/a/b/a/b/a/b/"),
        ("/internationalization", "/internationalisation-of-everything"),  # long words have no number in them
    ],
)
def test_other_shapes(one: str, other: str) -> None:
    assert shape_of(address_of(HOST + one)) != shape_of(address_of(HOST + other))


@pytest.mark.parametrize(("path", "repeats"), [("/a/b/a/b/a/b", True), ("/2024/2024/11/11/11", False), ("/a/a", False)])
def test_a_path_repeats_itself(path: str, repeats: bool) -> None:
    assert shape_of(address_of(HOST + path)).repeats is repeats


@given(st.text(st.characters(codec="ascii", exclude_characters="#?&=%\\ "), max_size=40), st.integers(0, 10**9))
def test_a_shape_is_blind_to_a_number(text: str, number: int) -> None:
    urls = [f"{HOST}/x{text}/{one}?n={one}" for one in (number, number + 1)]
    try:
        one, other = map(address_of, urls)
    except Exception:
        return
    assert shape_of(one) == shape_of(other)


def months(first: int, last: int) -> list[str]:
    return [f"{HOST}/calendar?month={number}" for number in range(first, last)]


def add(frontier: Frontier, urls: list[str], depth: int = 1) -> list[str]:
    """What the user is told."""
    with frontier.transaction():
        frontier.add([address_of(url) for url in urls], depth)
    return [suspicion.line() for suspicion in frontier.suspicions()]


def test_so_many_are_read_and_so_many_kept_and_it_is_said_once() -> None:
    frontier = Frontier(None, {}, per_shape=5)
    assert add(frontier, months(0, 5)) == []
    (line,) = add(frontier, [*months(0, 8), f"{HOST}/other"])
    assert line.startswith(f"{TRAP_SUSPECTED} {HOST}/calendar?month=5: it is one of more than 5 pages")
    assert add(frontier, months(0, 1000)) == []
    counts = frontier.counts()
    assert (counts.queued, counts.skipped) == (6, {TRAP_SUSPECTED: 5})
    frontier.close()


def test_what_was_named_is_no_trap() -> None:
    frontier = Frontier(None, {}, per_shape=2)
    assert add(frontier, months(0, 50), depth=0) == []
    assert frontier.counts().queued == 50
    frontier.close()


def test_what_is_named_after_it_was_left_out_is_read(tmp_path: Path) -> None:
    file = tmp_path / "crawl"
    frontier = Frontier(file, {}, per_shape=2)
    add(frontier, months(0, 50))
    assert add(frontier, months(0, 50), depth=0) == []
    counts = frontier.counts()
    assert (counts.queued, counts.skipped) == (50, {})
    frontier.close()
    frontier = Frontier(file, {}, per_shape=2, resume=True)
    assert (frontier.counts().queued, frontier.counts().skipped) == (50, {})
    frontier.close()


def test_a_path_that_grows_comes_to_its_end_sooner() -> None:
    frontier = Frontier(None, {}, per_shape=3 * REPEATING_SHARE)
    (line,) = add(frontier, [f"{HOST}/" + "a/b/" * times for times in range(1, 50)])
    assert "whose paths repeat themselves" in line
    assert frontier.counts().queued == 2 + 3
    frontier.close()


def test_a_higher_bound_reads_on_and_the_same_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "crawl"
    frontier = Frontier(file, {}, per_shape=3)
    add(frontier, months(0, 5))
    frontier.close()
    frontier = Frontier(file, {}, per_shape=3, resume=True)
    assert frontier.counts().queued == 3
    frontier.close()
    frontier = Frontier(file, {}, per_shape=4, resume=True)
    counts = frontier.counts()
    assert (counts.queued, counts.skipped) == (4, {TRAP_SUSPECTED: 1})
    add(frontier, months(0, 6))
    assert frontier.counts().skipped == {TRAP_SUSPECTED: 2}
    frontier.close()


def test_a_state_does_not_grow_with_a_trap(tmp_path: Path) -> None:
    frontier = Frontier(tmp_path / "crawl", {}, per_shape=10)
    for start in range(0, 2000, 100):
        add(frontier, months(start, start + 100))
    assert frontier.counts().queued + frontier.counts().skipped[TRAP_SUSPECTED] == 20
    frontier.close()
