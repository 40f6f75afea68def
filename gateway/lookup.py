"""Finds the operations that a planner is missing. The planner describes them in words; the catalogue is searched."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from services.contracts.retrieval import Candidate, RetrieveRequest, RetrieveResponse
from services.contracts.trace import LookUp

_OWN: Final = 4
_OTHERS: Final = 2
"""APIs that are added for each need: `_OWN` from the providers of the request's candidates, `_OTHERS` from any."""
_PROVIDERS: Final = 5


class CandidateSource(Protocol):
    """A service that finds candidates."""

    async def retrieve(self, request: RetrieveRequest, timeout_s: float = ...) -> RetrieveResponse:
        """The candidates for a request."""
        ...


async def look_up(
    retriever: CandidateSource,
    needs: Sequence[str],
    asked: RetrieveRequest,
    retrieved: RetrieveResponse,
    *,
    left_s: float,
) -> tuple[RetrieveResponse, LookUp]:
    """Retrieve candidates for each need.

    Args:
        retriever: finds the candidates.
        needs: descriptions of the missing operations.
        asked: the request that retrieved the first candidates; its filters and its tenant also apply here.
        retrieved: the first candidates.
        left_s: timeout in seconds.

    Returns:
        ``retrieved`` with the new candidates appended, and a record of what was added.

    Raises:
        ServiceError: the retriever failed.
    """
    providers = tuple(dict.fromkeys(candidate.api.provider for candidate in retrieved.candidates))[:_PROVIDERS]
    plain = asked.model_copy(update={"pinned": (), "suppliers": _OTHERS})
    requests = [
        plain.model_copy(update={"query": need, "k": k, "providers": of})
        for need in needs
        for k, of in ((_OWN, asked.providers or providers), (_OTHERS, asked.providers))
    ]
    answers = await asyncio.gather(*(retriever.retrieve(request, timeout_s=left_s) for request in requests))
    known = {candidate.api.id for candidate in retrieved.candidates}
    added: dict[str, Candidate] = {}
    for answer in answers:
        for candidate in answer.candidates:
            if candidate.api.id not in known:
                added.setdefault(candidate.api.id, _without_scores(candidate, len(retrieved.clauses)))
    merged = (*retrieved.candidates, *added.values())
    return retrieved.model_copy(update={"candidates": merged[:200]}), LookUp(asked=tuple(needs), added=tuple(added))


def _without_scores(candidate: Candidate, clauses: int) -> Candidate:
    """The candidate without its scores, which were computed for other words than the request's."""
    return candidate.model_copy(update={"score": 0.0, "clause": 0, "clause_scores": (0.0,) * clauses})
