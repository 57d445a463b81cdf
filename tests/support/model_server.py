"""An OpenAI-compatible model server on loopback that answers by script; it keeps every request that it was sent."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.support.site import LIFETIME_S, Visit, answer

Reply = bytes | Callable[[Visit], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: its path, its headers with lower-case names, its JSON body (None for a GET)."""

    path: str
    headers: dict[str, str]
    body: Any


def json_answer(value: Any, *, status: str = "200 OK", headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    return answer(json.dumps(value).encode(), status=status, content_type="application/json", headers=headers)


def completion(content: str | None, *, finish: str | None = "stop", usage: Any = None, **more: Any) -> bytes:
    """A chat completion; `more` goes into its message."""
    message = {"role": "assistant", "content": content, **more}
    value = {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    return json_answer(value if usage is None else {**value, "usage": usage})


def refused(status: str, message: str, *, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """An error as OpenAI words it."""
    return json_answer({"error": {"message": message, "type": "BadRequestError"}}, status=status, headers=headers)


@dataclass
class ModelServer:
    """Serves `/v1/chat/completions` by `replies`, one after the other, the last one for ever; a context manager.

    `models` are the entries of its list. `words` True: `/tokenize` counts words, else there is none. `extra` are
    further routes, or others in place of these.
    """

    replies: list[Reply] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "tiny", "max_model_len": 8192}])
    words: bool = False
    extra: dict[str, Reply] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> ModelServer:
        self._stopped = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            timeout = LIFETIME_S

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.asked.append(Asked(self.path, headers, json.loads(data) if data else None))
                self.close_connection = True
                visit = Visit(self.path, headers, self.connection, owner._stopped)
                with contextlib.suppress(OSError):
                    owner._serve(visit)
                    self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_POST = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def bodies(self, path: str = "/v1/chat/completions") -> list[Any]:
        return [asked.body for asked in self.asked if asked.path == path]

    def _serve(self, visit: Visit) -> None:
        if visit.path in self.extra:
            _send(visit, self.extra[visit.path])
        elif visit.path == "/v1/models":
            visit.send(json_answer({"object": "list", "data": self.models}))
        elif visit.path == "/v1/chat/completions":
            _send(visit, self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])
        elif visit.path == "/tokenize" and self.words:
            count = len(self.asked[-1].body["prompt"].split())
            visit.send(json_answer({"count": count, "tokens": [1] * count, "max_model_len": 8192}))
        else:
            visit.send(refused("404 Not Found", "no such route"))


def _send(visit: Visit, reply: Reply) -> None:
    if isinstance(reply, bytes):
        visit.send(reply)
    else:
        reply(visit)
