"""What an approver is shown, and what an approval covers: the plan must be valid, and send what was shown.

The requests that are shown are made with the values that the plan's reads return. An approval names a digest of them.
"""

import asyncio
from contextlib import nullcontext

from gateway.peers import Peers
from gateway.solve import Clock
from services.clients import Turn
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed
from services.contracts.plan import content_hash_in_parts
from services.contracts.planning import CompiledPlan, Proof
from services.contracts.preview import PreviewRequest, PreviewResponse
from services.contracts.run import Run, RunStatus
from services.errors import DeadlineExceeded


def credentials_hint(proof: Proof) -> str:
    """What to do before a plan with missing credentials can be run."""
    commands = ", ".join(f"`nestor secrets set {name}`" for name in proof.missing)
    providers = dict.fromkeys(name.partition(".")[0] for name in proof.missing)
    kinds = ", ".join(f"`nestor apis doctor {provider}`" for provider in providers)
    return (
        f"Nothing was sent: the plan needs credentials that are not configured. Set them: {commands}. For "
        f"their kinds, and which of them need a login: {kinds}."
    )


async def preview(
    peers: Peers,
    run: Run,
    compiled: CompiledPlan,
    clock: Clock,
    *,
    reads: bool = True,
    turn: Turn = nullcontext,
) -> Run | ExecutionFinished:
    """The waiting run, with its requests as they would be sent now; or the result of its reads, if one of them failed.

    Without ``reads``, or with missing credentials, nothing is sent. The run then has no digest if it needs reads.
    """
    left_s = clock.left_s()
    made = reads and not compiled.proof.missing
    ask = PreviewRequest(compiled=compiled, tenant=run.tenant, reads=made, deadline_ms=max(1, int(left_s * 1000)))
    try:
        async with asyncio.timeout(left_s):
            answer = await peers.executor.preview(ask, turn)
    except TimeoutError:
        raise DeadlineExceeded(f"executor_svc did not answer within {left_s:g} s.", service="executor_svc") from None
    if answer.failed is not None:
        return answer.failed
    digest = await asyncio.to_thread(_digest, compiled, answer) if answer.settled else ""
    waiting = {
        "status": RunStatus.NEEDS_APPROVAL,
        "previews": answer.requests,
        "reads": answer.reads,
        "read_with": tuple(sorted({*run.read_with, *answer.secrets})),
        "digest": digest,
        "proof": compiled.proof,
        "approval": None,
        "timings": clock.timings(),
    }
    return run.model_copy(update=waiting)


def _digest(compiled: CompiledPlan, answer: PreviewResponse) -> str:
    """The digest of all that an approval covers: the plan, its APIs, the held steps, the requests and the reads."""
    proof = compiled.proof
    return content_hash_in_parts(
        {
            "plan": compiled.plan.id,
            "apis": dict(proof.api_hashes),
            "held": [[*proof.mutating], [*proof.approvals]],
            "shown": answer.model_dump(mode="json", include={"requests", "reads"}),
        }
    )


def is_still_valid(run: Run, compiled: CompiledPlan) -> bool:
    """Whether what the run shows is still valid: the same APIs, reads included, and the same steps to be approved."""
    old, new = run.proof, compiled.proof
    return (
        bool(run.digest)
        and old is not None
        and (old.api_hashes, old.mutating, old.approvals) == (new.api_hashes, new.mutating, new.approvals)
    )


def has_changed(finished: ExecutionFinished) -> bool:
    """Whether the reads of an approved plan led to other requests than approved. Then no held step was called."""
    return any(isinstance(r.outcome, Failed) and r.outcome.reason == "changed" for r in finished.records)


def without_approval(run: Run) -> Run:
    """The run without its approval. Nothing that was approved has been sent."""
    assert run.approval is not None, "only an approved plan is held to what was shown"
    reason = "The approved requests differ from those that would be sent now. Nothing was sent."
    updates = {"approval": None, "lapsed": (*run.lapsed, run.approval), "moved": True, "reason": reason}
    return run.model_copy(update=updates)
