"""The address guard: judged by address, whatever the spelling."""

import ipaddress
import socket

import pytest
from yarl import URL

from executor_svc.adapters.http.guard import AddressGuard, AddressRefused, is_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "192.88.99.1",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001::1",
        "2001:db8::1",
        "3fff::1",
        "fe80::1",
        "fe80::1%lo",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "5f00::1",
        "4000::1",
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "2606:4700::1111",
        "2a00:1450::1",
        "64:ff9b::808:808",
        "2002:808:808::1",
        "::ffff:8.8.8.8",
    ],
)
def test_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "spelling", ["localhost", "2130706433", "017700000001", "0x7f000001", "127.1", "0177.0.0.1", "0x7f.0.0.1", "0"]
)
async def test_spellings_of_the_loopback_address(spelling: str) -> None:
    with pytest.raises(AddressRefused, match="not public"):
        await AddressGuard(()).resolve(spelling, 80)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]:80/", "http://[::ffff:127.0.0.1]/", "http://169.254.169.254/"]
)
def test_literals(url: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard(()).check_url(URL(url))


def test_a_host_is_allowed_by_name_or_by_name_and_port() -> None:
    guard = AddressGuard(("127.0.0.1:8080", "[::1]"))
    guard.check_url(URL("http://127.0.0.1:8080/"))
    guard.check_url(URL("http://[::1]:5/"))
    with pytest.raises(AddressRefused):
        guard.check_url(URL("http://127.0.0.1:8081/"))


async def test_allowing_a_name_does_not_allow_its_address() -> None:
    guard = AddressGuard(("localhost",))
    assert await guard.resolve("LOCALHOST", 80)
    with pytest.raises(AddressRefused):
        guard.check_url(URL("http://127.0.0.1/"))


def test_the_socket_is_the_last_line() -> None:
    guard = AddressGuard(("127.0.0.1:80",))
    info = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))
    with pytest.raises(AddressRefused):
        guard.open_socket(info)  # allowed, but nobody asked for it yet
    guard.check_url(URL("http://127.0.0.1/"))
    guard.open_socket(info).close()
    with pytest.raises(AddressRefused):
        guard.open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.1", 80)))
