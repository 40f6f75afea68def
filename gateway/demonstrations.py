"""The demonstrations for the planner, and the APIs that the demonstrations of the very same request need.

The planner follows a demonstration only if it was offered all its APIs. The retriever may rank one of them too low, or
find that nothing fits. So the demonstrations of the same text are looked up beside the search, and their APIs are
added to its candidates.
"""

from collections.abc import Sequence
from typing import Final

from gateway.planning_room import BoundedPeers
from services.clients import Demos
from services.contracts.demo import (
    ApiDescription,
    SameDemosRequest,
    SelectDemosRequest,
    SelectDemosResponse,
    SelectedDemo,
)
from services.contracts.retrieval import ApiFilters, Candidate, LookupRequest, RetrieveRequest, RetrieveResponse

_ALIKE: Final = 2
"""Extra demonstrations with similar wording that the planner gets: they may be the request with other values."""
_MAX_CANDIDATES: Final = 200
"""Candidates that a planner takes."""


async def apis_of_same_request(
    demos: Demos, ask: RetrieveRequest, wanted: int, *, timeout_s: float
) -> tuple[tuple[str, ...], ...]:
    """The APIs of each demonstration of this very text that the tenant sees; none if none are ``wanted``."""
    if not wanted:
        return ()
    return (await demos.same(SameDemosRequest(query=ask.query, tenant=ask.tenant), timeout_s=timeout_s)).apis


async def offer_apis_of(
    same: Sequence[tuple[str, ...]],
    ask: RetrieveRequest,
    retrieved: RetrieveResponse,
    peers: BoundedPeers,
    wanted: int,
    *,
    timeout_s: float,
) -> tuple[RetrieveResponse, tuple[SelectedDemo, ...]]:
    """Add to the candidates what the demonstrations of the same request call.

    Args:
        same: the APIs of each demonstration of the same request. Only of those that are kept the plans are read.
        ask: the search for the candidates. Its filters and its tenant apply to the demonstrations' APIs as well.
        retrieved: the candidates found.
        peers: looks up the APIs that are not among them.
        wanted: number of demonstrations to keep.
        timeout_s: timeout in seconds, of each request.

    Returns:
        The candidates with those APIs appended, and the demonstrations all of whose APIs are candidates.

    Raises:
        ServiceError: the retriever or the demonstrations' service failed.
    """
    known = {candidate.api.id for candidate in retrieved.candidates}
    missing = {api: None for apis in same for api in apis if api not in known}
    ids = tuple(missing)[: max(_MAX_CANDIDATES - len(known), 0)]
    found = {}
    if ids:
        filters = {name: getattr(ask, name) for name in ApiFilters.model_fields}
        answer = await peers.lookup(LookupRequest(ids=ids, **filters), timeout_s=timeout_s)
        found = {api.id: api for api in answer.apis}
    fitting = [apis for apis in same if {*apis} <= known | found.keys()]
    if not fitting:
        return retrieved, ()
    offered = tuple(ApiDescription(id=api) for api in dict.fromkeys(api for apis in fitting for api in apis))
    asked = SelectDemosRequest(query=ask.query, apis=offered, k=wanted, tenant=ask.tenant, same=True)
    kept = (await peers.select(asked, timeout_s=timeout_s)).demos
    unscored = (0.0,) * len(retrieved.clauses)
    added = tuple(
        Candidate(api=found[api], score=0, clause_scores=unscored, found_by="demonstrated")
        for api in dict.fromkeys(api for one in kept for api in one.demo.apis)
        if api in found
    )
    return retrieved.model_copy(update={"candidates": (*retrieved.candidates, *added)}), kept


async def select_demos(
    demos: BoundedPeers,
    ask: RetrieveRequest,
    retrieved: RetrieveResponse,
    same: Sequence[SelectedDemo],
    wanted: int,
    *,
    timeout_s: float,
) -> SelectDemosResponse:
    """The demonstrations for the planner: those of the same request first, then as many as are ``wanted``.

    The fallback to API-level demonstrations follows the candidates' order.
    """
    if not wanted or not retrieved.candidates:
        return SelectDemosResponse()
    apis = tuple(ApiDescription(id=c.api.id, description=c.api.summary) for c in retrieved.candidates)
    similar = SelectDemosRequest(query=ask.query, apis=apis, k=wanted, alike=_ALIKE, tenant=ask.tenant)
    selected = (await demos.select(similar, timeout_s=timeout_s)).demos
    first = {one.demo.id for one in same}
    return SelectDemosResponse(demos=(*same, *(one for one in selected if one.demo.id not in first)))
