"""What an approval is worth: the plan must hold now, and send the requests that were shown."""

import asyncio

from gateway.peers import Peers
from services.contracts.plan import Plan
from services.contracts.planning import CompiledPlan, CompileRequest, Policy, Proof
from services.contracts.run import Run
from services.errors import NotFound, ValidationFailed


async def prove_again(peers: Peers, plan: Plan, policy: Policy) -> CompiledPlan:
    """The plan, proved against the APIs and the policy as they are now for its tenant, and ready to run.

    Raises:
        ValidationFailed: it does not hold, or credentials are missing.
    """
    ids = dict.fromkeys(step.api for step in plan.steps)
    try:
        apis, credentials = await asyncio.gather(
            asyncio.gather(*(peers.retriever.get(api_id, tenant=policy.tenant) for api_id in ids)),
            peers.executor.credentials(policy.tenant),
        )
    except NotFound as error:
        raise ValidationFailed(f"The plan does not hold any more: {error.detail}") from error
    ask = CompileRequest(plan=plan, apis=tuple(apis), policy=policy, credentials=credentials.secrets)
    answer = await peers.planner.compile(ask)
    if answer.compiled is None or answer.compiled.plan.id != plan.id:
        raise ValidationFailed(
            "The plan does not hold against the APIs as they are now.",
            errors=[d.model_dump(mode="json") for d in answer.diagnostics],
        )
    if answer.compiled.proof.missing:
        raise ValidationFailed(unlocked_by(answer.compiled.proof))
    return answer.compiled


def unlocked_by(proof: Proof) -> str:
    """What to do before a plan can be run whose credentials are missing."""
    commands = ", ".join(f"`nestor secrets set {name}`" for name in proof.missing)
    return f"Nothing was sent: the plan needs credentials that are not configured. Set them: {commands}."


async def refreshed(peers: Peers, run: Run, compiled: CompiledPlan) -> Run | None:
    """The run with its requests as they would go out now, where an API has changed them; else None."""
    proof = run.proof
    if proof is not None and proof.api_hashes == compiled.proof.api_hashes:
        return None
    shown = await peers.executor.preview(compiled)
    if shown.requests == run.previews:
        return None
    return run.model_copy(update={"previews": shown.requests, "proof": compiled.proof})
