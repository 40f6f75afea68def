"""From chosen calls to a plan: steps with ids, each call once, and the outputs that answer."""

from collections.abc import Iterable, Sequence

from planner_svc.backends.rules.chain import Call, Output, Said
from planner_svc.backends.rules.choose import Choice
from planner_svc.models import MissingValue
from planner_svc.reading.answers import Answerer, outputs_of, unused
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value


class Drafter:
    """Collects the steps of one plan. Calls of the same API with the same arguments become one step."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._ids: dict[int, str] = {}
        self._missing: list[MissingValue] = []

    def add(self, call: Call) -> str:
        """The id of the call's step, which is added with those it needs if it is new."""
        if id(call) in self._ids:
            return self._ids[id(call)]
        arguments = {name: self._value(argument) for name, argument in call.arguments.items()}
        api = call.profile.api.id
        same = next((s for s in self._steps if s.api == api and s.arguments == arguments), None)
        if same is None or call.profile.api.mutating:
            same = Step(id=f"var{len(self._steps) + 1}", api=api, arguments=arguments)
            self._steps.append(same)
            self._missing += [MissingValue(same.id, name) for name in call.missing]
        self._ids[id(call)] = same.id
        return same.id

    def _value(self, argument: Said | Output) -> Value:
        if isinstance(argument, Said):
            return LiteralValue(value=argument.value)
        return Reference(step=self.add(argument.call), path=argument.field.path)

    def finish(self, answer: Sequence[AnswerOutput]) -> tuple[Plan, tuple[MissingValue, ...]]:
        """The plan, and what it lacks."""
        return Plan(steps=tuple(self._steps), answer=tuple(answer)), tuple(self._missing)


def draft(choices: Iterable[Choice], answerer: Answerer) -> tuple[Plan, tuple[MissingValue, ...]]:
    """The plan of the chosen calls."""
    drafter = Drafter()
    answer: list[AnswerOutput] = []
    taken: set[str] = set()
    for choice in choices:
        fields = answerer.choose(choice.calls[0].profile, choice.calls[0].places, choice.question)
        for call in choice.calls:
            step = drafter.add(call)
            for name, path in outputs_of(fields, plural=choice.question.plural):
                label = unused(name or "result", taken)
                answer.append(AnswerOutput(name=label, value=Reference(step=step, path=path)))
    return drafter.finish(answer)
