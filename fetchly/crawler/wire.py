"""An httpx2 request in, an httpx2 response out, over sockets that the egress gate opened and under one deadline.

httpx2's own transport resolves names and connects by itself, and its timeouts count each read anew, so that a server
which sends a byte a second is never late. Both are replaced here by httpcore2's public network interface.
"""

from __future__ import annotations

import functools
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore2
import httpx2

from fetchly.egress import EgressGate, Endpoint


class DeadlineExceeded(Exception):
    """The time for the whole fetch is over."""


class Clock(threading.local):
    """What the fetch of this thread is about: its URL and when it must be done (`time.monotonic` seconds).

    Thread-local, because a kept-alive connection outlives the fetch that opened it.
    """

    url = ""
    deadline = 0.0

    def remaining(self) -> float:
        """Seconds left. Raises DeadlineExceeded when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded
        return left


class GatedStream(httpcore2.NetworkStream):
    """A connected socket whose every operation ends at the clock's deadline."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self._sock = sock
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Up to `max_bytes`, or b"" at the end of the stream."""
        self._sock.settimeout(self._clock.remaining())
        try:
            return self._sock.recv(max_bytes)
        except TimeoutError as error:
            raise DeadlineExceeded from error
        except OSError as error:
            raise httpcore2.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send everything."""
        view = memoryview(buffer)
        try:
            while view:
                self._sock.settimeout(self._clock.remaining())
                view = view[self._sock.send(view) :]
        except TimeoutError as error:
            raise DeadlineExceeded from error
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """Hand-shake by single steps, since a blocking hand-shake counts its timeout per read."""
        # wrap_socket takes the descriptor over: from here on it is `tls` that must be closed.
        tls = ssl_context.wrap_socket(self._sock, server_hostname=server_hostname, do_handshake_on_connect=False)
        try:
            tls.settimeout(0)
            while True:
                try:
                    tls.do_handshake()
                    return GatedStream(tls, self._clock)
                except ssl.SSLWantReadError:
                    select.select([tls], [], [], self._clock.remaining())
                except ssl.SSLWantWriteError:
                    select.select([], [tls], [], self._clock.remaining())
        except BaseException:
            tls.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        """What httpcore2 asks for: whether an idle connection has been closed by the other side."""
        if info == "is_readable":
            return self._sock.fileno() < 0 or bool(select.select([self._sock], [], [], 0)[0])
        return {"socket": self._sock}.get(info)


class GatedBackend(httpcore2.NetworkBackend):
    """Opens connections through the gate; no unix sockets, no sleeping retries."""

    def __init__(self, gate: EgressGate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to a checked address of `host`. Raises what `EgressGate.connect` raises."""
        scheme = self._clock.url.partition(":")[0]
        sock = self._gate.connect(
            Endpoint(scheme=scheme, host=host, port=port), url=self._clock.url, timeout_s=self._clock.remaining()
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return GatedStream(sock, self._clock)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """One for the process: it takes 20 ms to read the certificates. SSL_CERT_FILE of the environment counts: it is the
    user's own word about whom to trust, as a company with an inspecting proxy needs it."""
    return httpx2.create_ssl_context()


class _Body(httpx2.SyncByteStream):
    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks

    def close(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


class GatedTransport(httpx2.BaseTransport):
    """httpcore2's HTTP/1.1 connection pool over the gate. Errors are httpcore2's, DeadlineExceeded and the gate's."""

    def __init__(self, gate: EgressGate, clock: Clock, *, connections: int = 16) -> None:
        # No proxy and no .netrc from the environment: a proxy would connect in our place, out of the gate's sight.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_tls_context(),
            max_connections=connections,
            # A server may close an idle connection just as it is used again (RFC 9112, 9.3.1), and a single page has
            # no second request to save a handshake for.
            max_keepalive_connections=0,
            http1=True,
            http2=False,
            retries=0,
            network_backend=GatedBackend(gate, clock),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the response is read by its consumer."""
        answer = self._pool.handle_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=b"",
            )
        )
        assert isinstance(answer.stream, Iterable)
        return httpx2.Response(
            status_code=answer.status, headers=answer.headers, stream=_Body(answer.stream), request=request
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
