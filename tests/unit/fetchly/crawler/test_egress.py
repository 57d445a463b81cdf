"""Addresses that may and may not be reached."""

from __future__ import annotations

import ipaddress
import socket
import time

import pytest

from fetchly.egress import REFUSED_PORTS, EgressGate, Endpoint, is_private, is_public
from fetchly.errors import FetchError, PolicyRefused

PUBLIC = "8.8.8.8 93.184.215.14 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1"
OPENABLE = (
    "127.0.0.1 127.8.9.1 10.0.0.1 172.16.0.1 172.31.255.254 192.168.1.1 100.64.0.1 ::1 fd12::1 ::ffff:127.0.0.1 "
    "::ffff:10.1.2.3"
)
# Never, whatever the flag says: this host, link-local, credential services, multicast, reserved, odd embeddings.
CLOSED = (
    "0.0.0.0 0.1.2.3 169.254.169.254 169.254.1.1 224.0.0.1 239.255.255.250 255.255.255.255 240.0.0.1 100.100.100.200 "
    ":: fe80::1 fec0::1 ff02::1 fd00:ec2::254 ::ffff:169.254.169.254 2002:7f00:1:: 2002:a00:1::1 64:ff9b::127.0.0.1 "
    "64:ff9b::10.0.0.1 64:ff9b:1::7f00:1 ::127.0.0.1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 100::1 4000::1 "
    "192.0.0.8 192.0.0.9 192.0.0.171 192.88.99.1 2001:2::1 2001:10::1 2001:1::1 3fff::1 5f00::1 100:0:0:1::1 "
    "::ffff:192.0.0.8 ::ffff:0:7f00:1 2002:c000:8::1"
)


@pytest.mark.parametrize("text", PUBLIC.split())
def test_public_addresses_pass(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", OPENABLE.split())
def test_private_addresses_pass_with_the_flag_only(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    assert is_private(address)


@pytest.mark.parametrize("text", CLOSED.split())
def test_these_addresses_never_pass(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    assert not is_private(address)


def test_one_private_answer_among_public_ones_refuses_the_name() -> None:
    gate = EgressGate(resolver=lambda host, port: ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(PolicyRefused) as refused:
        gate.connect(Endpoint("http", "mixed.example", 80), url="http://mixed.example/", timeout_s=1)
    assert refused.value.code == "ADDRESS_REFUSED"
    assert "--allow-private, or allow_private: true under source of a pipeline" in refused.value.line()
    assert refused.value.exit_code == 5


def test_the_address_that_was_judged_is_the_address_that_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])  # a rebinding name server: the second answer is private
    dialled: list[tuple[str, int]] = []

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", dial)
    gate = EgressGate(resolver=lambda host, port: next(answers))
    with pytest.raises(FetchError, match="refused the connection"):
        gate.connect(Endpoint("http", "rebind.example", 80), url="http://rebind.example/", timeout_s=1)
    assert dialled == [("93.184.215.14", 80)]


def test_a_slow_name_server_ends_at_the_deadline() -> None:
    def slow(host: str, port: int) -> list[str]:
        time.sleep(1)
        return []

    start = time.monotonic()
    with pytest.raises(FetchError) as failed:
        EgressGate(resolver=slow).connect(Endpoint("http", "slow.example", 80), url="u", timeout_s=0.1)
    assert failed.value.code == "TIMEOUT"
    assert time.monotonic() - start < 0.8


def test_an_unknown_name_is_named() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(FetchError, match=r"nowhere\.example is not known") as failed:
        EgressGate(resolver=unknown).connect(Endpoint("http", "nowhere.example", 80), url="u", timeout_s=1)
    assert failed.value.code == "HOST_UNKNOWN"


@pytest.mark.parametrize("port", [22, 25, 0, 70000, 6667])
def test_ports_of_other_services_are_refused(port: int) -> None:
    with pytest.raises(PolicyRefused) as refused:
        EgressGate().check_endpoint(Endpoint("http", "example.org", port), url="u")
    assert refused.value.code == "PORT_REFUSED"


def test_web_ports_are_open() -> None:
    assert not {80, 443, 8000, 8080, 8443, 3000, 5000} & REFUSED_PORTS
