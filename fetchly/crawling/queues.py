"""What begins and ends in a crawl's stages in; whether one more page fits, and how full its queues were, out.

Two queues lie between the stages. Fetched pages that are read, or wait for it, are held by the thread that fetched
them: there are no more than threads. Read pages wait for the model within a number of tokens and of characters: a page
counts for no more tokens than the model reads of it, however long its text is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fetchly.governing.decisions import Load


@dataclass(frozen=True, slots=True)
class QueueUse:
    """How full a queue is, has been at most, and may be, in its own unit. What is longer than the bound goes alone."""

    now: int
    most: int
    bound: int


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Most pages being fetched and read; most tokens, and characters, of pages that wait for the model; `page_tokens`
    are the most that one page can turn out to have."""

    pages: int
    tokens: int
    characters: int
    page_tokens: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A page at the model, or on its way there."""

    tokens: int
    characters: int


class Queues:
    """Counts what is under way. One thread at a time."""

    def __init__(self, bounds: QueueBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._begun: dict[int, float] = {}  # pages, and when
        self._waiting: dict[int, _Waiting] = {}
        self._finished = 0
        self.busy = 0
        self._most = dict.fromkeys(self._full(), 0)

    @property
    def waiting(self) -> int:
        """Pages that the model has not answered yet."""
        return len(self._waiting)

    def has_room(self) -> bool:
        """Whether one more page may be on its way to the model. One always may."""
        if not self._waiting and not self._begun:
            return True
        full = self._full()
        most = self._bounds.page_tokens
        expected = full["model_tokens"] + len(self._begun) * most + most
        return expected <= self._bounds.tokens and full["model_characters"] < self._bounds.characters

    def begin(self, page: int | None) -> None:
        """A thread is given work: a page by its id, or something else about a site."""
        self.busy += 1
        if page is not None:
            self._begun[page] = self._clock()
        self._mark()

    def end(self, page: int | None = None) -> float:
        """It is done. The seconds that a page has taken."""
        self.busy -= 1
        self._finished += 1
        return self._clock() - self._begun.pop(page) if page is not None else 0.0

    def wait(self, page: int, tokens: int, characters: int) -> None:
        """A read page goes to the model, which will read about so many tokens of its text."""
        self._waiting[page] = _Waiting(tokens, characters)
        self._mark()

    def answered(self, page: int) -> None:
        """The model is done with a page, whether there is a record or not."""
        del self._waiting[page]
        self._finished += 1

    def load(self) -> Load:
        """For the governor."""
        return Load(self.busy, len(self._waiting), self._finished)

    def uses(self) -> Mapping[str, QueueUse]:
        """Of each queue, by name."""
        bounds = {
            "pages": self._bounds.pages,
            "model_tokens": self._bounds.tokens,
            "model_characters": self._bounds.characters,
        }
        return {name: QueueUse(now, self._most[name], bounds[name]) for name, now in self._full().items()}

    def _full(self) -> dict[str, int]:
        return {
            "pages": self.busy,
            "model_tokens": sum(page.tokens for page in self._waiting.values()),
            "model_characters": sum(page.characters for page in self._waiting.values()),
        }

    def _mark(self) -> None:
        self._most = {name: max(now, self._most[name]) for name, now in self._full().items()}
