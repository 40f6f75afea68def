"""Previews of a given plan or a rerun: the plan is proved and checked against the policy, but not stored or run."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json

from gateway.peers import Peers
from gateway.principals import Principal
from gateway.proving import Prover
from gateway.quotas import Quotas
from gateway.rerunning import Rerun, rerun_of
from gateway.storage import RunStore
from gateway.stored_values import stored_values
from services.codecs import nestful
from services.codecs.text import CodecError, has_more_values
from services.contracts.plan import Plan, step_references
from services.contracts.planning import CompiledPlan, CompileResponse, Decision, Policy
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run
from services.errors import ValidationFailed
from services.fair_slots import FairSlots

_MAX_GIVEN_VALUES: Final = 5_000
"""Maximum number of JSON values in a given plan. Each of its references is proved separately, which takes time."""
_MAX_CHOSEN: Final = 50
"""Maximum number of distinct items in a plan that are chosen by words. Each one is matched against a whole list."""

_READING: Final = 2
"""Reruns that read large values, and given plans that are read, at a time."""
_READING_WAIT_S: Final = 20.0

PolicyOf = Callable[[str, Decision], Policy]
"""Gives the policy for a tenant and for its request's decision on mutating calls."""


class Previews:
    """Proves plans without running them.

    Args:
        peers: the services.
        store: the store of earlier runs.
        prover: proves the plans.
        policy: gives the policy.
        max_bytes: maximum size of the JSON of a rerun's plan.
        quotas: count each large value that is read for a tenant, and give its reruns turns at that.
    """

    def __init__(
        self, peers: Peers, store: RunStore, prover: Prover, policy: PolicyOf, max_bytes: int, quotas: Quotas
    ) -> None:
        self._peers, self._store, self._policy, self._max_bytes = peers, store, policy, max_bytes
        self._prover = prover
        self._quotas = quotas
        self._reading = FairSlots(_READING, each=1, what="reruns that read large values")
        self._decoding = FairSlots(_READING, each=1, what="given plans")

    async def rerun(self, run_id: str, request: RerunRequest, principal: Principal) -> tuple[Run, Rerun, CompiledPlan]:
        """The earlier run, the rerun of it, and the rerun's compiled plan.

        Raises:
            NotFound: no such run.
            QuotaExceeded: the tenant has read too much.
            Overloaded: too many reruns read large values.
            Conflict: the run is under way, or a step that is not repeated has no value that can be reused.
            ValidationFailed: the plan is not valid with these inputs and the current APIs, or the inputs hold too many
                values.
        """
        if has_more_values([*request.inputs.values()], _MAX_GIVEN_VALUES):
            raise ValidationFailed(f"The inputs have more than {_MAX_GIVEN_VALUES} values.")
        earlier = await self._store.get(run_id, principal.tenant)
        sizes = stored_values(earlier)

        count = self._quotas.read  # only before the first value: what is begun is not given up

        async def fetch(value_id: str) -> JsonValue:
            nonlocal count
            count(principal.tenant, sizes.get(value_id, 0))
            count = self._quotas.charge
            parsed: JsonValue = await asyncio.to_thread(from_json, await self._peers.executor.value(value_id))
            return parsed

        async with self._reading.slot(principal.tenant, _READING_WAIT_S):
            again = await rerun_of(earlier, request, fetch, self._max_bytes)
        policy = self._policy(principal.tenant, request.options.mutations)
        return earlier, again, await self._prover.prove_again(again.plan, policy)

    async def plan(self, plan: Plan, mutations: Decision, principal: Principal) -> CompileResponse:
        """What the compiler answers for an unchanged plan: its proof, or the diagnostics of its steps."""
        return await self._prover.prove(plan, self._policy(principal.tenant, mutations))

    async def plan_of(self, calls: Sequence[JsonValue], tenant: str) -> Plan:
        """The plan that a list of calls describes; tenants take turns at reading them.

        Raises:
            ValidationFailed: it is not a plan or is too large.
            Overloaded: too many wait for their turn.
        """
        given = list(calls)
        if has_more_values(given, _MAX_GIVEN_VALUES):
            raise ValidationFailed(f"The calls have more than {_MAX_GIVEN_VALUES} values.")
        try:
            async with self._decoding.slot(tenant, _READING_WAIT_S):  # a thread, which keeps the event loop free
                plan = await asyncio.to_thread(partial(nestful.decode, given, matches=True))
        except CodecError as error:
            raise ValidationFailed(f"The calls are not a valid plan: {error}.") from error
        values = (*(one for step in plan.steps for one in step_references(step)), *(one.value for one in plan.answer))
        if len({one for one in values if one.match is not None}) > _MAX_CHOSEN:
            raise ValidationFailed(f"The calls choose more than {_MAX_CHOSEN} items by words.")
        return plan
