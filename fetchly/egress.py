"""A host, a port and a scheme in; a connected socket out, or a refusal: the one gate of every outgoing connection.

The name is resolved once, every answer is judged, and the socket goes to a judged address: between the check and the
connection there is no second look-up that a hostile name server could answer differently (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from fetchly.errors import FetchError, PolicyRefused

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# "Bad ports" of the Fetch standard (https://fetch.spec.whatwg.org/#port-blocking): services that would take an HTTP
# request for commands of their own protocol. Every other port is open, 8080 and the like included.
# fmt: off
REFUSED_PORTS = frozenset((
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
    109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526,
    530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659,
    4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
))
# fmt: on
ALLOWED_SCHEMES = frozenset(("http", "https"))

# Credential services of clouds. They lie in ranges that --allow-private would open, and no page lives there.
_METADATA_SERVICES = frozenset(ipaddress.ip_address(a) for a in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200"))
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # RFC 4291
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052
_NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")  # RFC 8215
_IPV4_COMPATIBLE = ipaddress.ip_network("::/96")  # RFC 4291, deprecated
_SHARED = ipaddress.ip_network("100.64.0.0/10")  # RFC 6598, carrier-grade NAT
# What the registries do not call global, and the standard library does, more or less of it by its version.
_NOT_GLOBAL = (
    ipaddress.ip_network("192.0.0.0/24"),  # RFC 6890, protocols
    ipaddress.ip_network("192.88.99.0/24"),  # RFC 7526, the relays of 6to4, gone
    ipaddress.ip_network("2001::/23"),  # RFC 2928, protocols: Teredo, ORCHID, benchmarks
    ipaddress.ip_network("3fff::/20"),  # RFC 9637, documentation
)
_UNIQUE_LOCAL = ipaddress.ip_network("fc00::/7")  # RFC 4193

Resolver = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a connection is wanted: what the URL says, before any look-up. `host` has no brackets."""

    scheme: str
    host: str
    port: int


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order. `host` may be any spelling the C library knows (`127.1`)."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def carried_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, compatible, 6to4, Teredo or NAT64; else None."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or address in _NAT64_LOCAL or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def is_public(address: IpAddress) -> bool:
    """Whether an address is reachable from the whole internet, whatever it carries inside.

    `ipaddress.is_global` knows the registries; it calls multicast and site-local addresses global, hence the rest.
    """
    if address.is_multicast or address.is_unspecified or (address.version == 4 and address.is_reserved):
        return False
    if any(address in network for network in _NOT_GLOBAL):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global
    inner = carried_ipv4(address)
    if inner is not None:
        # A NAT64 prefix of the local network is never needed to read a page.
        return is_public(inner) and address not in _NAT64_LOCAL
    return address in _GLOBAL_UNICAST and address.is_global


