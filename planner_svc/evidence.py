"""Calls that were tried and did not help: no plan repeats one of them."""

from collections.abc import Mapping, Sequence
from typing import Final

from services.contracts.evidence import EACH, Attempt, written_calls
from services.contracts.plan import Plan, Step, step_references
from services.contracts.planning import Diagnostic, DiagnosticCode

_WHY: Final = {
    "empty": "it found nothing",
    "unmatched": "nothing that it found matches the request's words",
    "not_found": "there is no such thing",
    "rejected": "its arguments were refused",
}


class TriedCalls:
    """The calls that were tried for one request.

    Args:
        attempts: the calls.
    """

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts

    def call(self, api: str, arguments: Mapping[str, str]) -> Attempt | None:
        """The attempt that this call would repeat.

        A search that found nothing finds nothing with more conditions. For a rejected call this does not hold, so its
        arguments must be equal.
        """
        for attempt in self._attempts:
            exactly = attempt.outcome == "rejected"
            same = attempt.arguments == arguments if exactly else attempt.arguments.items() <= arguments.items()
            if attempt.api == api and same:
                return attempt
        return None

    def steps(self, plan: Plan) -> list[tuple[Step, Attempt]]:
        """The plan's steps that would repeat an attempt."""
        if not self._attempts:
            return []
        calls = written_calls(plan)
        found = ((step, self.call(step.api, calls[step.id])) for step in plan.steps)
        return [(step, attempt) for step, attempt in found if attempt is not None]

    def apis_to_avoid(self, plan: Plan) -> set[str]:
        """The APIs to leave out of a new plan: those that feed the repeating steps, or else these steps' own."""
        apis = {step.id: step.api for step in plan.steps}
        found: set[str] = set()
        for step, _ in self.steps(plan):
            feeding = {apis[reference.step] for reference in step_references(step) if reference.step in apis}
            found |= feeding or {step.api}
        return found

    def findings(self, plan: Plan, *, same_words: bool) -> tuple[Diagnostic, ...]:
        """Why the plan does not improve on what was tried; empty if it does.

        Args:
            plan: a proved plan.
            same_words: whether the plan must contain all values of the attempts. A backend that does not read
                diagnostics cannot correct a value; a value that it leaves out is lost from the request.
        """
        found = [
            _finding(f"the call of {step.api} was made already with these arguments: {_WHY[attempt.outcome]}", step.id)
            for step, attempt in self.steps(plan)
        ]
        if same_words and self._attempts and not found:
            said = {word for arguments in written_calls(plan).values() for word in _words(arguments)}
            words = (word for one in self._attempts for word in _words(one.arguments))
            lost = [word for word in words if not any(word in text for text in said)]  # of "teal vineyards" a kind, too
            found = [_finding(f"the plan does not say {word} any more") for word in dict.fromkeys(lost)]
        return tuple(found)


def _finding(message: str, step: str | None = None) -> Diagnostic:
    return Diagnostic(code=DiagnosticCode.ALREADY_TRIED, step=step, message=message)


def _words(arguments: Mapping[str, str]) -> list[str]:
    """Quoted texts and numbers among a call's arguments, in lower case."""
    plain = [text.casefold() for name, text in arguments.items() if name != EACH]
    quoted = [text[1:-1] for text in plain if text[:1] == text[-1:] == '"']
    return quoted + [text for text in plain if text.lstrip("-")[:1].isdigit()]
