"""Actors that are alike in; the answers of those that are up out. Who went down takes calls when it is ready again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fetchly.cluster.ray_session import POLL_S, Actor, Lost, end_all
from fetchly.crawling.failures import CLUSTER_LOST, failure_of
from fetchly.errors import FetchlyError, Interrupted

_PATIENCE_S = 60.0
"""After which it is told that actors are waited for."""
_PAUSES_S = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Before each time that an actor is asked whether it is ready: one that is being started anew may answer not at all."""


class ActorPool:
    """Each actor takes `slots` calls at a time, once its `prepare` has been answered; the one with the fewest is next.
    `judge` is shown that answer, and raises where the actor is of no use.

    `say` is told when some are not up for long, and who is out for good: it does not start, or `judge` refused it.
    Thread-safe. `what` is what an actor is called.
    """

    def __init__(
        self, actors: Sequence[Actor], slots: int, judge: Callable[[Any], None], say: Callable[[str], None], what: str
    ) -> None:
        self._actors = actors
        self._slots = slots
        self._judge = judge
        self._say = say
        self._what = what
        self._changed = threading.Condition()
        self._busy = dict.fromkeys(range(len(actors)), 0)
        self._up: set[int] = set()
        self._out: set[int] = set()
        self._failure: Exception | None = None
        self._is_told = False
        self._began = time.monotonic()
        self._closing = threading.Event()
        for number in self._busy:
            self._expect(number)

    def wait(self) -> None:
        """Until one is up. Errors: as `ask`."""
        self._give_back(self._take(self._closing.is_set))

    def ask(self, method: str, *values: Any, should_stop: Callable[[], bool] = lambda: False) -> Any:
        """What a method returns of whoever is free next. Errors: Lost where it went down; Interrupted once
        `should_stop` is True, or after `close`; where all are out, the first one's error."""

        def stops() -> bool:
            return self._closing.is_set() or should_stop()

        number = self._take(stops)
        try:
            return self._actors[number].ask(method, *values, should_stop=stops)
        except Lost:
            with self._changed:
                if number in self._up:
                    self._up.discard(number)
                    self._expect(number)
            raise
        finally:
            self._give_back(number)

    def close(self) -> None:
        """End all; what they are at is dropped."""
        self._closing.set()
        with self._changed:
            up = [self._actors[number] for number in self._up]
        end_all(self._actors, up)

    def _take(self, stops: Callable[[], bool]) -> int:
        with self._changed:
            while True:
                free = [number for number in sorted(self._up) if self._busy[number] < self._slots]
                if free:
                    number = min(free, key=self._busy.__getitem__)
                    self._busy[number] += 1
                    return number
                if len(self._out) == len(self._actors):
                    raise self._none_left()
                if stops():
                    raise Interrupted("the crawl has ended")
                self._changed.wait(POLL_S)
                self._tell_shortage()

    def _tell_shortage(self) -> None:
        """Where nobody is free, those that are not up may be missed: they may find no room in the cluster."""
        missing = len(self._actors) - len(self._up) - len(self._out)
        if missing and not self._is_told and time.monotonic() > self._began + _PATIENCE_S:
            self._is_told = True
            self._say(
                f"RAY_WAITING: {len(self._up)} of {len(self._actors)} {self._what}s are up; the others load their "
                "models, or wait for a CPU or a GPU of the cluster (fewer workers need fewer)"
            )

    def _give_back(self, number: int) -> None:
        with self._changed:
            self._busy[number] -= 1
            self._changed.notify_all()

    def _none_left(self) -> Exception:
        assert self._failure is not None
        if isinstance(self._failure, Lost):
            return FetchlyError(
                f"no {self._what} stays up: {self._failure.message}", hint="--resume goes on", code=CLUSTER_LOST
            )
        return self._failure

    def _expect(self, number: int) -> None:
        """From when it is ready, it is given calls."""
        name = f"fetchly-{self._what}-{number}"
        threading.Thread(target=self._admit, args=(number,), name=name, daemon=True).start()

    def _admit(self, number: int) -> None:
        for pause_s in _PAUSES_S:
            failure: Exception | None = None
            try:
                if self._closing.wait(pause_s):
                    return
                self._judge(self._actors[number].ask("prepare", should_stop=self._closing.is_set))
                break
            except Interrupted:
                return
            except Lost as error:  # while it was starting
                failure = error
            except Exception as error:
                failure = error
                break
        with self._changed:
            if failure is None:
                self._up.add(number)
            else:
                self._failure = self._failure or failure
                self._out.add(number)
            self._changed.notify_all()
        if failure is not None:
            self._say(f"ACTOR_OUT: one {self._what} less: {failure_of(failure).message}")
