"""Which secrets runs present, for the audit log: one entry a day for each tenant, principal and secret.

What a run's own steps say is exact, and goes when the run is deleted; an entry for each call would bury the others.
"""

from datetime import UTC, date, datetime

from gateway.audit import entry
from gateway.principals import Principal
from services.contracts.access import Action
from services.contracts.run import Run

Use = tuple[str, str, str]
"""Tenant, principal, and the secret's name."""


def secrets_of(run: Run) -> set[str]:
    """The names of the secrets that the calls of a run presented, also those of plans that gave way to others."""
    records = [*run.steps, *(record for earlier in run.evidence for record in earlier.steps)]
    return {name for record in records for name in record.secrets} | set(run.read_with)


class SecretUses:
    """What this process has told of today. Another process, or this one after a restart, tells of it once more."""

    def __init__(self) -> None:
        self._day = date.min
        self._told: set[Use] = set()

    def entries(self, run: Run) -> list[dict[str, object]]:
        """Entries for the audit log: the secrets of this run that are not told of yet."""
        today = datetime.now(UTC).date()
        if today != self._day:
            self._day, self._told = today, set()
        who = Principal(run.asked_by, run.tenant)
        new = sorted(name for name in secrets_of(run) if (run.tenant, run.asked_by, name) not in self._told)
        return [entry(who, Action.PRESENT, name) for name in new]

    def told(self, run: Run) -> None:
        """The entries of this run are stored."""
        self._told |= {(run.tenant, run.asked_by, name) for name in secrets_of(run)}
