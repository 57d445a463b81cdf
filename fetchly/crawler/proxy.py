"""A browser's requests in, connections through the egress gate out: the only way of a browser to the network.

A browser resolves names and opens sockets by itself, out of the gate's sight, and a page's scripts decide which. Here
it gets one proxy on loopback that connects through `EgressGate.connect` and keeps what the gate said, so that a refusal
reaches the user in the gate's words. What the browser wants for itself is refused before the gate is asked. Plain http
comes in absolute form (RFC 9112, 3.2.2) and is forwarded request by request; everything else, WebSockets included,
comes as CONNECT (RFC 9110, 9.3.6) and is passed on unread.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from fetchly.crawler.chromium import SERVICE_HOSTS
from fetchly.egress import EgressGate, Endpoint
from fetchly.errors import FetchError, PolicyRefused

MAX_HEAD = 128 * 1024
MAX_CONNECTIONS = 256
MAX_ANSWER_BYTES = 200_000_000  # of one connection
HEAD_S = 10.0
CONNECT_S = 10.0
CONNECTING = 32  # at a time; Chromium opens no more connections to a proxy
IDLE_S = 120.0
_KEPT_REFUSALS = 1024
_PIECE = 64 * 1024
# Of one connection alone, never passed on (RFC 9110, 7.6.1); the credentials are ours.
_HOP_BY_HOP = frozenset((b"connection", b"keep-alive", b"te", b"upgrade", b"proxy-connection")) | frozenset(
    (b"proxy-authorization", b"proxy-authenticate")
)


class _Refused(Exception):
    """A request that gets an answer of our own: its HTTP status."""

    def __init__(self, status: int, headers: list[tuple[str, str]] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers or []


@dataclass(frozen=True, slots=True)
class _Client:
    """The browser's side of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a request goes. `path` is the origin form of plain http, empty for a tunnel."""

    endpoint: Endpoint
    path: str


class EgressProxy:
    """Serves one browser on 127.0.0.1, in the running loop, until `close`.

    `username` and `password` are random: other users of this machine can reach the port, and must not use it. An
    answer of the proxy itself carries the header `mark`, which no site can guess.
    """

    def __init__(self, gate: EgressGate) -> None:
        self.username = "fetchly"
        self.password = secrets.token_urlsafe(24)
        self.mark = f"fetchly-{secrets.token_hex(12)}"
        self._gate = gate
        self._refusals: dict[tuple[str, int], FetchError] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._connecting = asyncio.Semaphore(CONNECTING)

    @property
    def url(self) -> str:
        """The address to give to the browser."""
        assert self._server is not None, "started"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)

    async def close(self) -> None:
        """Cut every connection and stop listening."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def refusal(self, host: str, port: int) -> FetchError | None:
        """Why the last connection to a place was not made, None where it was."""
        return self._refusals.get((host.lower(), port))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "called in a task"
        self._tasks.add(task)
        try:
            if len(self._tasks) <= MAX_CONNECTIONS:
                await self._serve(_Client(reader, writer, h11.Connection(h11.SERVER, MAX_HEAD)))
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # one side went away, or says what is no HTTP: the connection ends
        except asyncio.CancelledError:
            pass  # the proxy closes; raising here would only have the server log it
        finally:
            self._tasks.discard(task)
            await _closed(writer)

    async def _serve(self, client: _Client) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                request = await _event(client.http, client.reader)
            if not isinstance(request, h11.Request):
                return
            self._check_credentials(request)
            target = _target(request)
            upstream = await self._connect(target.endpoint)
        except _Refused as refused:
            await _answer(client, refused)
            return
        reader, writer = await asyncio.open_connection(sock=upstream, limit=MAX_HEAD)
        try:
            if target.path:
                await _forward(client, request, target.path, reader, writer)
            else:
                await _tunnel(client, reader, writer)
        finally:
            await _closed(writer)

    def _check_credentials(self, request: h11.Request) -> None:
        expected = b"Basic " + base64.b64encode(f"{self.username}:{self.password}".encode())
        given = [value for name, value in request.headers if name == b"proxy-authorization"]
        if len(given) != 1 or not hmac.compare_digest(given[0], expected):
            raise _Refused(407, [("Proxy-Authenticate", 'Basic realm="fetchly"')])

    async def _connect(self, endpoint: Endpoint) -> socket.socket:
        place = (endpoint.host, endpoint.port)
        url = f"{endpoint.scheme}://{endpoint.host}:{endpoint.port}/"
        try:
            _check_is_for_pages(endpoint, url)
            async with self._connecting:
                sock = await _connected(lambda: self._gate.connect(endpoint, url=url, timeout_s=CONNECT_S))
        except FetchError as error:
            self._refusals.pop(place, None)
            while len(self._refusals) >= _KEPT_REFUSALS:
                del self._refusals[next(iter(self._refusals))]
            self._refusals[place] = error
            status = 403 if isinstance(error, PolicyRefused) else 504 if error.code == "TIMEOUT" else 502
            raise _Refused(status, [(self.mark, "1")]) from error
        self._refusals.pop(place, None)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


def _check_is_for_pages(endpoint: Endpoint, url: str) -> None:
    """Refuse what the browser wants for itself."""
    if endpoint.host.lower().rstrip(".") in SERVICE_HOSTS:
        raise PolicyRefused("this host serves browsers and holds no page", url=url, code="HOST_REFUSED")


async def _connected(connect: Callable[[], socket.socket]) -> socket.socket:
    """Run what blocks in a thread. A daemon, as the end of the program must not wait for a name server."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[socket.socket] = loop.create_future()

    def deliver(outcome: socket.socket | Exception) -> None:
        if isinstance(outcome, Exception):
            if not answer.done():
                answer.set_exception(outcome)
        elif answer.done():  # nobody waits any more
            outcome.close()
        else:
            answer.set_result(outcome)

    def run() -> None:
        try:
            outcome: socket.socket | Exception = connect()
        except Exception as error:  # handed to the waiting task
            outcome = error
        try:
            loop.call_soon_threadsafe(deliver, outcome)
        except RuntimeError:  # the loop is closed
            if not isinstance(outcome, Exception):
                outcome.close()

    threading.Thread(target=run, name="fetchly-connect", daemon=True).start()
    return await answer


