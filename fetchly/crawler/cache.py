"""A request in, its answer out: a fresh one from disk, or the server's, which may confirm what is on disk.

The key is the whole request as it is sent: method, URL, every header field. So whatever `Vary` names is in it, and the
user agent, too. A request that carries a cookie is neither answered from here nor kept: cookies live for one fetch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import httpx2

from fetchly.crawler.cache_rules import StoredAnswer, conditions, confirmed, is_fresh, may_store, stored_fields
from fetchly.disk_cache import DiskCache
from fetchly.goods import CacheUse

Send = Callable[[httpx2.Request], httpx2.Response]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request. `stored_body` is its body, decoded, where that comes from disk; else it is still to be
    read from `response`. `asked_at` is the time of day."""

    response: httpx2.Response
    asked_at: float = 0.0
    answered_at: float = 0.0
    from_cache: CacheUse = "no"
    stored_body: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    head: StoredAnswer
    body: bytes

    def as_bytes(self) -> bytes:
        head = self.head
        line = json.dumps([head.status, head.asked_at, head.answered_at, head.fields])
        return line.encode("ascii") + b"\n" + self.body

    def as_answer(self, request: httpx2.Request, how: CacheUse) -> Answer:
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.head.fields]
        response = httpx2.Response(self.head.status, headers=fields, stream=_Nothing(), request=request)
        return Answer(response, from_cache=how, stored_body=self.body)


class _Nothing(httpx2.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield from ()


class HttpCache:
    """A private cache by RFC 9111, for GET. Safe to share between threads, and a folder between processes.

    Answers that a client may only have had with leave to read private addresses (`allow_private`) are kept apart.
    `clock` gives the time of day in seconds since 1970.
    """

    def __init__(self, store: DiskCache, *, allow_private: bool, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._allow_private = allow_private
        self._clock = clock

    def ask(self, request: httpx2.Request, send: Send) -> Answer:
        """The answer to a request, in as few words to its server as there can be. Raises what `send` raises."""
        entry = self._entry(request)
        if entry is not None and is_fresh(entry.head, self._clock()):
            return entry.as_answer(request, "fresh")
        if entry is None or not conditions(entry.head):
            return self._sent(request, send)
        conditional = httpx2.Request(request.method, request.url, headers=[*request.headers.raw, *_asking(entry.head)])
        answer = self._sent(conditional, send)
        if answer.response.status_code != httpx2.codes.NOT_MODIFIED:
            return replace(answer, response=_of(answer.response, request))
        answer.response.close()
        head = confirmed(entry.head, _head(answer))
        if head is None:
            return self._sent(request, send)
        renewed = _Entry(head, entry.body)
        self._put(request, renewed)
        return renewed.as_answer(request, "revalidated")

    def keep(self, request: httpx2.Request, answer: Answer, body: bytes) -> None:
        """Keep an answer of the server's, read to its end: `body`, decoded. What the rules forbid is not kept, and what
        it takes the place of is forgotten."""
        if answer.from_cache == "no":
            self._put(request, _Entry(_head(answer), body))

    def _put(self, request: httpx2.Request, entry: _Entry) -> None:
        if "cookie" in request.headers:
            return
        if may_store(entry.head):
            self._store.put(self._key(request), entry.as_bytes())
        else:
            self._store.remove(self._key(request))

    def _entry(self, request: httpx2.Request) -> _Entry | None:
        raw = self._store.get(self._key(request)) if "cookie" not in request.headers else None
        if raw is None:
            return None
        line, _, body = raw.partition(b"\n")
        status, asked_at, answered_at, fields = json.loads(line)
        return _Entry(StoredAnswer(status, tuple((name, value) for name, value in fields), asked_at, answered_at), body)

    def _sent(self, request: httpx2.Request, send: Send) -> Answer:
        asked_at = self._clock()
        return Answer(send(request), asked_at, self._clock())

    def _key(self, request: httpx2.Request) -> bytes:
        fields = sorted(
            (name.lower().decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw
        )
        url = str(request.url.copy_with(fragment=None))
        return json.dumps(["page", request.method, url, fields, self._allow_private]).encode("ascii")


def _head(answer: Answer) -> StoredAnswer:
    raw = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.response.headers.raw]
    return StoredAnswer(answer.response.status_code, stored_fields(raw), answer.asked_at, answer.answered_at)


def _asking(head: StoredAnswer) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in conditions(head)]


def _of(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """An answer to the conditional form of a request is an answer to the request."""
    response.request = request
    return response
