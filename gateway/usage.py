"""Which secrets runs present, for the audit log: one entry a day for each tenant, principal and secret.

The steps of a run record each use exactly, but are deleted with the run. One audit entry per call would crowd out the
other entries.
"""

from datetime import UTC, date, datetime

from gateway.audit import entry
from gateway.principals import Principal
from services.contracts.access import Action
from services.contracts.run import Run

Use = tuple[str, str, str]
"""Tenant, principal, and the secret's name."""


def secrets_of(run: Run) -> set[str]:
    """The names of the secrets that the calls of a run presented, including the calls of plans that were replaced."""
    records = [*run.steps, *(record for earlier in run.evidence for record in earlier.steps)]
    return {name for record in records for name in record.secrets} | set(run.read_with)


class SecretUses:
    """The uses that this process has logged today. Another process, or this one after a restart, logs them again."""

    def __init__(self) -> None:
        self._day = date.min
        self._logged: set[Use] = set()

    def entries(self, run: Run) -> list[dict[str, object]]:
        """Entries for the audit log: the secrets of this run that are not logged yet today."""
        today = datetime.now(UTC).date()
        if today != self._day:
            self._day, self._logged = today, set()
        who = Principal(run.asked_by, run.tenant)
        new = sorted(name for name in secrets_of(run) if (run.tenant, run.asked_by, name) not in self._logged)
        return [entry(who, Action.PRESENT, name) for name in new]

    def mark_logged(self, run: Run) -> None:
        """Remember that the entries of this run are stored."""
        self._logged |= {(run.tenant, run.asked_by, name) for name in secrets_of(run)}
