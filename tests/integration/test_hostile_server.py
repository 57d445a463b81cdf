"""The fetcher against everything that a server can do to it: bounded in time and memory, and a reason every time."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

from fetchly.crawler.http import FetchPolicy, HttpFetcher
from fetchly.errors import FetchError
from tests.support.hostile_server import CATALOGUE, PAGE
from tests.support.site import Site, answer

TIMEOUT_S = 1.5
MAX_BYTES = 2_000_000


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(routes={"/fine": answer(PAGE)}) as running:
        yield running


@pytest.fixture(scope="module")
def fetcher() -> Iterator[HttpFetcher]:
    with HttpFetcher(FetchPolicy(allow_private=True, timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES)) as opened:
        yield opened


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_hostile_answer_costs_little_and_has_a_reason(site: Site, fetcher: HttpFetcher, name: str) -> None:
    hostility = CATALOGUE[name]
    site.routes["/"] = hostility.route
    before = site.connections
    tracemalloc.start()
    start = time.monotonic()
    try:
        if hostility.codes:
            with pytest.raises(FetchError) as failed:
                fetcher.fetch(site.url())
            assert failed.value.code in hostility.codes
            assert failed.value.line().isprintable()
            assert len(failed.value.line()) < 1000
        else:
            assert fetcher.fetch(site.url()).body.endswith(PAGE)
        took = time.monotonic() - start
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took < TIMEOUT_S + 1.5
    assert peak < 10 * MAX_BYTES
    assert site.connections - before <= fetcher.policy.max_redirects + 1
    assert fetcher.fetch(site.url("/fine")).body == PAGE
