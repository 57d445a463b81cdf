"""An exception in; why a page failed, or that the whole crawl cannot go on, out."""

from __future__ import annotations

from fetchly.crawler.frontier import Failure
from fetchly.errors import ConfigurationError, FetchlyError, ModelUnavailable, OutputError

REFUSALS = frozenset(
    ("ROBOTS_DISALLOWED", "POLICY_REFUSED", "ADDRESS_REFUSED", "SCHEME_REFUSED", "PORT_REFUSED", "USERINFO_REFUSED")
)
"""Codes of pages that were never asked for, as policy forbids them."""


def failure_of(error: Exception) -> Failure:
    """What is kept of a page's error. A bug of ours that one page brings out has the code INTERNAL."""
    if isinstance(error, FetchlyError):
        return Failure(error.code, error.line(), error.retryable)
    return Failure("INTERNAL", " ".join(f"INTERNAL: {type(error).__name__}: {error}".split()))


def ends_the_crawl(error: Exception) -> bool:
    """Whether every other page would fare no better: no browser under `always`, no model, a wrong setting."""
    return isinstance(error, ConfigurationError | ModelUnavailable | OutputError)
