"""The guard against server-side request forgery. It works at the network level: on addresses, not on their spelling.

A name is resolved once. Each of its addresses must be public, unless the host is explicitly allowed. The connection is
opened to one of exactly these addresses. So the same check covers decimal, octal and hexadecimal spellings, IPv4 in
IPv6, and names that resolve differently the second time (DNS rebinding). The address is checked again when the socket
is created.

Not covered: a network's own NAT64 prefix (RFC 6052, section 2.2) or tunnel can lead to any address.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from services.compute import for_tenant
from services.fair_slots import FairSlots

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC_V4: Final = tuple(
    ipaddress.IPv4Network(net)
    for net in (
        "0.0.0.0/8",  # this network (RFC 1122)
        "100.64.0.0/10",  # shared address space, also clouds' metadata (RFC 6598)
        "168.63.129.16/32",  # Azure's host agent: in a public range, but not public
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
_HOST_NAME: Final = re.compile(r"(?=.{1,254}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_MAX_ADMITTED: Final = 4_096
_MAX_LOOKUPS: Final = 32
_MAX_KNOWN: Final = 1_000
_KNOWN_S: Final = 10.0
_WAIT_S: Final = 7_200.0
"""Longer than any call waits. Its own deadline ends a look-up that waits for its turn."""


class AddressRefused(OSError):
    """The host name is invalid, or its address is neither public nor allowed. The message names host and address."""


def is_public(address: IPAddress) -> bool:
    """Whether the address is public. If an IPv6 address embeds an IPv4 address, that one is checked."""
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


@lru_cache(maxsize=4_096)
def _literal(host: str) -> IPAddress | None:
    """The address if the host is an IP literal; None if it is a name, whose addresses `resolve` checks.

    Raises:
        AddressRefused: it is neither.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            raise AddressRefused("the URL's host is not a valid name") from None
        return None


class AddressGuard(AbstractResolver):
    """Resolves names and creates sockets for aiohttp.

    Tenants take turns at looking names up, and none has more than half of the threads: a name server may answer late or
    never, and its owner chooses how many names it has.

    Args:
        allowed: hosts that may have any address: ``host``, or ``host:port`` for one port only.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(entry.lower() for entry in allowed)
        self._admitted: dict[tuple[IPAddress, int], None] = {}
        # A thread pool of its own: slow DNS servers must not block the rest of the process.
        self._lookups = ThreadPoolExecutor(_MAX_LOOKUPS, thread_name_prefix="lookup")
        self._turns = FairSlots(_MAX_LOOKUPS, each=_MAX_LOOKUPS // 2)
        self._known: dict[tuple[str, int, int], tuple[float, list[ResolveResult]]] = {}

    def check_url(self, url: URL) -> None:
        """Check that the host of a URL is valid, and that an IP literal is public or allowed.

        aiohttp does not call the resolver for IP literals, and resolvers differ in which names they accept (RFC 1123,
        section 2.1).

        Raises:
            AddressRefused: the host name is invalid, or the address is neither public nor allowed.
        """
        host, port = (url.raw_host or "").replace("%25", "%"), url.port or 0
        address = _literal(host)
        if address is not None:
            self._admit(host, port, [address])

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name, for a call of the tenant :data:`for_tenant`. All of them are checked.

        Raises:
            AddressRefused: one of them is neither public nor allowed.
            OSError: the name has none.
        """
        key, clock, tenant = (host, port, int(family)), asyncio.get_running_loop().time, for_tenant.get()
        if (found := self._recall(key, clock())) is not None:
            return found
        await self._turns.enter(tenant, _WAIT_S)
        if (found := self._recall(key, clock())) is not None:  # another call has looked it up meanwhile
            self._turns.leave(tenant)
            return found
        looked_up = asyncio.get_running_loop().run_in_executor(self._lookups, _look_up, host, port, family)
        looked_up.add_done_callback(partial(self._end_turn, tenant))
        found = await asyncio.shield(looked_up)
        self._admit(host, port, [ipaddress.ip_address(one["host"]) for one in found])
        self._known.pop(key, None)
        self._known[key] = (clock() + _KNOWN_S, found)
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return found

    async def close(self) -> None:
        """Shut down the thread pool. The results of running lookups are discarded."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    def open_socket(self, addr_info: Sequence[Any]) -> socket.socket:
        """Create the socket for a connection to exactly this address; the last check.

        Raises:
            AddressRefused: the address is not public and was not admitted before.
        """
        family, kind, proto, _, sockaddr = addr_info
        address, port = ipaddress.ip_address(sockaddr[0]), int(sockaddr[1])
        if not is_public(address) and (address, port) not in self._admitted:
            raise AddressRefused(f"{address} is not a public address")
        return socket.socket(family, kind, proto)

    def _end_turn(self, tenant: str, looked_up: asyncio.Future[list[ResolveResult]]) -> None:
        """Take the next look-up. A turn ends with the thread's work, which goes on if the call is cancelled."""
        self._turns.leave(tenant)
        _ = looked_up.cancelled() or looked_up.exception()  # the call may be gone

    def _recall(self, key: tuple[str, int, int], now: float) -> list[ResolveResult] | None:
        until, found = self._known.get(key, (0.0, None))
        return found if now < until else None

    def _admit(self, host: str, port: int, addresses: list[IPAddress]) -> None:
        name = f"[{host}]" if ":" in host else host.lower().rstrip(".")
        if name in self._allowed or f"{name}:{port}" in self._allowed:
            self._remember(addresses, port)
            return
        for address in addresses:
            if not is_public(address):
                raise AddressRefused(
                    f"{host} has the address {address}, which is not public; NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS "
                    "names the hosts that are allowed"
                )

    def _remember(self, addresses: list[IPAddress], port: int) -> None:
        """Store for `open_socket`, which sees no names. Evicts the oldest, since an allowed name may keep changing."""
        for address in addresses:
            self._admitted.pop((address, port), None)
            self._admitted[address, port] = None
        while len(self._admitted) > _MAX_ADMITTED:
            del self._admitted[next(iter(self._admitted))]


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return [
        ResolveResult(hostname=host, host=str(sockaddr[0]), port=port, family=family_, proto=proto, flags=flags)
        for family_, _, proto, _, sockaddr in socket.getaddrinfo(
            host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
        )
    ]
