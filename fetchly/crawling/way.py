"""A page of a crawl in; whether it may go where it leads out: asked before a redirect or a script is followed.

A Way holds all that the answer depends on, so that it can go along to where the page is fetched.
"""

from __future__ import annotations

from dataclasses import dataclass

from fetchly.crawler.fingerprint import Address, address_of
from fetchly.crawler.robots import RobotsRules, origin_of
from fetchly.crawler.scope import NOT_FOLLOWED, Scope
from fetchly.errors import FetchError

REDIRECTED = "REDIRECTED"
"""Why a page is skipped that redirects to another origin, whose page is queued in its place."""


class LedElsewhere(FetchError):
    """A redirect that is not followed: out of the crawl, or to a page that waits for a turn of its own."""

    def __init__(self, code: str, message: str, to: Address, *, is_queued: bool = False) -> None:
        super().__init__(message, url=to.url, code=code)
        self.to = to
        self.is_queued = is_queued


@dataclass(frozen=True, slots=True)
class Way:
    """The way of one page. `rules` are those of its site, None where they are not known.

    A page may not go out of the crawl, nor against the rules of its site, nor to another origin: that is to wait for
    its host's turn, and for rules of its own.
    """

    url: str
    is_seed: bool
    scope: Scope
    rules: RobotsRules | None

    def __call__(self, url: str) -> None:
        """Ask before a URL is followed. Raises LedElsewhere."""
        to = address_of(url)
        code = out_of_scope(self.scope, to, is_seed=self.is_seed)
        if code is not None:
            raise LedElsewhere(code, f"it leads to {url}", to)
        if origin_of(url) != origin_of(self.url):
            raise LedElsewhere(REDIRECTED, f"it leads to {url}", to, is_queued=True)
        forbidden = self.rules.refusal(to.url) if self.rules is not None else None
        if forbidden is not None:
            raise LedElsewhere(forbidden.code, forbidden.line(), to)


def out_of_scope(scope: Scope, to: Address, *, is_seed: bool) -> str | None:
    """Why an address is none of the crawl's. A seed may be where nothing is followed, and may lead there."""
    code = scope.refusal(to)
    return None if code == NOT_FOLLOWED and is_seed else code
