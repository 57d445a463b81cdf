"""An exception in; why a page failed, or that the whole crawl cannot go on, out."""

from __future__ import annotations

from fetchly.crawler.frontier import Failure
from fetchly.errors import ConfigurationError, FetchlyError, ModelUnavailable, OutputError, RecordInvalid
from fetchly.extraction.validation import VALUE_MISSING

REFUSALS = frozenset(
    ("ROBOTS_DISALLOWED", "POLICY_REFUSED", "ADDRESS_REFUSED", "SCHEME_REFUSED", "PORT_REFUSED", "USERINFO_REFUSED")
)
"""Codes of pages that were never asked for, as policy forbids them."""
NO_RECORD = "NO_RECORD"
"""Why a page is skipped that was read and does not say what the schema requires: an index, a page about something else.
It counts towards the limit, its links are followed, and trying it again would change nothing."""

CLUSTER_LOST = "CLUSTER_LOST"
"""Why a crawl ends whose machines are gone, all of them and for good."""


def failure_of(error: Exception) -> Failure:
    """What is kept of a page's error. A bug of ours that one page brings out has the code INTERNAL."""
    if isinstance(error, FetchlyError):
        return Failure(error.code, error.line(), error.retryable, error.hint)
    return Failure("INTERNAL", " ".join(f"INTERNAL: {type(error).__name__}: {error}".split()))


def lacking_field(error: Exception) -> str | None:
    """The field for want of which a page gives no record, as a JSON pointer: it is required, and not on the page.

    None where something else is wrong. A list of which one entry lacks a value is a failure: the others are lost.
    """
    if not isinstance(error, RecordInvalid) or error.code != VALUE_MISSING:
        return None
    in_a_list = any(part.isdigit() for part in error.pointer.split("/"))
    return None if in_a_list else error.pointer or "/"


def ends_the_crawl(error: Exception) -> bool:
    """Whether every other page would fare no better: no browser under `always`, no model, a wrong setting."""
    is_lost = isinstance(error, FetchlyError) and error.code == CLUSTER_LOST
    return is_lost or isinstance(error, ConfigurationError | ModelUnavailable | OutputError)