def _target(request: h11.Request) -> _Target:
    """Raises _Refused 400 for what a browser does not send to a proxy."""
    text = request.target.decode("ascii", "replace")
    tunnel = request.method == b"CONNECT"
    try:
        parts = urlsplit(f"//{text}" if tunnel else text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _Refused(400) from error
    if not host or "@" in parts.netloc or (tunnel and (port is None or parts.path)):
        raise _Refused(400)
    if tunnel:
        assert port is not None
        return _Target(Endpoint("https", host, port), "")
    if parts.scheme != "http":
        raise _Refused(400)
    path = parts.path or "/"
    return _Target(Endpoint("http", host, port or 80), f"{path}?{parts.query}" if parts.query else path)


async def _event(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Event | type[h11.PAUSED]:
    while True:
        event = http.next_event()
        if event is not h11.NEED_DATA:
            return event  # type: ignore[return-value]
        async with asyncio.timeout(IDLE_S):
            http.receive_data(await reader.read(_PIECE))


async def _send(http: h11.Connection, writer: asyncio.StreamWriter, event: h11.Event) -> None:
    data = http.send(event)
    if data:
        writer.write(data)
        async with asyncio.timeout(IDLE_S):
            await writer.drain()


async def _answer(client: _Client, refused: _Refused) -> None:
    headers = [*refused.headers, ("Content-Length", "0"), ("Connection", "close")]
    await _send(client.http, client.writer, h11.Response(status_code=refused.status, headers=headers))
    await _send(client.http, client.writer, h11.EndOfMessage())


def _passed_on(headers: h11._headers.Headers) -> list[tuple[bytes, bytes]]:
    """Headers without those of one hop, and one request per connection: the next may go to another site."""
    named = {part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")} - {
        b"close"
    }
    kept = [(name, value) for name, value in headers.raw_items() if name.lower() not in _HOP_BY_HOP | named]
    return [*kept, (b"Connection", b"close")]


async def _forward(
    client: _Client, request: h11.Request, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    server = h11.Connection(h11.CLIENT, MAX_HEAD)
    headers = _passed_on(request.headers)
    await _send(server, writer, h11.Request(method=request.method, target=path, headers=headers))
    while True:
        event = await _event(client.http, client.reader)
        if not isinstance(event, h11.Data | h11.EndOfMessage):
            return
        await _send(server, writer, event if isinstance(event, h11.EndOfMessage) else h11.Data(data=bytes(event.data)))
        if isinstance(event, h11.EndOfMessage):
            break
    # The browser leaves when a page is closed; a server that is silent must not hold the connection then.
    await _first(_pass_answer(server, reader, client), _until_end(client.reader))


async def _pass_answer(server: h11.Connection, reader: asyncio.StreamReader, client: _Client) -> None:
    seen = 0
    while True:
        event = await _event(server, reader)
        if isinstance(event, h11.InformationalResponse):
            continue
        if isinstance(event, h11.Response):
            status, reason = event.status_code, event.reason
            answer = h11.Response(status_code=status, reason=reason, headers=_passed_on(event.headers))
            await _send(client.http, client.writer, answer)
        elif isinstance(event, h11.Data):
            seen += len(event.data)
            if seen > MAX_ANSWER_BYTES:
                return
            await _send(client.http, client.writer, h11.Data(data=bytes(event.data)))
        else:
            if isinstance(event, h11.EndOfMessage):
                await _send(client.http, client.writer, h11.EndOfMessage())
            return


async def _tunnel(client: _Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    early = client.http.trailing_data[0]  # a browser may send its hello without waiting
    if early:
        writer.write(early)
    await _first(_pump(reader, client.writer), _pump(client.reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    seen = 0
    while seen <= MAX_ANSWER_BYTES:
        async with asyncio.timeout(IDLE_S):
            data = await reader.read(_PIECE)
        if not data:
            return
        seen += len(data)
        writer.write(data)
        async with asyncio.timeout(IDLE_S):
            await writer.drain()


async def _until_end(reader: asyncio.StreamReader) -> None:
    await reader.read(1)  # the end, or a second request, which gets no answer: we said `Connection: close`


async def _first(*works: Coroutine[None, None, None]) -> None:
    """Run side by side until one is done; the others are cancelled, and awaited."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.CancelledError, TimeoutError):
        async with asyncio.timeout(2):
            await writer.wait_closed()
