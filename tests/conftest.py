"""For every test: no connection leaves this machine, and property tests draw the same examples every time."""

import ipaddress
import os
import socket
from typing import Any

import pytest
from hypothesis import settings

# `HYPOTHESIS_PROFILE=explore pytest` looks for new examples; a change is judged by the same ones every time.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def _stays_here(address: Any) -> bool:
    if not isinstance(address, tuple):  # a Unix socket's path
        return True
    try:
        return ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    except ValueError:
        return str(address[0]) == "localhost"


@pytest.fixture(autouse=True)
def _no_connection_leaves_this_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("model") is not None:
        return  # the store may have to fetch the model
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        assert _stays_here(address), f"a test tried to connect to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
