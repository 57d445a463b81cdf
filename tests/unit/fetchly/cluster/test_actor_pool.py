"""Which actors are asked, and what is said of the others; without Ray."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from fetchly.cluster import actor_pool
from fetchly.cluster.actor_pool import ActorPool
from fetchly.cluster.ray_session import Actor, Lost
from fetchly.errors import FetchlyError, Interrupted


class Fake:
    """Answers its own name; `prepare` raises, or waits for `room`."""

    def __init__(self, name: str, failure: Exception | None = None, *, has_room: bool = True) -> None:
        self.name = name
        self.failure = failure
        self.room = threading.Event()
        if has_room:
            self.room.set()

    def ask(self, method: str, *values: Any, should_stop: Callable[[], bool]) -> Any:
        while not self.room.wait(0.01):
            if should_stop():
                raise Interrupted("given up")
        if method == "prepare":
            if self.failure is not None:
                raise self.failure
            return None
        time.sleep(0.02)
        return self.name


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_pool, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(actor_pool, "_PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(actor_pool, "end_all", lambda actors, up: None)


def pool_of(*fakes: Fake, said: list[str], judge: Callable[[Any], None] = lambda ready: None) -> ActorPool:
    return ActorPool(cast(list[Actor], list(fakes)), 1, judge, said.append, "engine")


def test_actors_without_room_are_missed_once_and_asked_when_they_have_some() -> None:
    said: list[str] = []
    here, late = Fake("here"), Fake("late", has_room=False)
    pool = pool_of(here, late, said=said)
    pool.wait()
    workers = [threading.Thread(target=lambda: [pool.ask("write") for _ in range(8)]) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [line.split(";")[0] for line in said] == ["RAY_WAITING: 1 of 2 engines are up"]
    late.room.set()
    here.room.clear()  # one call stays there
    answers: list[str] = []
    stuck = threading.Thread(target=lambda: answers.append(pool.ask("write")))
    stuck.start()
    while not pool._busy[0]:
        time.sleep(0.001)
    answers += [pool.ask("write") for _ in range(2)]
    here.room.set()
    stuck.join()
    assert "late" in answers
    pool.close()


def test_where_all_are_out_the_first_error_is_raised_and_lost_ones_are_a_lost_cluster() -> None:
    said: list[str] = []
    with pytest.raises(ValueError, match="no model"):
        pool_of(Fake("one", ValueError("no model")), said=said).wait()
    assert said == ["ACTOR_OUT: one engine less: INTERNAL: ValueError: no model"]
    with pytest.raises(FetchlyError, match="no engine stays up") as lost:
        pool_of(Fake("one", Lost("gone")), said=said).wait()
    assert (lost.value.code, lost.value.exit_code) == ("CLUSTER_LOST", 1)


def test_a_closed_pool_lets_go_of_whoever_waits() -> None:
    pool = pool_of(Fake("one", has_room=False), said=[])
    threading.Timer(0.05, pool.close).start()
    with pytest.raises(Interrupted):
        pool.wait()
