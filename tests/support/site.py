"""A web site on loopback that does what it is told, byte for byte: lies about lengths, drips, floods, never ends."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType

LIFETIME_S = 20.0  # no connection of a test lives longer


@dataclass(slots=True)
class Visit:
    """A request that came in, and the connection to answer it on. `send` raises OSError once the client is gone."""

    path: str
    headers: dict[str, str]
    sock: socket.socket
    stopped: threading.Event

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes, *, pause_s: float, size: int = 1) -> None:
        """Send `size` bytes at a time until the client or the site gives up."""
        for start in range(0, len(data), size):
            self.send(data[start : start + size])
            if self.stopped.wait(pause_s):
                return

    def endless(self, data: bytes) -> None:
        """Send the same bytes until the client goes away."""
        end = time.monotonic() + LIFETIME_S
        while not self.stopped.is_set() and time.monotonic() < end:
            self.send(data)


Handler = Callable[[Visit], None]


def answer(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    content_type: str | None = "text/html; charset=utf-8",
    headers: Iterable[tuple[str, str]] = (),
) -> bytes:
    """A whole, correct HTTP/1.1 answer that closes the connection."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + body


def redirect(location: str, *, status: str = "302 Found", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    return answer(status=status, content_type=None, headers=[("Location", location), *headers])


@dataclass
class Site:
    """Serves `routes` (path without query -> bytes or handler) on 127.0.0.1 in threads; a context manager.

    `connections` counts accepted connections, `visits` are the requests understood.
    """

    routes: dict[str, bytes | Handler] = field(default_factory=dict)
    host: str = "127.0.0.1"
    connections: int = 0
    visits: list[Visit] = field(default_factory=list)

    def __enter__(self) -> Site:
        self._stopped = threading.Event()
        self._listener = socket.create_server((self.host, 0))
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._acceptor.join(timeout=5)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{path}"

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(LIFETIME_S)
        with sock, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                data = sock.recv(65536)
                if not data:
                    return
                head += data
            first, *rest = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
            visit = Visit(first.split(" ")[1], headers, sock, self._stopped)
            self.visits.append(visit)
            route = self.routes.get(visit.path.partition("?")[0], answer(b"no such page", status="404 Not Found"))
            if isinstance(route, bytes):
                visit.send(route)
            else:
                route(visit)
            sock.shutdown(socket.SHUT_RDWR)
