"""A crawl to begin in, the same for code with an event loop out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from fetchly.crawling.crawl import Crawl
from fetchly.crawling.summary import CrawlSummary

R = TypeVar("R")


class AsyncCrawl(Generic[R]):
    """A crawl for code with an event loop. Iterate, to the end or within `async with`; `summary` has its figures."""

    def __init__(
        self,
        begin: Callable[[], Crawl[R]],
        run: Callable[[Callable[[], bool], threading.Event], Awaitable[bool]],
    ) -> None:
        self._begin = begin
        self._run = run
        self._crawl: Crawl[R] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        stop = threading.Event()

        def wait() -> bool:
            if self._crawl is None:
                self._crawl = self._begin()
            return self._crawl.wait(stop.is_set)

        has_more = await self._run(wait, stop)
        assert self._crawl is not None
        if not has_more:
            await asyncio.to_thread(self._crawl.end)
            raise StopAsyncIteration
        return self._crawl.take()  # here, so that a cancelled wait takes no result with it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """As Crawl.close."""
        if self._crawl is not None:
            await asyncio.to_thread(self._crawl.close)

    @property
    def summary(self) -> CrawlSummary | None:
        """Its figures, final once it has ended; None before it has begun."""
        return self._crawl.summary if self._crawl is not None else None
