"""A site of numbered pages on loopback, made as they are asked for; it keeps a log of who asked for what, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. A `Location` header makes a redirect of a 30x."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: its path with the query as it came, and the moment on the monotonic clock."""

    path: str
    at: float


Answer = Callable[[str], Reply | None]


def page(title: str, links: Iterable[str] = (), more: str = "") -> Reply:
    """A page with a heading, a paragraph and links."""
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return Reply(
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1>"
        f"<p>This is {title}, and it says so.</p>{more}<ul>{anchors}</ul></body></html>".encode()
    )


def numbered(count: int, fan: int = 3) -> Answer:
    """Pages /p/0 to /p/(count - 1): each links to `fan` pages further on, back to the first one and to itself."""

    def answer(path: str) -> Reply | None:
        number = path.removeprefix("/p/")
        if not path.startswith("/p/") or not number.isdigit() or int(number) >= count:
            return None
        n = int(number)
        further = [f"/p/{m}" for m in range(n * fan + 1, n * fan + fan + 1) if m < count]
        return page(f"Item {n}", [*further, "/p/0", f"/p/{n}"])

    return answer


class CrawlSite:
    """Answers by `fixed` (path with query -> reply), then by `answer`, then with 404. A context manager.

    `pause_s` is how long every answer takes; `host` may be any loopback address.
    """

    def __init__(
        self,
        answer: Answer = lambda path: None,
        fixed: Mapping[str, Reply] | None = None,
        *,
        host: str = "127.0.0.1",
        pause_s: float = 0.0,
    ) -> None:
        self.answer = answer
        self.fixed = dict(fixed or {})
        self.host = host
        self.pause_s = pause_s
        self.log: list[Asked] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reply = site._reply(self.path)
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Content-Length", str(len(reply.body)))
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a client that was killed

        self._server = Server((self.host, 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str = "/p/0") -> str:
        return f"http://{self.host}:{self.port}{path}"

    def paths(self, beginning: str = "/p/") -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in list(self.log) if asked.path.startswith(beginning)]

    def times(self, beginning: str = "/p/") -> list[float]:
        """When."""
        return [asked.at for asked in list(self.log) if asked.path.startswith(beginning)]

    def _reply(self, path: str) -> Reply:
        with self._lock:
            self.log.append(Asked(path, time.monotonic()))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        if self.pause_s:
            time.sleep(self.pause_s)
        with self._lock:
            self._at_once -= 1
        return self.fixed.get(path) or self.answer(path) or Reply(b"no such page", 404)
