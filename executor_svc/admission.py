"""Which plans may run, checked before a run starts and again before a stored one is continued."""

import hmac
from typing import Final

from pydantic import SecretStr

from executor_svc.graph import Graph, NotAGraph
from services.contracts.api import OUTSIDE_CONTENT
from services.contracts.execution import ExecuteRequest
from services.contracts.plan import content_hash
from services.contracts.planning import CompiledPlan, apis_too_large
from services.errors import Conflict, ValidationFailed

_REQUESTS: Final = b"nestor executor: requests in the ledger"
_CALLS: Final = b"nestor executor: calls in the ledger"


class Sealer:
    """Seals the ledger's requests and calls, so that rows that somebody else wrote into the database are recognised.

    The seal of a request covers all that was admitted: run id, plan, APIs, proof, tenant, approval and approved
    digests. The seal of a call covers run, call, state, and the result or, while there is none, the digest of the
    arguments. Unlike the planner's signature, seals do not expire, because a run may wait for days for somebody to
    settle its doubts.

    Args:
        proof_key: the key of the planner's signatures; other keys are derived from it. None: nothing is sealed, and
            every row counts as sealed.
    """

    def __init__(self, proof_key: SecretStr | None) -> None:
        secret = proof_key.get_secret_value().encode() if proof_key is not None else None
        self._requests = hmac.digest(secret, _REQUESTS, "sha256") if secret is not None else None
        self._calls = hmac.digest(secret, _CALLS, "sha256") if secret is not None else None

    def seal(self, request: str) -> str | None:
        """The seal of a request's JSON; None without a key."""
        return _mac(self._requests, request)

    def holds(self, request: str, seal: str | None) -> bool:
        """Whether a holder of the key admitted exactly this JSON."""
        return _same(self.seal(request), seal)

    def seal_call(self, run_id: str, key: str, state: str, content: str) -> str | None:
        """The seal of a call's row; None without a key. ``content``: see the class."""
        return _mac(self._calls, "\0".join((run_id, key, state, content)))  # none of them has a NUL

    def holds_call(self, run_id: str, key: str, state: str, content: str, seal: str | None) -> bool:
        """Whether a holder of the key wrote exactly this row."""
        return _same(self.seal_call(run_id, key, state, content), seal)


def _mac(key: bytes | None, text: str) -> str | None:
    return hmac.digest(key, text.encode(), "sha256").hex() if key is not None else None


def _same(expected: str | None, seal: str | None) -> bool:
    """Whether the seal is the expected one. Without a key none is expected."""
    return expected is None or hmac.compare_digest(expected.encode(), (seal or "").encode())


def admit(request: ExecuteRequest) -> Graph:
    """Check that this plan may run, and return its graph. The contract has already checked its id.

    Raises:
        Conflict: an approval is missing or is for another plan, or an API is missing or not the proved one.
        ValidationFailed: the plan is not a graph.
    """
    compiled = request.compiled
    if compiled.proof.approvals and request.approved != compiled.plan.id:
        open_steps = ", ".join(compiled.proof.approvals[:5])
        raise Conflict(f"These steps need an approval of exactly this plan: {open_steps}.", plan_id=compiled.plan.id)
    check_apis(compiled)
    return graph_of(compiled)


def graph_of(compiled: CompiledPlan) -> Graph:
    """The plan's graph. Raises ValidationFailed if it is not a graph."""
    try:
        return Graph(compiled.plan)
    except NotAGraph as error:
        raise ValidationFailed(f"The plan cannot be run: {error}.") from None


def check_size(compiled: CompiledPlan) -> None:
    """Check that the plan's APIs take no more memory than a run may have. Raises ValidationFailed.

    Only before a run starts: stored runs go on.
    """
    if problem := apis_too_large(compiled.apis.values()):
        raise ValidationFailed(f"The plan cannot be run: {problem}.")


def check_apis(compiled: CompiledPlan) -> None:
    """Check that these are the APIs that the plan was proved against. Raises Conflict."""
    for api_id in dict.fromkeys(step.api for step in compiled.plan.steps):
        api = compiled.apis.get(api_id)
        if api is None or api.id != api_id:
            raise Conflict(f"The compiled plan does not contain the API {api_id}.")
        # An API without a content hash is proved under the hash that the contract computes.
        digest = api.content_hash or content_hash(api.model_dump(mode="json", exclude=OUTSIDE_CONTENT))
        if compiled.proof.api_hashes.get(api_id) != digest:
            raise Conflict(f"The API {api_id} differs from the one that the plan was proved against.")
