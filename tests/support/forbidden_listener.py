"""Every spelling of an address that no page may lead to, and a listener behind them that must never be reached."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

from fetchly.egress import EgressGate, resolve

PUBLIC_HOST = "public.example"
PUBLIC_ADDRESS = "93.184.215.14"

# fmt: off
LOOPBACK = (
    "127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "127.0.1", "127.0.0.1.", "127.000.000.001",
    "2130706433", "0x7f000001", "0x7f.1", "0x7f.0.0.1", "0X7F.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1",
    "0.0.0.0", "0", "0x0", "127.127.127.127", "127.255.255.254",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]", "[::]", "[2002:7f00:1::]", "[2002:7f00:0001:0:0:0:0:1]", "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[fe80::1%25lo]", "[::1%25lo]", "[::1%251]", "[::1%lo]",
    "user@127.0.0.1", "example.org@127.0.0.1", ":pw@127.0.0.1", "@127.0.0.1", "a:b@c@127.0.0.1",
    "１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "ⓛocalhost", "ｌｏｃａｌｈｏｓｔ", "loc\xadalhost",
    "%31%32%37.0.0.1", "127.0.0.1%00.example.org", "127.0.0.1%2f.example.org", "127.0.0.1%09",
    r"example.org\@127.0.0.1", r"127.0.0.1\.example.org", "example.org#@127.0.0.1", "example.org?@127.0.0.1",
    "127.0.0.1.rebound.org", "a-name-for-it.org",
)
"""A name under .org is one that a hostile name server says is 127.0.0.1."""

PRIVATE = (
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.20.1.1", "172.31.255.255", "192.168.0.1", "3232235521",
    "0300.0250.0.1", "0xc0a80001", "100.64.0.1", "169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe",
    "0251.0376.0251.0376", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "100.100.100.200",
    "[fc00::1]", "[fd12:3456::1]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2002:a00:1::1]", "[2002:c0a8:1::]",
    "[64:ff9b::10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a00:1]", "192.0.0.8", "192.0.2.1", "198.18.0.1",
    "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "0.1.2.3", "[100::1]", "[2001:db8::1]",
)
# fmt: on
"""Where nobody listens, and nobody may be looked for."""


class ForbiddenListener:
    """Listens on every local address of both families; counts who comes."""

    def __init__(self) -> None:
        self.connections = 0
        self._stopped = threading.Event()

    def __enter__(self) -> ForbiddenListener:
        if socket.has_dualstack_ipv6():
            self._socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            self._socket = socket.create_server(("0.0.0.0", 0))
        self._socket.settimeout(0.05)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(5)
        self._socket.close()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            self.connections += 1
            connection.close()


def strict_gate() -> EgressGate:
    """The real rules and the system's own resolver, for its odd spellings; no real name leaves this machine."""

    def resolver(host: str, port: int) -> list[str]:
        if host == PUBLIC_HOST:
            return [PUBLIC_ADDRESS]
        return ["127.0.0.1"] if host.rstrip(".").endswith(".org") else resolve(host, port)

    return EgressGate(resolver=resolver)
