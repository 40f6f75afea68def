"""The large values of a run, which the executor keeps."""

from services.contracts.outcome import Succeeded
from services.contracts.run import Run


def stored_values(run: Run) -> dict[str, int]:
    """The large values of a run: their ids, and their sizes in bytes."""
    records = [*run.steps, *(record for earlier in run.evidence for record in earlier.steps)]
    outcomes = [record.outcome for record in records]
    outcomes += [item.outcome for record in records for item in record.items]
    stored = [outcome.stored for outcome in outcomes if isinstance(outcome, Succeeded)]
    stored += [value.stored for value in run.answer.values]
    return {value.id: value.bytes for value in stored if value is not None}
