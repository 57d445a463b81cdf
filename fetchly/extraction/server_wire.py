"""A checked socket out, wrapped so that it sees a deadline and a stop: what the connection to a model server runs over.

httpcore2's timeouts count each read anew, so that a server which sends a byte a second is never late, and a read
under way cannot be stopped.
"""

from __future__ import annotations

import functools
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import httpcore2
import httpx2

from fetchly.egress import EgressGate, Endpoint
from fetchly.errors import ConfigurationError, Interrupted

CONNECT_TIMEOUT_S = 10.0
SLICE_S = 0.2
"""How long a stop may go unseen."""

_PORTS = {"http": 80, "https": 443}

ShouldStop = Callable[[], bool]


def open_pool(gate: EgressGate, watch: Watch) -> httpcore2.ConnectionPool:
    """For one connection at a time; the caller closes it. Certificates are verified."""
    return httpcore2.ConnectionPool(
        ssl_context=_tls_context(), max_connections=1, retries=0, network_backend=_Backend(gate, watch)
    )


def wire_url(url: str) -> httpcore2.URL:
    """Host names in any script become their IDNA form. Errors: ConfigurationError."""
    try:
        parsed = httpx2.URL(url)
        return httpcore2.URL(
            scheme=parsed.raw_scheme,
            host=parsed.raw_host,
            port=parsed.port or _PORTS[parsed.scheme],
            target=parsed.raw_path,
        )
    except (httpx2.InvalidURL, ValueError) as error:
        raise ConfigurationError(f"the model server's address cannot be read: {error}", where=url) from error


class Late(Exception):
    """The time for an answer is over."""


class Watch:
    """When the answer under way must be there, and whether it is still wanted."""

    def __init__(self, limit_s: float, should_stop: ShouldStop | None) -> None:
        self.limit_s = limit_s
        self.url = ""
        self._should_stop = should_stop
        self._deadline = 0.0

    def begin(self, url: str) -> None:
        """Count the time anew."""
        self.url = url
        self._deadline = time.monotonic() + self.limit_s

    def check_stop(self) -> None:
        """Raises Interrupted where the answer is wanted no more."""
        if self._should_stop is not None and self._should_stop():
            raise Interrupted("the extraction was stopped", where=self.url)

    def slice_s(self) -> float:
        """Seconds to wait before this is asked again. Raises Late, Interrupted."""
        self.check_stop()
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Late
        return min(left, SLICE_S)


class _Stream(httpcore2.NetworkStream):
    """A connected socket that waits in slices, so that a deadline and a stop are seen in the middle of a read."""

    def __init__(self, sock: socket.socket, watch: Watch) -> None:
        self._sock = sock
        self._watch = watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return bytes(self._patiently(lambda: self._sock.recv(max_bytes)))
        except OSError as error:
            raise httpcore2.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        try:
            while view:
                view = view[self._patiently(functools.partial(self._sock.send, view)) :]
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        self._sock = ssl_context.wrap_socket(self._sock, server_hostname=server_hostname, do_handshake_on_connect=False)
        try:
            self._patiently(self._sock.do_handshake)
        except BaseException:
            self._sock.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        return {"socket": self._sock}.get(info)

    def _patiently(self, step: Callable[[], Any]) -> Any:
        while True:
            self._sock.settimeout(self._watch.slice_s())
            try:
                return step()
            except TimeoutError:
                continue


class _Backend(httpcore2.NetworkBackend):
    """Opens connections through the gate."""

    def __init__(self, gate: EgressGate, watch: Watch) -> None:
        self._gate = gate
        self._watch = watch

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        scheme = self._watch.url.partition(":")[0]
        opened: queue.SimpleQueue[socket.socket | Exception] = queue.SimpleQueue()
        unwanted = threading.Event()
        limit_s = min(CONNECT_TIMEOUT_S, self._watch.limit_s)

        def connect() -> None:
            try:
                sock = self._gate.connect(Endpoint(scheme, host, port), url=self._watch.url, timeout_s=limit_s)
            except Exception as error:  # handed to the waiting thread
                opened.put(error)
                return
            opened.put(sock)
            if unwanted.is_set():
                _close_waiting(opened)

        # A name's look-up cannot be called back: it is left to a thread of its own.
        threading.Thread(target=connect, name="fetchly-connect", daemon=True).start()
        while True:
            try:
                found = opened.get(timeout=self._watch.slice_s())
            except queue.Empty:
                continue
            except BaseException:
                unwanted.set()
                _close_waiting(opened)
                raise
            if isinstance(found, Exception):
                raise found
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Stream(found, self._watch)


def _close_waiting(opened: queue.SimpleQueue[socket.socket | Exception]) -> None:
    with suppress(queue.Empty):
        found = opened.get_nowait()
        if isinstance(found, socket.socket):
            found.close()


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Certificates are verified. SSL_CERT_FILE of the environment counts: it is the user's word about whom to trust."""
    return httpx2.create_ssl_context()
