"""Which secrets runs present, for the audit log: one entry a day for each tenant, principal and secret.

The steps of a run record each use exactly, but are deleted with the run. One audit entry per call would crowd out the
other entries.

A call whose result nobody waited for, as its run was cancelled, has no record that names its secrets. Then the plan's
proof tells which it presents.
"""

from collections.abc import Container, Set
from datetime import UTC, date, datetime

from gateway.audit import entry
from gateway.live import Live
from gateway.principals import Principal
from services.contracts.access import Action
from services.contracts.outcome import InDoubt, StepRecord
from services.contracts.plan import dependencies
from services.contracts.planning import CompiledPlan
from services.contracts.run import Run

Use = tuple[str, str, str]
"""Tenant, principal, and the secret's name."""


def secrets_of(run: Run) -> set[str]:
    """The names of the secrets that the calls of a run presented, including the calls of plans that were replaced."""
    records = [*run.steps, *(record for earlier in run.evidence for record in earlier.steps)]
    return {name for record in records for name in record.secrets} | set(run.read_with)


def secrets_of_reads(compiled: CompiledPlan) -> set[str]:
    """The names of the secrets that a plan's reads before an approval present, if all of them are made."""
    held = {*compiled.proof.mutating, *compiled.proof.approvals}
    return _secrets_of_steps(compiled, {step.id for step in compiled.plan.steps} - held)


def unrecorded_secrets(live: Live, run: Run) -> set[str]:
    """The names of the secrets that calls of an ended run may have presented, although no record says so."""
    found = set(live.reads_secrets)
    if live.compiled is None:
        return found
    records = {record.step: record for record in run.steps}
    steps = {step for step, record in records.items() if _may_be_sent(record)}
    for step in live.compiled.plan.steps if live.planned else ():
        # The event that a step has started may not have arrived before the run was cancelled.
        is_ready = live.cancelled and dependencies(step) <= records.keys()
        if step.id not in records and (is_ready or step.id in live.started):
            steps.add(step.id)
    return found | _secrets_of_steps(live.compiled, steps)


def _may_be_sent(record: StepRecord) -> bool:
    """Whether a step made calls, but it is not known with which secrets."""
    return not record.secrets and (record.attempts > 0 or isinstance(record.outcome, InDoubt))


def _secrets_of_steps(compiled: CompiledPlan, steps: Container[str]) -> set[str]:
    apis = (compiled.apis[step.api] for step in compiled.plan.steps if step.id in steps)
    needed = {need.secret for api in apis for alternative in api.security for need in alternative}
    return needed.intersection(compiled.proof.credentials)


class SecretUses:
    """The uses that this process has logged today. Another process, or this one after a restart, logs them again."""

    def __init__(self) -> None:
        self._day = date.min
        self._logged: set[Use] = set()

    def entries(self, run: Run, names: Set[str]) -> list[dict[str, object]]:
        """Entries for the audit log: those of the secrets that a run presented that are not logged yet today."""
        today = datetime.now(UTC).date()
        if today != self._day:
            self._day, self._logged = today, set()
        who = Principal(run.asked_by, run.tenant)
        new = sorted(name for name in names if (run.tenant, run.asked_by, name) not in self._logged)
        return [entry(who, Action.PRESENT, name) for name in new]

    def mark_logged(self, run: Run, names: Set[str]) -> None:
        """Remember that these entries are stored."""
        self._logged |= {(run.tenant, run.asked_by, name) for name in names}
