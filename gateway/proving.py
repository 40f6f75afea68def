"""Proves plans that were given, and plans that wait for an approval, with the current APIs and policy of a tenant."""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.approval import credentials_hint
from gateway.peers import Peers
from gateway.quotas import Quotas
from gateway.solve import Clock
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import MAX_APIS_BYTES, CompiledPlan, CompileRequest, CompileResponse, Policy
from services.contracts.retrieval import LookupRequest
from services.contracts.run import Run, RunStatus
from services.errors import ValidationFailed
from services.fair_slots import FairSlots

_PROVED, _PROVED_EACH, _WAIT_S = 8, 2, 20.0
"""Plans that are proved at once, those of one tenant, and for how long others wait."""
_LOOKED_UP: Final = 16
"""APIs that are looked up at a time: they have 4 MB at most."""
_WEIGHT: Final = 4
"""How often the size of a plan's APIs counts: each service reads and writes them."""


class Prover:
    """Proves plans, two of a tenant at a time. APIs beyond 64 kB count as requests, and large plans wait for these.

    All methods raise Overloaded if too many plans wait, and ServiceError.
    """

    def __init__(self, peers: Peers, quotas: Quotas) -> None:
        self._peers, self._quotas = peers, quotas
        self._slots = FairSlots(_PROVED, each=_PROVED_EACH, what="plans that are proved")

    async def prove(self, plan: Plan, policy: Policy) -> CompileResponse:
        """What the compiler answers for a plan, with the current APIs and policy of its tenant.

        A plan that the compiler would have to complete does not count as proved: a given plan is run unchanged or not
        at all.
        """
        ids = tuple(dict.fromkeys(step.api for step in plan.steps))
        async with self._slots.slot(policy.tenant, _WAIT_S):
            credentials, (apis, size) = await asyncio.gather(
                self._peers.executor.credentials(policy.tenant), self._apis(ids, policy.tenant)
            )
            await self._quotas.pace(policy.tenant, _WEIGHT * size)
            ask = CompileRequest(plan=plan, apis=apis, policy=policy, credentials=credentials.secrets)
            answer = await self._peers.planner.compile(ask)
        if answer.compiled is not None and answer.compiled.plan.id != plan.id:
            return answer.model_copy(update={"compiled": None})
        return answer

    async def _apis(self, ids: Sequence[str], tenant: str) -> tuple[tuple[Api, ...], int]:
        """The APIs and their size as JSON. Of more than a plan may have, only as many as show that."""
        found, size = list[Api](), 0
        for start in range(0, len(ids), _LOOKED_UP):
            asked = LookupRequest(ids=tuple(ids[start : start + _LOOKED_UP]), tenant=tenant)
            for api in (await self._peers.retriever.lookup(asked)).apis:
                found.append(api)
                size += len(api.model_dump_json(ensure_ascii=True))
                if size > MAX_APIS_BYTES:
                    return tuple(found), size
        return tuple(found), size

    async def prove_again(self, plan: Plan, policy: Policy) -> CompiledPlan:
        """The plan, proved against the current APIs and policy of its tenant, and ready to run.

        Raises:
            ValidationFailed: the plan is not valid, or credentials are missing.
        """
        answer = await self.prove(plan, policy)
        if answer.compiled is None:
            why = next((diagnostic.message for diagnostic in answer.diagnostics), "")
            raise ValidationFailed(
                f"The plan is not valid with the current APIs: {why}".rstrip(": ") + ".",
                errors=[d.model_dump(mode="json") for d in answer.diagnostics],
            )
        if answer.compiled.proof.missing:
            raise ValidationFailed(credentials_hint(answer.compiled.proof))
        return answer.compiled

    async def prove_given(self, run: Run, policy: Policy, clock: Clock) -> tuple[Run, CompiledPlan | None]:
        """A run of a plan that came with the request, and the compiled plan. If it is not valid, the run says why."""
        assert run.plan is not None, "a plan was given"
        mark = clock.elapsed_ms()
        answer = await self.prove(run.plan, policy)
        clock.lap("plan_ms", mark)
        if answer.compiled is None:
            first = next((d.message for d in answer.diagnostics), "it is not complete")
            status, reason = RunStatus.NO_PLAN, f"The given plan could not be proved: {first}."
        else:
            waits = policy.waits(answer.compiled, unsure=bool(run.unsure))
            status, reason = RunStatus.NEEDS_APPROVAL if waits else RunStatus.PLANNED, ""
        updates = {
            "status": status,
            "reason": reason,
            "proof": answer.compiled.proof if answer.compiled else None,
            "diagnostics": answer.diagnostics,
            "timings": clock.timings(),
        }
        return run.model_copy(update=updates), answer.compiled
