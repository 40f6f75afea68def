"""The outcomes of the calls that runs made to one API."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from gateway.storage import RunStore

NEWEST = 200
"""How many of a tenant's newest runs are searched."""
_MOST_BYTES = 20_000_000
"""Total size of the runs that are read; of larger ones only the newest are."""


@dataclass(frozen=True, slots=True)
class PastCall:
    """A step of a run that called the API."""

    run_id: str
    query: str
    created_at: datetime
    step: str
    outcome: str


class _Outcome(BaseModel):
    kind: str


class _Step(BaseModel):
    step: str
    api: str
    outcome: _Outcome


class _Run(BaseModel):
    """The part of a run's document that says which calls were made. Values are not parsed."""

    id: str
    query: str
    created_at: datetime
    steps: tuple[_Step, ...] = ()


async def past_calls(api: str, tenant: str, store: RunStore) -> list[PastCall]:
    """The calls of an API in a tenant's newest runs, newest first. Raises Overloaded."""
    found: list[PastCall] = []
    async with aclosing(store.listing.naming(api, tenant, NEWEST, _MOST_BYTES)) as documents:
        async for document in documents:
            found += await asyncio.to_thread(_read, document, api)
    return found


def _read(document: str, api: str) -> list[PastCall]:
    run = _Run.model_validate_json(document)
    return [
        PastCall(run.id, run.query, run.created_at, step.step, step.outcome.kind)
        for step in run.steps
        if step.api == api and step.outcome.kind != "skipped"
    ]
