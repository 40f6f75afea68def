"""Bounds what requests without an accepted token may take of a service's event loop.

Connections are bounded, but each may always have a request in work, and all requests share one event loop. Without this
bound, one address that floods `/healthz` would leave authorised requests no time.
"""

import asyncio
import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.compute import for_tenant

MOST: Final = 4
"""Requests of one line that are worked on at once."""
REST_TIMES: Final = 15
"""A turn rests this many times as long as it was held. So one line takes at most a quarter of the event loop's time,
``MOST / (1 + REST_TIMES)``: a loop that is never idle would starve the threads that read the database."""
MOST_REST_S: Final = 0.25
"""So that requests that wait for something else, such as `/readyz`, do not rest long."""
_MOST_KNOWN: Final = 10_000
_MOST_OF_OWNER: Final = 1_000
"""Known credentials of one owner. A session in a browser may have any number: each `Cookie` header counts as one."""
_TURN: Final = "nestor.turn"


def address_key(host: str) -> str:
    """What connections and requests are counted by: an IPv4 address, or an IPv6 /64 network (one host may have all)."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class TurnsMiddleware:
    """Requests that wait in lines. Each line has ``MOST`` turns; requests that find none wait in order.

    A request stands in the line of its address until its token is accepted. From then on, requests with the same token
    stand in the line of its owner, so that others of their address do not delay them. A request gives its turn back
    when it is accepted (:func:`accept`), while its body is awaited, and when its response begins: a slow client cannot
    hold it. If it was not accepted, the turn rests for a while.

    It must be the outermost middleware.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._lines: dict[Hashable, _Line] = {}
        self._owners: dict[bytes, str] = {}
        self._known: dict[str, dict[bytes, None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request in its turn. Nothing is done if its client goes away before."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        turn = scope[_TURN] = _Turn(self, scope)
        read = False

        async def receive_outside() -> Message:
            nonlocal read
            if read:
                return await receive()
            turn.pause()
            message = await receive()
            read = not message.get("more_body", False)
            return message if await turn.take() else {"type": "http.disconnect"}

        async def send_outside(message: Message) -> None:
            turn.end(refused=message.get("status") == 401)
            await send(message)

        try:
            if await turn.take():
                await self.app(scope, receive_outside, send_outside)
        finally:
            turn.end()

    def line_of(self, credential: bytes, address: str) -> "_Line":
        """The line of a request."""
        owner = self._owners.get(credential)
        # Those that send any token do not wait behind those that send none.
        key: Hashable = (address_key(address), bool(credential)) if owner is None else owner
        return self._lines.setdefault(key, _Line(self._lines, key))

    def remember(self, credential: bytes, owner: str) -> None:
        """Requests with this credential stand in the line of its owner from now on."""
        if not credential:
            return
        self.forget(credential)  # keeps the dicts in order of use
        self._owners[credential] = owner
        own = self._known.setdefault(owner, {})
        own[credential] = None
        if len(own) > _MOST_OF_OWNER:
            self.forget(next(iter(own)))
        if len(self._owners) > _MOST_KNOWN:
            self.forget(next(iter(self._owners)))

    def forget(self, credential: bytes) -> None:
        """Requests with this credential stand in the line of their address again."""
        owner = self._owners.pop(credential, None)
        if owner is not None:
            del self._known[owner][credential]
            if not self._known[owner]:
                del self._known[owner]


class _Line:
    """The requests that share ``MOST`` turns. It forgets itself when it is empty."""

    def __init__(self, lines: dict[Hashable, "_Line"], key: Hashable) -> None:
        self._lines, self._key = lines, key
        self._taken = 0
        self._waiting: OrderedDict[asyncio.Future[bool], None] = OrderedDict()

    async def take(self, turn: "_Turn") -> bool:
        """Wait for a turn. False: it was given up."""
        if self._taken < MOST:
            self._taken += 1
            return True
        turn.waits = asyncio.get_running_loop().create_future()
        self._waiting[turn.waits] = None
        try:
            return await turn.waits
        except asyncio.CancelledError:
            if not turn.waits.cancelled() and turn.waits.result():
                self.give()
            raise
        finally:
            self._waiting.pop(turn.waits, None)
            turn.waits = None

    def rest(self, worked_s: float) -> None:
        """Give the turn after a rest that fits the time for which it was held."""
        asyncio.get_running_loop().call_later(min(worked_s * REST_TIMES, MOST_REST_S), self.give)

    def give(self) -> None:
        """Give a turn to the request that has waited longest."""
        while self._waiting:
            first, _ = self._waiting.popitem(last=False)
            if not first.done():
                first.set_result(True)
                return
        self._taken -= 1
        if not self._taken:
            self._lines.pop(self._key, None)


class _Turn:
    """The turn of one request."""

    def __init__(self, turns: TurnsMiddleware, scope: Scope) -> None:
        self._turns, self._address = turns, (scope.get("client") or ("",))[0]
        headers = Headers(scope=scope)
        given = headers.get("authorization") or headers.get("cookie")
        self._credential = hashlib.blake2b(given.encode("latin-1"), digest_size=16).digest() if given else b""
        self._line: _Line | None = None
        self._began = 0.0
        self._ended = False
        self.waits: asyncio.Future[bool] | None = None

    async def take(self) -> bool:
        """Wait for the turn, unless the request needs none any more. False: the client has gone."""
        ended = self._ended
        if ended or self._line is not None:
            return True
        line = self._turns.line_of(self._credential, self._address)
        if not await line.take(self):
            return False
        self._line, self._began = line, time.monotonic()
        if self._ended:  # while it waited: a streaming response listens for its end beside its work
            self.pause()
        return True

    def pause(self) -> None:
        """Let another request work, after a rest."""
        if self._line is not None:
            line, self._line = self._line, None
            line.rest(time.monotonic() - self._began)

    def end(self, *, refused: bool = False) -> None:
        """Let another request work, and take no turn again. Refused: its token is not valid, or not any more."""
        if refused:
            self._turns.forget(self._credential)
        self._ended = True
        self.pause()

    def accept(self, owner: str) -> None:
        """The owner of its token is known."""
        self._turns.remember(self._credential, owner)
        self._ended = True
        if self._line is not None:
            line, self._line = self._line, None
            line.give()

    @property
    def delays(self) -> bool:
        """The request waits, and no response to it has begun."""
        return self.waits is not None and not self._ended

    def give_up(self) -> None:
        """Wait no longer."""
        if self.waits is not None and not self.waits.done():
            self.waits.set_result(False)


def accept(scope: Mapping[str, object], owner: str) -> None:
    """A request is authorised and within its owner's quota: it takes no turn any more. Its work is its owner's."""
    if owner:
        for_tenant.set(owner)
    turn = scope.get(_TURN)
    if isinstance(turn, _Turn):
        turn.accept(owner)


def give_up(scope: Mapping[str, object]) -> None:
    """The client of a request has gone, so it need not wait for its turn."""
    turn = scope.get(_TURN)
    if isinstance(turn, _Turn):
        turn.give_up()


def refuse(scope: Mapping[str, object]) -> None:
    """A request's credential is not valid any more, although its answer's status is not 401."""
    turn = scope.get(_TURN)
    if isinstance(turn, _Turn):
        turn.end(refused=True)


def waits(scope: Mapping[str, object]) -> bool:
    """Whether a request waits for a turn, and no response to it has begun."""
    turn = scope.get(_TURN)
    return isinstance(turn, _Turn) and turn.delays
