"""Finds the demonstrations and waiting runs that an import would affect, so that they can be reported beforehand.

A plan is bound to the content of its APIs. If an API changes, the plan must be proved again. Changes that are certain
to break it are reported as such: the API is removed, an argument that the plan gives is removed, or one that it does
not give becomes required.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ValidationError

from gateway.peers import Peers
from gateway.principals import Principal
from gateway.quotas import Quotas
from gateway.roles import Role
from gateway.storage import RunStore
from services.contracts.api import ImportChange, Parameter
from services.contracts.demo import Demo, DemosOfApisRequest
from services.contracts.plan import Plan
from services.contracts.review import Affected

MOST_CHANGES: Final = 1_000
"""Maximum number of changes that are examined. An import may have a hundred thousand."""
_MOST: Final = 200
"""Maximum number of demonstrations and runs that a report names."""
_RUNS: Final = 100
_RUN_BYTES: Final = 20_000_000
"""Total size of the runs that are read; of larger ones only the newest are."""
_DEMOS: Final = 100
_EXAMINED: Final = 2_000
"""Maximum number of demonstrations that are read."""
_DEMO_BYTES: Final = 20_000_000
"""Total size of the demonstrations that are read."""
_APIS: Final = 200
_ARGUMENTS: Final = 50
"""Maximum number of an API's arguments that are remembered of each kind. A change may name hundreds, of any length."""
_QUERY_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Touched:
    """What is certain to break plans that call an API.

    Attributes:
        removed: whether the API is removed.
        needed: the arguments that become required.
        gone: the arguments that are removed.
    """

    removed: bool
    needed: tuple[str, ...]
    gone: frozenset[str]

    @classmethod
    def by(cls, change: ImportChange) -> "Touched":
        """What of a change is certain to break plans."""
        needed, gone = dict[str, None](), set[str]()
        for field in change.fields:
            if field.field.startswith("parameters.") and None in (field.before, field.after):
                came, went = _parameter(field.after), _parameter(field.before)
                if came is not None and came.needed and len(needed) < _ARGUMENTS:
                    needed[came.name] = None
                if went is not None and len(gone) < _ARGUMENTS:
                    gone.add(went.name)
            inside = field.field.removeprefix("parameters.")
            name, _, what = inside.rpartition(".")
            if inside == field.field or ".json_schema" in name:
                continue
            if what == "required" and field.after == "true" and len(needed) < _ARGUMENTS:
                needed[name] = None
            if what == "wire_name" and field.after is None and len(gone) < _ARGUMENTS:
                gone.add(name)
        return cls(change.action == "removed", tuple(needed), frozenset(gone))


class _Run(BaseModel):
    """The part of a run's document that says what is planned. Other values are not parsed."""

    id: str
    query: str
    plan: Plan | None = None


async def affected_by(
    touched: Mapping[str, Touched], who: Principal, peers: Peers, store: RunStore, quotas: Quotas
) -> tuple[tuple[Affected, ...], int]:
    """Demonstrations and waiting runs of the principal's tenant that call these APIs, and how many were found.

    A principal that may not read runs gets their ids, but not their queries.

    The search covers 2,000 demonstrations of the first 200 APIs, and the newest 100 runs, each up to 20 MB. Reading
    demonstrations counts by their size.
    """
    if not touched:
        return (), 0
    reads_runs = not who.roles.isdisjoint({Role.ASK, Role.APPROVE})
    found = [one async for one in _runs(touched, who.tenant, store)]
    if not reads_runs:
        found = [one.model_copy(update={"query": ""}) for one in found]
    async for demo in _demos(tuple(touched)[:_APIS], who.tenant, peers, quotas):
        found += _of_plan("demo", demo.id, demo.query, demo.plan, touched)
    found.sort(key=lambda one: not one.breaks)
    return tuple(found[:_MOST]), len(found)


async def _demos(apis: tuple[str, ...], tenant: str, peers: Peers, quotas: Quotas) -> AsyncIterator[Demo]:
    examined = size = 0
    cursor: str | None = "0"
    while cursor is not None and examined < _EXAMINED and size < _DEMO_BYTES:
        asked = DemosOfApisRequest(apis=apis, tenant=tenant, limit=_DEMOS, cursor=int(cursor))
        page = await peers.demos.of_apis(asked)
        read = sum(len(demo.model_dump_json()) for demo in page.demos)
        quotas.charge(tenant, read)
        examined, size, cursor = examined + len(page.demos), size + read, page.next
        for demo in page.demos:
            yield demo


async def _runs(touched: Mapping[str, Touched], tenant: str, store: RunStore) -> AsyncIterator[Affected]:
    async with aclosing(store.listing.waiting(tenant, _RUNS, _RUN_BYTES)) as documents:
        async for document in documents:
            run = await asyncio.to_thread(_Run.model_validate_json, document)
            if run.plan is not None:
                for one in _of_plan("run", run.id, run.query, run.plan, touched):
                    yield one


def _of_plan(kind: str, key: str, query: str, plan: Plan, touched: Mapping[str, Touched]) -> Iterator[Affected]:
    in_any, in_all = dict[str, dict[str, None]](), dict[str, set[str]]()
    for step in plan.steps:
        if step.api in touched:
            in_any.setdefault(step.api, {}).update(dict.fromkeys(step.arguments))
            in_all.setdefault(step.api, set(step.arguments)).intersection_update(step.arguments)
    for api, given in in_any.items():
        certain = _certain(touched[api], given, in_all[api])
        yield Affected.model_validate(
            {
                "kind": kind,
                "id": key,
                "query": query[:_QUERY_CHARS],
                "api": api,
                "breaks": bool(certain),
                "reason": certain or "its plan will be proved again with the changed API",
            }
        )


def _certain(api: Touched, in_any: Mapping[str, None], in_all: set[str]) -> str:
    """Why a plan is certain to break, by the arguments of any and of all its calls; empty if it may hold."""
    if api.removed:
        return "the API is removed"
    for name in api.needed:
        if name not in in_all:
            return f"`{name}` becomes required"
    for name in in_any:
        if name in api.gone:
            return f"`{name}` goes"
    return ""


def _parameter(text: str | None) -> Parameter | None:
    """The parameter that was added or removed; None where the text is only a part of one."""
    if text is None or not text.startswith("{"):
        return None
    try:
        return Parameter.model_validate_json(text)
    except ValidationError:
        return None
