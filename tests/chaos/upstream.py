"""A third party's service that is never broken. It records each request and each effect."""

import asyncio
import itertools
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import JsonValue
from yarl import URL

from tests.chaos.plans import Operation

_LONGEST_WAIT_S = 0.015
_LOSSES = 0.01


@dataclass(frozen=True, slots=True)
class Seen:
    """A received request and its result.

    Attributes:
        site: the step that sent it, as stated in the request.
        item: the item of a mapped step; empty for others.
        key: its Idempotency-Key.
        effect: whether the request took effect; a repetition does not.
        answer: the response's value; None if the request was refused.
    """

    operation: Operation
    site: str
    item: str
    inputs: tuple[str, ...]
    key: str
    effect: bool
    answer: JsonValue


@dataclass
class Upstream:
    """The service. Every answer holds a unique value, unless it repeats the answer of an earlier effect.

    It waits up to 15 ms before the effect and after it, and loses at most one answer to each call.
    """

    rng: random.Random
    origin: str = ""
    seen: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    """All requests by run."""
    _in_flight: int = 0
    _server: web.Server | None = None
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _made: dict[tuple[str, str], Seen] = field(default_factory=dict)
    _by_key: dict[str, Seen] = field(default_factory=dict)
    _lost: set[tuple[str, str]] = field(default_factory=set)

    def answer_to(self, site: str, item: str) -> JsonValue:
        """The answer to a call that took effect, as a person would look it up; None if it never took effect."""
        made = self._made.get((site, item))
        return made.answer if made else None

    async def quiet(self) -> None:
        """Wait until all requests of dead processes have arrived."""
        host, port = URL(self.origin).host, URL(self.origin).port
        reader, writer = await asyncio.open_connection(host, port)  # accepted after all waiting connections
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await reader.read()
        writer.close()
        assert self._server is not None
        while self._in_flight or self._server.connections:  # noqa: ASYNC110 - no event exists for this
            await asyncio.sleep(0.005)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/":
            return web.Response()
        self._in_flight += 1
        try:
            return await self._serve(request)
        finally:
            self._in_flight -= 1

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        query, body = request.query, await request.read()
        given = json.loads(body) if body else {"inputs": query.getall("inputs", [])}
        await asyncio.sleep(self.rng.uniform(0, _LONGEST_WAIT_S))
        seen = self.apply(
            Operation(request.path[1:]),
            query["site"],
            query.get("item", ""),
            tuple(given.get("inputs", ())),
            int(query["width"]),
            request.headers.get("Idempotency-Key", ""),
        )
        self.seen[seen.site.partition("/")[0]].append(seen)
        await asyncio.sleep(self.rng.uniform(0, _LONGEST_WAIT_S))
        call = seen.site, seen.item
        if call not in self._lost and self.rng.random() < _LOSSES and request.transport is not None:
            self._lost.add(call)
            request.transport.abort()
        if seen.answer is None:
            return web.json_response({"error": "gone, or not what was sent before"}, status=404)
        return web.json_response(seen.answer)

    def apply(self, operation: Operation, site: str, item: str, inputs: tuple[str, ...], width: int, key: str) -> Seen:
        fresh = Seen(operation, site, item, inputs, key, True, self._answer(operation, width))
        if operation is Operation.READ:
            return Seen(operation, site, item, inputs, key, False, fresh.answer)
        before = self._by_key.get(key) if operation is Operation.KEYED else self._made.get((site, item))
        if operation is not Operation.POST and before is not None:
            same = (before.operation, before.site, before.item, before.inputs) == (operation, site, item, inputs)
            # A repeated DELETE is told that the resource is gone; it does not get the first answer again.
            repeated = same and operation is not Operation.DELETE
            put_anew = operation is Operation.PUT and not same
            if not put_anew:
                return Seen(operation, site, item, inputs, key, False, before.answer if repeated else None)
        self._made[site, item] = fresh
        if key:
            self._by_key[key] = fresh
        return fresh

    def _answer(self, operation: Operation, width: int) -> JsonValue:
        value = f"{operation}-{next(self._numbers)}"
        return {"value": value, "n": width, "many": [{"value": f"{value}.{n}", "n": n} for n in range(width)]}


@asynccontextmanager
async def serve_upstream(rng: random.Random) -> AsyncIterator[Upstream]:
    """Start an upstream on a free port of the loopback interface. It completes requests if the caller disconnects."""
    upstream = Upstream(rng)
    upstream._server = web.Server(upstream._handle, access_log=None, handler_cancellation=False)
    runner = web.ServerRunner(upstream._server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    upstream.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield upstream
    finally:
        await runner.cleanup()
