"""A third party's service. It treats each request as scripted and records the effects."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.stateful.plans import Fate, Kind, answer_to
from tests.support.upstream import serving

Spot = tuple[str, str]
"""A call: the step that makes it (see :func:`~tests.stateful.plans.site`), and the item or nothing."""


@dataclass
class Upstream:
    """The service.

    Attributes:
        fates: how the next requests of a step are treated.
        seen: how each request of a call was treated.
        effects: the effects of each call, identified by the Idempotency-Key or, for a PUT, by the content.
        answered: the calls for which an answer was sent.
    """

    origin: str = ""
    fates: dict[str, list[Fate]] = field(default_factory=dict)
    seen: dict[Spot, list[Fate]] = field(default_factory=lambda: defaultdict(list))
    effects: dict[Spot, list[str]] = field(default_factory=lambda: defaultdict(list))
    answered: set[Spot] = field(default_factory=set)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Answer the held requests."""
        self._released.set()
        self._released = asyncio.Event()

    def heal(self) -> None:
        """Answer all held and all further requests."""
        self.fates.clear()
        self.release()

    def sites(self) -> set[str]:
        """The steps from which a request has arrived."""
        return {at for at, _ in self.seen}

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        kind, spot = Kind(request.path[1:]), (request.query["site"], request.query.get("item", ""))
        body = await request.read()
        inputs = json.loads(body)["inputs"] if body else request.query.getall("inputs", [])
        left = self.fates.get(spot[0])
        fate = left.pop(0) if left else Fate.ANSWER
        self.seen[spot].append(fate)
        if fate is Fate.FAIL:
            return web.json_response({"error": "broken"}, status=500)
        if fate is Fate.BUSY:
            return web.json_response({"error": "busy"}, status=503, headers={"Retry-After": "0"})
        if fate is not Fate.DROP:
            self._change(kind, spot, request.headers.get("Idempotency-Key", ""), body.decode())
        if fate in (Fate.DROP, Fate.LOSE) and request.transport is not None:
            request.transport.abort()
        if fate is Fate.HOLD:
            await self._released.wait()
        if fate in (Fate.ANSWER, Fate.HOLD):
            self.answered.add(spot)
        return web.json_response(answer_to(*spot, inputs))

    def _change(self, kind: Kind, spot: Spot, key: str, body: str) -> None:
        """Record an effect: every POST has one, a keyed POST one for each key, a PUT one for each new content."""
        effects, mark = self.effects[spot], {Kind.KEYED: key, Kind.PUT: body}.get(kind, "")
        if kind is Kind.POST or (kind is not Kind.READ and mark not in effects):
            effects.append(mark)


@asynccontextmanager
async def serve_upstream() -> AsyncIterator[Upstream]:
    """Start an upstream on a free port of the loopback interface. It completes requests if the caller disconnects."""
    upstream = Upstream()
    async with serving(upstream._handle, cancel=False) as host:
        upstream.origin = f"http://{host}"
        try:
            yield upstream
        finally:
            upstream.heal()
