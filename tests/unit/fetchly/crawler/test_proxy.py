"""The proxy of a browser, spoken to by hand: who may use it, what it passes on, what it refuses."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

import pytest

from fetchly.crawler.chromium import SERVICE_HOSTS
from fetchly.crawler.proxy import EgressProxy
from fetchly.egress import EgressGate
from fetchly.errors import PolicyRefused
from tests.support.site import Site, answer


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def talk(gate: EgressGate, conversation: Callable[[EgressProxy, Ask], Awaitable[None]]) -> None:
    """Start a proxy, hold a conversation, and see to it that nothing of it is left."""

    async def run() -> None:
        proxy = EgressProxy(gate)
        await proxy.start()
        try:
            await conversation(proxy, Ask(proxy))
        finally:
            async with asyncio.timeout(5):
                await proxy.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


class Ask:
    """One request on a connection of its own; returns all that comes back until the proxy closes."""

    def __init__(self, proxy: EgressProxy) -> None:
        self.port = int(proxy.url.rpartition(":")[2])
        token = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        self.credentials = f"Proxy-Authorization: Basic {token}\r\n"

    async def __call__(
        self, line: str, headers: str = "", *, credentials: str | None = None, more: bytes = b""
    ) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        given = self.credentials if credentials is None else credentials
        writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n{given}{headers}\r\n".encode() + more)
        async with asyncio.timeout(5):
            said = await reader.read()
        writer.close()
        await writer.wait_closed()
        return said


OPEN = EgressGate(allow_private=True)


@pytest.mark.parametrize(
    "credentials", ["", "Proxy-Authorization: Basic eDp5\r\n", "Proxy-Authorization: Bearer x\r\n"]
)
def test_strangers_are_turned_away(site: Site, credentials: str) -> None:
    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        for line in (f"GET {site.url()}", f"CONNECT 127.0.0.1:{site.port}"):
            said = await ask(line, credentials=credentials)
            assert said.startswith(b"HTTP/1.1 407 ")
            assert b"Proxy-Authenticate: Basic" in said

    talk(OPEN, conversation)
    assert site.connections == 0


def test_a_request_is_passed_on_without_what_is_ours(site: Site) -> None:
    site.routes["/a"] = answer(b"body", headers=[("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("X-End", "2")])

    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        said = await ask(f"GET {site.url('/a?q=1')}", "Proxy-Connection: keep-alive\r\nX-Mine: 1\r\n")
        head, _, body = said.partition(b"\r\n\r\n")
        assert body == b"body"
        assert b"x-end: 2" in head.lower()
        assert b"x-hop" not in head.lower()
        assert head.lower().count(b"connection:") == 1
        assert b"connection: close" in head.lower()

    talk(OPEN, conversation)
    (visit,) = site.visits
    assert visit.path == "/a?q=1"
    assert visit.headers["x-mine"] == "1"
    assert not [name for name in visit.headers if name.startswith("proxy-")]


def test_a_second_request_never_goes_to_the_first_ones_site(site: Site) -> None:
    site.routes["/"] = answer(b"first")

    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        second = f"GET http://other.example/secret HTTP/1.1\r\nHost: other\r\n{ask.credentials}\r\n".encode()
        said = await ask(f"GET {site.url()}", more=second)
        assert said.count(b"HTTP/1.1") <= 1

    talk(OPEN, conversation)
    assert [visit.path for visit in site.visits] in ([], ["/"])


def test_a_body_that_breaks_off_does_not_look_whole(site: Site) -> None:
    site.routes["/"] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"

    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        said = await ask(f"GET {site.url()}")
        assert b"abcde" in said
        assert not said.endswith(b"0\r\n\r\n")

    talk(OPEN, conversation)


def test_a_tunnel_carries_bytes_both_ways_unread(site: Site) -> None:
    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
            port = listener.getsockname()[1]
            writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n{ask.credentials}\r\n\x16early".encode())
            far, _ = await asyncio.get_running_loop().sock_accept(listener)
            with far:
                far.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(far, 100) == b"\x16early"
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
                await asyncio.get_running_loop().sock_sendall(far, b"back")
                assert await reader.readexactly(4) == b"back"
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

    talk(OPEN, conversation)


def test_what_the_gate_refuses_is_refused_and_kept_in_its_words(site: Site) -> None:
    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        for line in (f"GET {site.url()}", f"CONNECT 127.0.0.1:{site.port}"):
            said = await ask(line)
            assert said.startswith(b"HTTP/1.1 403 ")
            assert proxy.mark.encode() in said
            refusal = proxy.refusal("127.0.0.1", site.port)
            assert isinstance(refusal, PolicyRefused)
            assert refusal.code == "ADDRESS_REFUSED"
        assert proxy.refusal("127.0.0.1", 1) is None

    talk(EgressGate(), conversation)
    assert site.connections == 0


def test_a_refusal_is_forgotten_once_the_place_is_reached(site: Site) -> None:
    site.routes["/"] = answer(b"in")
    places = iter([[], ["127.0.0.1"]])
    gate = EgressGate(allow_private=True, resolver=lambda host, port: next(places))

    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        assert (await ask(f"GET http://name.example:{site.port}/")).startswith(b"HTTP/1.1 502 ")
        assert proxy.refusal("name.example", site.port) is not None
        assert (await ask(f"GET http://name.example:{site.port}/")).endswith(b"in")
        assert proxy.refusal("name.example", site.port) is None

    talk(gate, conversation)


@pytest.mark.parametrize(
    "line",
    [
        *("GET /", "GET https://example.org/", "GET file:///etc/passwd", "GET http://a@127.0.0.1/", "GET ftp://a/"),
        *("CONNECT example.org", "CONNECT example.org:443/x", "CONNECT a@example.org:443", "CONNECT example.org:99999"),
    ],
)
def test_what_a_browser_does_not_ask_of_a_proxy_is_an_error(line: str) -> None:
    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        assert (await ask(line)).startswith(b"HTTP/1.1 400 ")

    talk(OPEN, conversation)


def test_what_is_no_http_gets_no_answer() -> None:
    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        assert await ask("\x16\x03\x01 nothing like it") == b""
        assert await ask("GET http://127.0.0.1/", "X-Long: " + "a" * 200_000 + "\r\n") == b""

    talk(OPEN, conversation)


def test_closing_cuts_what_is_under_way(site: Site) -> None:
    site.routes["/"] = lambda visit: visit.stopped.wait(10)  # type: ignore[assignment]

    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        waiting = asyncio.create_task(ask(f"GET {site.url()}"))
        while not site.visits:
            await asyncio.sleep(0.01)
        await proxy.close()
        assert await waiting == b""

    talk(OPEN, conversation)


@pytest.mark.parametrize(
    "line",
    [
        "CONNECT content-autofill.googleapis.com:443",
        "CONNECT Update.GoogleAPIs.com.:443",
        "GET http://clients2.google.com/time/1/current",
    ],
)
def test_what_the_browser_wants_for_itself_is_refused_before_a_look_up(line: str) -> None:
    def resolver(host: str, port: int) -> list[str]:
        raise AssertionError(f"looked up {host}")

    async def conversation(proxy: EgressProxy, ask: Ask) -> None:
        said = await ask(line)
        assert said.startswith(b"HTTP/1.1 403 ")
        assert proxy.mark.encode() in said
        host = urlsplit(line.split(" ")[1]).hostname or line.split(" ")[1].rpartition(":")[0]
        refused = proxy.refusal(host, 443 if line.startswith("CONNECT") else 80)
        assert isinstance(refused, PolicyRefused)
        assert refused.code == "HOST_REFUSED"

    talk(EgressGate(resolver=resolver), conversation)


def test_hosts_that_pages_use_are_no_services_of_the_browser() -> None:
    pages = {"fonts.googleapis.com", "ajax.googleapis.com", "maps.googleapis.com", "www.googleapis.com"}
    pages |= {"www.google.com", "accounts.google.com", "translate.googleapis.com", "www.gstatic.com"}
    assert not pages & SERVICE_HOSTS