def is_private(address: IpAddress) -> bool:
    """Whether --allow-private opens an address: loopback, RFC 1918, carrier-grade NAT, unique local.

    Link-local, multicast, unspecified and reserved addresses, and the credential services of clouds, stay closed.
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is not None:
            return is_private(inner)
        return (address.is_loopback or address in _UNIQUE_LOCAL) and address not in _METADATA_SERVICES
    if address in _METADATA_SERVICES or address.is_unspecified or address.is_link_local or address.is_multicast:
        return False
    if any(address in network for network in _NOT_GLOBAL):
        return False
    if int(address) >> 24 == 0 or address.is_reserved:
        return False
    return address.is_private or address in _SHARED


class EgressGate:
    """Opens sockets to permitted addresses and to no other.

    `allow_private` opens loopback and private ranges too. `resolver` stands in for DNS in tests.
    """

    def __init__(self, *, allow_private: bool = False, resolver: Resolver = resolve) -> None:
        self.allow_private = allow_private
        self._resolver = resolver

    def check_endpoint(self, endpoint: Endpoint, *, url: str) -> None:
        """Refuse what needs no look-up: a scheme, a port, or a literal address. Raises PolicyRefused."""
        if endpoint.scheme not in ALLOWED_SCHEMES:
            raise PolicyRefused(
                f"only http and https are fetched, not {endpoint.scheme!r}", url=url, code="SCHEME_REFUSED"
            )
        if endpoint.port in REFUSED_PORTS or not 0 < endpoint.port < 65536:
            raise PolicyRefused(
                f"port {endpoint.port} belongs to another service than the web",
                url=url,
                code="PORT_REFUSED",
                hint="use the site's web port",
            )
        try:
            literal = ipaddress.ip_address(endpoint.host)
        except ValueError:
            return  # a name, or an odd spelling of an address: judged when it is resolved
        self._judge(endpoint.host, [literal], url)

    def connect(self, endpoint: Endpoint, *, url: str, timeout_s: float) -> socket.socket:
        """A TCP connection to the endpoint, its address checked. The caller closes it.

        Raises PolicyRefused for a forbidden address, FetchError when the name is unknown or nobody answers in time.
        """
        self.check_endpoint(endpoint, url=url)
        deadline = time.monotonic() + timeout_s
        addresses = self._look_up(endpoint, url, timeout_s)
        self._judge(endpoint.host, addresses, url)
        failure: OSError | None = None
        for position, address in enumerate(addresses):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            # An address that swallows packets must leave time for the next one.
            share = remaining / (len(addresses) - position)
            try:
                return socket.create_connection((str(address), endpoint.port), timeout=share)
            except OSError as error:
                failure = error
        raise _unreachable(endpoint, url, failure, timeout_s) from failure

    def _judge(self, host: str, addresses: list[IpAddress], url: str) -> None:
        """Every answer must pass: a name that mixes public and private addresses is an attack or a mistake."""
        for address in addresses:
            if is_public(address):
                continue
            named = str(address) if str(address) == host else f"{host} ({address})"
            if self.allow_private and is_private(address):
                continue
            openable = is_private(address)
            raise PolicyRefused(
                f"{named} is {'a private address' if openable else 'not a public address'}",
                url=url,
                code="ADDRESS_REFUSED",
                hint="--allow-private, or allow_private: true under source of a pipeline, opens your own network"
                if openable
                else None,
            )

    def _look_up(self, endpoint: Endpoint, url: str, timeout_s: float) -> list[IpAddress]:
        """Resolve within the time left. The C library's look-up cannot be stopped: it is waited for in a thread."""
        answer: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answer.put(self._resolver(endpoint.host, endpoint.port))
            except Exception as error:  # handed to the waiting thread
                answer.put(error)

        threading.Thread(target=ask, name="fetchly-resolve", daemon=True).start()
        try:
            found = answer.get(timeout=timeout_s)
        except queue.Empty:
            raise FetchError(
                f"the name {endpoint.host} was not resolved within {timeout_s:.0f} s",
                url=url,
                code="TIMEOUT",
                retryable=True,
            ) from None
        if isinstance(found, OSError | UnicodeError):
            raise FetchError(
                f"the host name {endpoint.host} is not known",
                url=url,
                code="HOST_UNKNOWN",
                hint="check the spelling and the network",
                retryable=getattr(found, "errno", None) == socket.EAI_AGAIN,
            ) from found
        if isinstance(found, Exception):
            raise found
        if not found:
            raise FetchError(f"the host name {endpoint.host} has no address", url=url, code="HOST_UNKNOWN")
        return [ipaddress.ip_address(text.partition("%")[0]) for text in found]


def _unreachable(endpoint: Endpoint, url: str, failure: OSError | None, timeout_s: float) -> FetchError:
    place = f"{endpoint.host}:{endpoint.port}"
    if failure is None or isinstance(failure, TimeoutError):
        return FetchError(f"{place} did not answer within {timeout_s:.0f} s", url=url, code="TIMEOUT", retryable=True)
    reason = "refused the connection" if isinstance(failure, ConnectionRefusedError) else f"failed: {failure.strerror}"
    return FetchError(
        f"{place} {reason}", url=url, code="CONNECTION_FAILED", hint="is the server running?", retryable=True
    )
