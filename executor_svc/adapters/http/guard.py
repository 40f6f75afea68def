"""The guard against server-side request forgery, at the network seam: it sees addresses, not spellings of them.

A name is resolved once; every address it has must be public, or the host explicitly allowed; the connection is opened
to one of those very addresses. So decimal, octal or hexadecimal spellings, IPv4 in IPv6, and names that answer
differently the second time (DNS rebinding) all meet the same check. A second look is taken where the socket is made.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC_V4: Final = tuple(
    ipaddress.IPv4Network(net)
    for net in (
        "0.0.0.0/8",  # this network (RFC 1122)
        "100.64.0.0/10",  # shared address space, also clouds' metadata (RFC 6598)
        "168.63.129.16/32",  # Azure's host agent: public in form only
        "192.0.0.0/24",  # protocol assignments, also Oracle's metadata (RFC 6890)
        "192.88.99.0/24",  # 6to4 relays (RFC 7526)
        "198.18.0.0/15",  # benchmarks (RFC 2544)
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    ipaddress.IPv6Network(net) for net in ("2001::/23", "2001:db8::/32", "3fff::/20", "2620:4f:8000::/48", "5f00::/16")
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


class AddressRefused(OSError):
    """The host's address is not public and the host is not allowed. The message names host and address."""


def is_public(address: IPAddress) -> bool:
    """Whether the address is one of the public internet. An IPv6 address that carries an IPv4 one is judged by both."""
    if isinstance(address, ipaddress.IPv4Address):
        special = address.is_private or address.is_loopback or address.is_link_local or not address.is_global
        return not special and not any(address in net for net in _NOT_PUBLIC_V4)
    if address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.sixtofour is not None:
        return is_public(address.sixtofour)
    if address.ipv4_mapped is not None or address in _COMPATIBLE:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _GLOBAL_V6 and address.is_global and not any(address in net for net in _NOT_PUBLIC_V6)


class AddressGuard(AbstractResolver):
    """aiohttp's resolver, and the maker of its sockets.

    Args:
        allowed: hosts that may have any address: ``host``, or ``host:port`` for one port only.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(entry.lower() for entry in allowed)
        self._admitted: set[tuple[IPAddress, int]] = set()

    def check_literal(self, url: URL) -> None:
        """Check a host that is an address already: aiohttp asks no resolver about those.

        Raises:
            AddressRefused: it is neither public nor allowed.
        """
        host, port = url.host or "", url.port or 0
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return  # a name: `resolve` sees it
        self._admit(host, port, [address])

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name, all of them checked.

        Raises:
            AddressRefused: one of them is neither public nor allowed.
            OSError: the name has none.
        """
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG)
        addresses = [str(sockaddr[0]) for _, _, _, _, sockaddr in infos]
        self._admit(host, port, [ipaddress.ip_address(address) for address in addresses])
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family_, proto=proto, flags=flags)
            for (family_, _, proto, _, _), address in zip(infos, addresses, strict=True)
        ]

    async def close(self) -> None:
        """Nothing is held open."""

    def open_socket(self, addr_info: Sequence[Any]) -> socket.socket:
        """The last line: the socket for a connection to exactly this address.

        Raises:
            AddressRefused: nothing admitted this address.
        """
        family, kind, proto, _, sockaddr = addr_info
        address, port = ipaddress.ip_address(sockaddr[0]), int(sockaddr[1])
        if not is_public(address) and (address, port) not in self._admitted:
            raise AddressRefused(f"{address} is not a public address")
        return socket.socket(family, kind, proto)

    def _admit(self, host: str, port: int, addresses: list[IPAddress]) -> None:
        name = f"[{host}]" if ":" in host else host.lower().rstrip(".")
        if name in self._allowed or f"{name}:{port}" in self._allowed:
            self._admitted.update((address, port) for address in addresses)
            return
        for address in addresses:
            if not is_public(address):
                raise AddressRefused(f"{host} has the address {address}, which is not public, and is not allowed")
