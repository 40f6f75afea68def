"""What may be called: the policy, required approvals, and the credentials that a call needs."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner_svc.compiler.findings import Findings
from services.compute import checkpoint
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import Decision, DiagnosticCode, Fix, Policy


@dataclass(frozen=True, slots=True)
class Access:
    """Steps that change state, steps to approve, and secrets: those that the calls use, and the missing ones.

    ``anywhere``: APIs that only read, and may be called on every path of their host.
    """

    mutating: tuple[str, ...]
    approvals: tuple[str, ...]
    credentials: tuple[str, ...]
    missing: tuple[str, ...]
    anywhere: tuple[str, ...]


def secrets_for(api: Api, configured: frozenset[str] | None) -> tuple[str, ...] | None:
    """The names of the secrets of the first alternative that is configured; None if there is none.

    If ``configured`` is None, it is unknown what is configured, and every alternative counts as configured.
    """
    if not api.security:
        return ()
    for alternative in api.security:
        names = tuple(requirement.secret for requirement in alternative)
        if configured is None or configured.issuperset(names):
            return names
    return None


def decision_of(policy: Policy, api: Api) -> Decision:
    """The policy's decision about calls of an API. It takes a while for a long path and many rules."""
    checkpoint()
    return policy.decide(api)


def check_access(
    plan: Plan, apis: Mapping[str, Api], policy: Policy, configured: frozenset[str] | None, findings: Findings
) -> Access:
    """Report denied calls, calls to approve and missing credentials (once per API, at its first step).

    A plan with missing credentials is still valid: they are reported as a warning, and the proof names them.
    """
    used = {step.api: apis[step.api] for step in plan.steps if step.api in apis}
    decisions = {api_id: decision_of(policy, api) for api_id, api in used.items()}
    secrets = {api_id: secrets_for(api, configured) for api_id, api in used.items()}
    mutating, approvals, missing = [], [], dict[str, tuple[str, ...]]()
    for step in plan.steps:
        api = used.get(step.api)
        if api is None:
            continue
        findings.checks += 2
        if api.mutating:
            mutating.append(step.id)
        if decisions[api.id] is Decision.DENY:
            findings.error(DiagnosticCode.DENIED, f"the policy does not allow calls of {api.id}", step.id)
        elif decisions[api.id] is Decision.ASK:
            approvals.append(step.id)
            message = f"{api.id} ({api.method}) needs an approval before anything is sent"
            findings.warning(DiagnosticCode.APPROVAL_REQUIRED, message, step.id)
        if secrets[api.id] is None and api.id not in missing:
            missing[api.id] = _report_missing(step.id, api, configured or frozenset(), findings)
    names = dict.fromkeys(name for found in secrets.values() for name in found or ())
    absent = dict.fromkeys(name for found in missing.values() for name in found)
    anywhere = tuple(api.id for api in used.values() if not api.mutating and policy.allows_all_of_host(api))
    return Access(tuple(mutating), tuple(approvals), tuple(names), tuple(absent), anywhere)


def _report_missing(step: str, api: Api, configured: frozenset[str], findings: Findings) -> tuple[str, ...]:
    """Report missing credentials, and return the names for the alternative that lacks the fewest."""
    lacking = [tuple(dict.fromkeys(r.secret for r in a if r.secret not in configured)) for a in api.security]
    fixes = [Fix(message=f"Configure {' and '.join(names)}.", value=list(names)) for names in lacking]
    ways = " or ".join(" and ".join(names) for names in lacking)
    message = f"to run, {api.id} needs a credential that is not configured: {ways}"
    findings.warning(DiagnosticCode.MISSING_CREDENTIAL, message, step, fixes=fixes)
    return min(lacking, key=len)
