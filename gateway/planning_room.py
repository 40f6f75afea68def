"""Memory for plans in the making: what each holds of candidates and demonstrations, in bytes of JSON.

Parsed, by the gateway and by the planner, JSON takes up to twenty times its bytes, and each plan holds its candidates
until it is made. So a plan takes their bytes from a budget before it asks for them. How many these are is known only
afterwards: if they are more than usual, the plan waits for as much room, and asks again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from gateway.peers import Peers
from services.byte_budget import BudgetTimeout, ByteBudget, Share
from services.clients.base import DEFAULT_TIMEOUT_S
from services.contracts.demo import MAX_SELECTED_BYTES, SelectDemosRequest, SelectDemosResponse
from services.contracts.retrieval import (
    MAX_ANSWER_BYTES,
    LookupRequest,
    LookupResponse,
    RetrieveRequest,
    RetrieveResponse,
)
from services.errors import Overloaded

Q = TypeVar("Q")
A = TypeVar("A")
_USUAL: Final = 256_000
"""Bytes that are asked for first. The 26 candidates of a usual request have 60,000 to 250,000."""
_LOOKED_UP: Final = 500_000
"""Most bytes of the APIs that are added for demonstrations of the same request."""


class PlanningRoom:
    """The budget of all plans of this process. One tenant gets half of it.

    Args:
        limit: bytes of all plans together.
        charge: counts what a plan held against its tenant's requests.
    """

    def __init__(self, limit: int, charge: Callable[[str, int], None]) -> None:
        self._budget, self._charge = ByteBudget(limit, 0), charge

    @asynccontextmanager
    async def plan(self, peers: Peers, run_id: str, tenant: str) -> "AsyncGenerator[BoundedPeers, None]":
        """What a plan asks services with. What it gets counts until the end of the context."""
        with self._budget.share(run_id, tenant) as share:
            bounded = BoundedPeers(peers, share)
            try:
                yield bounded
            finally:
                await bounded.aclose()  # the share must not wait for bytes any more
                self._charge(tenant, share.held)


class BoundedPeers:
    """Asks for candidates and demonstrations once there is room for them.

    All methods raise Overloaded if there is none until their timeout, and ServiceError.
    """

    def __init__(self, peers: Peers, share: Share) -> None:
        self._peers, self._share = peers, share
        self._found = 0
        self._turn = asyncio.Lock()  # a share waits for one thing at a time
        self._asked = set[asyncio.Task[Any]]()

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> RetrieveResponse:
        """The candidates for a request. The last are left out if the plan has too many bytes of them."""
        return await self._in_turn(self._retrieve, request, _now() + timeout_s)

    async def lookup(self, request: LookupRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> LookupResponse:
        """The requested APIs; the first of them, if they are large."""
        return await self._in_turn(self._lookup, request, _now() + timeout_s)

    async def select(self, request: SelectDemosRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> SelectDemosResponse:
        """The demonstrations for a request."""
        return await self._in_turn(self._select, request, _now() + timeout_s)

    async def aclose(self) -> None:
        """Stop asking, also what others that failed were asked beside."""
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)

    async def _retrieve(self, request: RetrieveRequest, until: float) -> RetrieveResponse:
        least, most = 0, min(_USUAL, MAX_ANSWER_BYTES - self._found)
        while True:
            await self._take(most - least, until)
            bounded = request.model_copy(update={"most_bytes": most})
            found = await self._peers.retriever.retrieve(bounded, timeout_s=_left(until))
            wanted = min(found.size, MAX_ANSWER_BYTES - self._found)
            if wanted <= most:
                break
            del found
            least, most = most, wanted
        self._found += wanted
        self._share.give_back(most - wanted)
        return found

    async def _lookup(self, request: LookupRequest, until: float) -> LookupResponse:
        await self._take(_LOOKED_UP, until)
        bounded = request.model_copy(update={"most_bytes": _LOOKED_UP})
        answer = await self._peers.retriever.lookup(bounded, timeout_s=_left(until))
        self._return_unused(_LOOKED_UP, answer.apis)
        return answer

    async def _select(self, request: SelectDemosRequest, until: float) -> SelectDemosResponse:
        await self._take(MAX_SELECTED_BYTES, until)
        answer = await self._peers.demos.select(request, timeout_s=_left(until))
        self._return_unused(MAX_SELECTED_BYTES, answer.demos)
        return answer

    def _return_unused(self, taken: int, parts: Iterable[BaseModel]) -> None:
        self._share.give_back(max(taken - sum(len(part.model_dump_json().encode()) for part in parts), 0))

    async def _in_turn(self, ask: Callable[[Q, float], Awaitable[A]], request: Q, until: float) -> A:
        async def one() -> A:
            async with self._turn:
                return await ask(request, until)

        task = asyncio.create_task(one())
        self._asked.add(task)
        return await task

    async def _take(self, size: int, until: float) -> None:
        try:
            await self._share.take(size, until)
        except BudgetTimeout:
            raise Overloaded("Other plans use all memory for candidates.", retry_after_s=1) from None


def _now() -> float:
    return asyncio.get_running_loop().time()


def _left(until: float) -> float:
    return max(until - _now(), 0.001)
