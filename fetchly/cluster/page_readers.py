"""Targets in, read pages out: each is fetched, rendered and read on some machine of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.cluster.actor_pool import ActorPool
from fetchly.cluster.ray_session import Lost, RaySession, portable
from fetchly.crawler.render_choice import RenderChoice
from fetchly.crawler.source import is_url, open_target
from fetchly.document.reader import ReadOptions
from fetchly.errors import FetchError
from fetchly.goods import Page
from fetchly.reading import Reading
from fetchly.sdk import Client


@dataclass(frozen=True, slots=True)
class _Came:
    """What came of a target over there: a reading, or the error; and what was learned of sites."""

    reading: Reading | None
    error: Exception | None
    learned: tuple[tuple[str, bool], ...]


class _Told(RenderChoice):
    """The choice about one page, made by the crawl, whose memory spans all machines; what it would learn is kept."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self._skips = skips
        self.learned: list[tuple[str, bool]] = []

    def skips_judging(self, url: str) -> bool:
        return self._skips

    def learn(self, url: str, needed: bool) -> None:
        self.learned.append((url, needed))


class PageReaderActor:
    """One of a node: it has the node's browser and connections. `options` are those of Client."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._client = Client(**options)

    def prepare(self) -> None:
        """Answer: it is up."""

    def read(
        self, target: str | Page, options: ReadOptions, may_follow: Callable[[str], object] | None, skips: bool
    ) -> _Came:
        """Errors are told: what raised them may not be known to Ray."""
        choice = _Told(skips)
        try:
            reading = self._client.means(choice).reader.read(target, options, None, may_follow)
        except Exception as error:  # also a bug of ours that one page brings out
            return _Came(None, portable(error), tuple(choice.learned))
        return _Came(reading, None, tuple(choice.learned))

    def close(self) -> None:
        """End the browser."""
        self._client.close()


class ClusterReader:
    """The reader of a crawl (PageReader). A page goes to the node that has the fewest; files are read here, as the
    other machines may not have them. Thread-safe.

    Errors: those of TargetReader; FetchError WORKER_LOST, retryable.
    """

    def __init__(
        self,
        session: RaySession,
        options: Mapping[str, Any],
        choice: RenderChoice,
        threads: int,
        say: Callable[[str], None],
    ) -> None:
        self._choice = choice
        actors = [session.start(PageReaderActor, options, node=node, threads=threads) for node in session.nodes()]
        self._pool = ActorPool(actors, threads, lambda ready: None, say, "reader")

    def read(
        self,
        target: str | Page,
        options: ReadOptions,
        should_stop: Callable[[], bool] | None = None,
        may_follow: Callable[[str], object] | None = None,
    ) -> Reading:
        """As TargetReader. `may_follow` goes along, and must be able to."""
        if isinstance(target, str) and not is_url(target):
            target = open_target(target, _NoFetcher())
        address = target if isinstance(target, str) else target.url or target.requested
        skips = isinstance(target, str) and self._choice.skips_judging(address)
        stops = should_stop or (lambda: False)
        try:
            came: _Came = self._pool.ask("read", target, options, may_follow, skips, should_stop=stops)
        except Lost as error:
            raise FetchError(error.message, url=address, code=error.code, hint=error.hint, retryable=True) from None
        for url, needed in came.learned:
            self._choice.learn(url, needed)
        if came.error is not None:
            raise came.error
        assert came.reading is not None
        return came.reading

    def close(self) -> None:
        """End the readers."""
        self._pool.close()


class _NoFetcher:
    def fetch(self, url: str) -> Page:
        raise AssertionError("what is a URL goes to the cluster")
