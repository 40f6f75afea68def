"""Finds the demonstrations and waiting runs that an import would affect, so that they can be reported beforehand.

A plan is bound to the content of its APIs. If an API changes, the plan must be proved again. Changes that are certain
to break it are reported as such: the API is removed, an argument that the plan gives is removed, or one that it does
not give becomes required.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from gateway.listing import Filter
from gateway.peers import Peers
from gateway.principals import Principal
from gateway.roles import Role
from gateway.storage import RunStore
from services.contracts.api import ImportChange, Parameter
from services.contracts.plan import Plan
from services.contracts.review import Affected
from services.contracts.run import RunStatus

MOST_CHANGES: Final = 1_000
"""Maximum number of changes that are examined. An import may have a hundred thousand."""
_MOST: Final = 200
"""Maximum number of demonstrations and runs that a report names."""
_RUNS: Final = 100
_DEMOS: Final = 100
_APIS: Final = 200
_QUERY_CHARS: Final = 300


async def affected_by(
    changes: Sequence[ImportChange], who: Principal, peers: Peers, store: RunStore
) -> tuple[tuple[Affected, ...], int]:
    """Demonstrations and waiting runs of the principal's tenant that these changes affect, and how many were found.

    A principal that may not read runs gets their ids, but not their queries.

    The search covers the first thousand changes, the demonstrations of the first 200 APIs, and the newest 100 runs.
    """
    touched = {change.id: change for change in changes[:MOST_CHANGES] if change.action != "added"}
    if not touched:
        return (), 0
    reads_runs = not who.roles.isdisjoint({Role.ASK, Role.APPROVE})
    found = [one async for one in _runs(touched, who.tenant, store)]
    if not reads_runs:
        found = [one.model_copy(update={"query": ""}) for one in found]
    named = set[tuple[str, str]]()
    for api in list(touched)[:_APIS]:
        page = await peers.demos.list(api=api, tenant=who.tenant, limit=_DEMOS)
        for demo in page.demos:
            for one in _of_plan("demo", demo.id, demo.query, demo.plan, touched):
                if (one.id, one.api) not in named:
                    named.add((one.id, one.api))
                    found.append(one)
    found.sort(key=lambda one: not one.breaks)
    return tuple(found[:_MOST]), len(found)


async def _runs(touched: Mapping[str, ImportChange], tenant: str, store: RunStore) -> AsyncIterator[Affected]:
    waiting = await store.listing.page(Filter(tenant, (RunStatus.NEEDS_APPROVAL,)), limit=_RUNS, cursor=None)
    for line in waiting.runs:
        run = await store.get(line.id, tenant)
        if run.plan is not None:
            for one in _of_plan("run", run.id, run.query, run.plan, touched):
                yield one


def _of_plan(kind: str, key: str, query: str, plan: Plan, touched: Mapping[str, ImportChange]) -> Iterator[Affected]:
    given: dict[str, list[Collection[str]]] = {}
    for step in plan.steps:
        if step.api in touched:
            given.setdefault(step.api, []).append(step.arguments)
    for api, calls in given.items():
        certain = _certain(touched[api], calls)
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


def _certain(change: ImportChange, calls: Sequence[Collection[str]]) -> str:
    """Why the change is certain to break a plan with these calls; empty if it may still be valid."""
    if change.action == "removed":
        return "the API is removed"
    for field in change.fields:
        if field.field.startswith("parameters.") and None in (field.before, field.after):
            came, went = _parameter(field.after), _parameter(field.before)
            if came is not None and came.needed and any(came.name not in arguments for arguments in calls):
                return f"`{came.name}` becomes required"
            if went is not None and any(went.name in arguments for arguments in calls):
                return f"`{went.name}` goes"
        inside = field.field.removeprefix("parameters.")
        name, _, what = inside.rpartition(".")
        if inside == field.field or ".json_schema" in name:
            continue
        if what == "required" and field.after == "true" and any(name not in arguments for arguments in calls):
            return f"`{name}` becomes required"
        if what == "wire_name" and field.after is None and any(name in arguments for arguments in calls):
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
