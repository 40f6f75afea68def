"""The rows of calls in the ledger, with their seals."""

from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from executor_svc.admission import Sealer
from executor_svc.models import CallResult, CallState, Outcome, RecordedCall, SendIntent, not_intact

_RESULT: TypeAdapter[CallResult] = TypeAdapter(CallResult)


class CallRows:
    """Writes and reads rows of calls.

    Args:
        sealer: seals rows that are written, and checks the seals of stored ones.
    """

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def recorded(self, row: sa.Row[Any]) -> RecordedCall:
        """The call of a row; it is not intact if no executor with this key wrote the row."""
        content = row.digest if row.state == CallState.SENT.value else row.result
        if isinstance(content, str) and self._sealer.holds_call(row.run_id, row.key, row.state, content, row.seal):
            try:
                state = CallState(row.state)
                result = None if state is CallState.SENT else _RESULT.validate_json(content)
            except ValueError:
                pass  # there is no key, and somebody wrote what cannot be read
            else:
                return RecordedCall(state, row.digest, result)
        return not_intact(row.digest)

    def intent(self, intent: SendIntent) -> dict[str, object]:
        """The row of a call that is about to be sent."""
        run_id, state = intent.ticket.run_id, CallState.SENT.value
        seal = self._sealer.seal_call(run_id, intent.key, state, intent.digest)
        row = {"run_id": run_id, "key": intent.key, "epoch": intent.ticket.epoch, "digest": intent.digest}
        return row | {"state": state, "result": None, "seal": seal}

    def read(self, outcome: Outcome) -> dict[str, object]:
        """The row of a call that was not recorded before it was sent, because it only reads."""
        ticket = outcome.ticket
        row = {"run_id": ticket.run_id, "key": outcome.key, "epoch": ticket.epoch, "digest": ""}
        return row | self.finished(ticket.run_id, outcome.key, outcome.state, outcome.result)

    def outcome(self, outcome: Outcome) -> dict[str, object]:
        """The parameters that finish the row of a call that was sent."""
        run_id = outcome.ticket.run_id
        new = self.finished(run_id, outcome.key, outcome.state, outcome.result)
        found = {"run": run_id, "call": outcome.key, "of_epoch": outcome.ticket.epoch}
        return found | {f"new_{name}": value for name, value in new.items()}

    def finished(self, run_id: str, key: str, state: CallState, result: CallResult) -> dict[str, object]:
        """The columns of a call whose outcome is known."""
        content = _RESULT.dump_json(result).decode()
        seal = self._sealer.seal_call(run_id, key, state.value, content)
        return {"state": state.value, "result": content, "seal": seal}
