"""For tests of the store: a package index of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.package_index_server import IndexBehaviour, Serve, package_index

INDEX_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A context manager that makes a behaviour the machine's package index."""
    for name in (*INDEX_VARIABLES, *PROXY_VARIABLES, *(name.lower() for name in PROXY_VARIABLES)):
        monkeypatch.delenv(name, raising=False)

    @contextmanager
    def served(behaviour: IndexBehaviour, variable: str = "PIP_INDEX_URL") -> Iterator[str]:
        with package_index(behaviour) as url:
            monkeypatch.setenv(variable, url)
            yield url

    return served
