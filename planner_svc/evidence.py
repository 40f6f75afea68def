"""Calls that were made already and did not help: no plan makes one of them again."""

from collections.abc import Mapping, Sequence
from typing import Final

from services.contracts.evidence import EACH, Attempt, written_calls
from services.contracts.plan import Plan, Step, step_references
from services.contracts.planning import Diagnostic, DiagnosticCode

_WHY: Final = {
    "empty": "it found nothing",
    "not_found": "there is no such thing",
    "rejected": "its arguments were refused",
}


class Tried:
    """What was tried for one request.

    Args:
        attempts: the calls.
    """

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts

    def call(self, api: str, arguments: Mapping[str, str]) -> Attempt | None:
        """The attempt that this call would repeat.

        A search that found nothing finds nothing with more conditions; of a call that was refused that is not known.
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

    def culprits(self, plan: Plan) -> set[str]:
        """The APIs that a plan like this one is better made without: of those steps, or of what feeds them."""
        apis = {step.id: step.api for step in plan.steps}
        found: set[str] = set()
        for step, _ in self.steps(plan):
            feeding = {apis[reference.step] for reference in step_references(step) if reference.step in apis}
            found |= feeding or {step.api}
        return found

    def findings(self, plan: Plan, *, same_words: bool) -> tuple[Diagnostic, ...]:
        """Why the plan is no answer to what was tried; nothing where it is one.

        Args:
            plan: a proved plan.
            same_words: whether it must say all that the attempts said. A planner that does not read reasons cannot
                say a thing better, and what it leaves out is what the request was about.
        """
        found = [
            _finding(f"the call of {step.api} was made already with these arguments: {_WHY[attempt.outcome]}", step.id)
            for step, attempt in self.steps(plan)
        ]
        if same_words and self._attempts and not found:
            said = {word for arguments in written_calls(plan).values() for word in _words(arguments)}
            lost = [word for one in self._attempts for word in _words(one.arguments) if word not in said]
            found = [_finding(f"the plan does not say {word} any more") for word in dict.fromkeys(lost)]
        return tuple(found)


def _finding(message: str, step: str | None = None) -> Diagnostic:
    return Diagnostic(code=DiagnosticCode.ALREADY_TRIED, step=step, message=message)


def _words(arguments: Mapping[str, str]) -> list[str]:
    """Texts and numbers that a call says by itself, however they are written."""
    plain = [text.casefold() for name, text in arguments.items() if name != EACH]
    quoted = [text[1:-1] for text in plain if text[:1] == text[-1:] == '"']
    return quoted + [text for text in plain if text.lstrip("-")[:1].isdigit()]
