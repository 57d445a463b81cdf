"""What a user says about a crawl in; checked options out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly.crawler.traps import PER_SHAPE
from fetchly.crawling.queues import QueueBounds
from fetchly.errors import ConfigurationError
from fetchly.governing.memory_limit import memory_limit

DELAY_S = 1.0
CONCURRENCY = 8
PER_HOST = 2
"""Requests to a host at a time, where there is a delay between their starts."""
TRIES = 3
WAITING_TOKENS = 16_000
WAITING_CHARACTERS = 50_000_000
"""Of the texts of pages that wait for the model: a page counts for no more tokens than it reads of them."""


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """How a site is crawled.

    `limit` counts pages that were fetched, whether a record came of them or not; pages that turned out to be none of
    the crawl's (another page again, no HTML, closed by robots.txt) do not count. `follow` and `exclude` are globs on
    the path; `depth` is how many links lie between a seed and a page at most. `sitemap` adds what the sites' sitemaps
    list to the seeds. Of pages whose addresses differ in numbers alone, `per_shape` are read at most: a calendar has no
    end. `delay_s` lies between two requests to a host, `per_host` are under way at a time (None: two, or
    without a delay as many as over all hosts), `concurrency` over all hosts. A page is tried up to `tries` times. No
    more is fetched while `waiting_tokens` of pages wait for each model. `state` is the file that a crawl can be gone on
    with from, after `resume`; `failed` tries again what failed in it. `near_duplicates` is the likeness, from 0.5 to 1,
    from which on a page is skipped as the double of another one (None: it is not looked for). With `stop_at_failure`
    the first page that fails for good ends the crawl with its error, once what is under way has come to its end.

    `memory_limit` is what all processes together may hold ("2GB", "75%", bytes; "off": nothing is ever held back; None:
    what the machine or the cgroup has).

    Errors: ConfigurationError.
    """

    limit: int | None = None
    follow: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    depth: int | None = None
    sitemap: bool = False
    per_shape: int = PER_SHAPE
    delay_s: float = DELAY_S
    per_host: int | None = None
    concurrency: int = CONCURRENCY
    tries: int = TRIES
    waiting_tokens: int = WAITING_TOKENS
    state: Path | None = None
    resume: bool = False
    failed: bool = False
    near_duplicates: float | None = None
    stop_at_failure: bool = False
    memory_limit: str | int | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "depth", "concurrency", "per_host", "per_shape", "tries"):
            value, least = getattr(self, name), 0 if name == "depth" else 1
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise ConfigurationError(f"{name} is {value!r}, not a whole number from {least} on", where=name)
        if not isinstance(self.delay_s, int | float) or not 0 <= self.delay_s < float("inf"):
            raise ConfigurationError(f"delay is {self.delay_s!r}, not seconds", where="delay")
        share = self.near_duplicates
        if share is not None and (type(share) not in (int, float) or not 0.5 <= share <= 1):
            raise ConfigurationError(
                f"near_duplicates is {share!r}, not a share from 0.5 to 1", where="near_duplicates"
            )
        if self.waiting_tokens < 1:
            raise ConfigurationError("waiting_tokens must be greater than 0", where="waiting_tokens")
        memory_limit(self.memory_limit)
        if self.resume and self.state is None:
            raise ConfigurationError("resume needs the state to go on from", where="resume", hint="name it: state")
        if self.failed and not self.resume:
            raise ConfigurationError("failed goes with resume alone", where="failed", hint="add resume")

    @property
    def host_slots(self) -> int:
        """Requests to a host at a time. Who takes the delay away has a site that stands it."""
        return self.per_host or (PER_HOST if self.delay_s else self.concurrency)

    def bounds(self, budgets: Mapping[str, int], width: int) -> QueueBounds:
        """Of the queues between the stages, where the model reads so many tokens of a page, by schema, and takes so
        many pages side by side."""
        return QueueBounds(self.concurrency, self.waiting_tokens * width, WAITING_CHARACTERS, max(budgets.values()))


def crawl_options(values: dict[str, Any]) -> CrawlOptions:
    """Options as a caller writes them: `delay` in seconds, `state` as text or path, one glob or several.

    Errors: ConfigurationError, also for a name that is none.
    """
    known = {**dict.fromkeys(CrawlOptions.__dataclass_fields__), "delay": None}
    del known["delay_s"]
    for name in values:
        if name not in known:
            raise ConfigurationError(f"unknown option {name!r}", hint=f"known: {', '.join(known)}")
    given = {("delay_s" if name == "delay" else name): value for name, value in values.items() if value is not None}
    for name in ("follow", "exclude"):
        if name in given:
            given[name] = _globs(name, given[name])
    if "state" in given:
        given["state"] = Path(given["state"])
    return CrawlOptions(**given)


def _globs(name: str, value: str | Sequence[str]) -> tuple[str, ...]:
    globs = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(glob, str) for glob in globs):
        raise ConfigurationError(f"{name} is {value!r}, not globs", where=name)
    return globs
