"""Which fields answer a request where the model does not say: chosen as the planners without a model choose them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from planner_svc.reading.answers import Answerer, Place, Question, outputs_of, read_question, unused
from planner_svc.reading.profile import Library
from planner_svc.reading.text import words_of
from services.contracts.api import Api, Clause
from services.contracts.plan import AnswerOutput, Plan, Reference, Step, Value, scalars
from services.contracts.plan import dependencies as needed_by
from services.encoder import Encoder

_MAX_FOUND = 40


class Outputs:
    """Chooses outputs. It keeps what it read of APIs, bounded; several threads may use it."""

    def __init__(self, encoder: Encoder) -> None:
        self._library = Library(encoder)
        self._answerer = Answerer(lambda asked, field: self._library.similarity(asked, field.text))

    def answered(self, plan: Plan, query: str, clauses: Sequence[Clause], apis: Sequence[Api]) -> Plan:
        """The plan with outputs: of the calls that no other call takes anything from. As it is where it has some."""
        known = {api.id: api for api in apis}
        if plan.answer or any(step.api not in known for step in plan.steps):
            return plan
        taken = {needed for step in plan.steps for needed in needed_by(step)}
        outputs: list[AnswerOutput] = []
        names: set[str] = set()
        for step in plan.steps:
            if step.id in taken:
                continue
            for name, path in self._paths(step, known[step.api], query, clauses):
                label = unused(name or "result", names)
                outputs.append(AnswerOutput(name=label, value=Reference(step=step.id, path=path)))
        return Plan(steps=plan.steps, answer=tuple(outputs))

    def _paths(
        self, step: Step, api: Api, query: str, clauses: Sequence[Clause]
    ) -> list[tuple[str, tuple[str | int, ...]]]:
        if step.foreach is not None:  # a list of answers: all of it
            return [("", ())]
        places = list(_places(step, query))
        question = _question(query, clauses, places)
        fields = self._answerer.choose(self._library.profile(api), places, question)
        return outputs_of(fields, plural=question.plural)


def _question(query: str, clauses: Sequence[Clause], places: Sequence[Place]) -> Question:
    """What the part of the request asks that says most of the call's values."""
    parts = [(clause.start, clause.end) for clause in clauses] or [(0, len(query))]
    start, end = max(parts, key=lambda part: sum(_shared(part, place) for place in places))
    if not any(_shared((start, end), place) for place in places):
        start, end = 0, len(query)
    asking = [
        word
        for word in words_of(query[start:end], start)
        if not any(_shared(p, (word.start, word.end)) for p in places)
    ]
    return read_question(query[start:end], asking, start)


def _shared(one: Place, other: Place) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def _places(step: Step, query: str) -> Iterator[Place]:
    """Where the request says the call's values."""
    low = query.lower()
    for value in step.arguments.values():
        for text in _texts(value):
            at = low.find(text.lower())
            if at >= 0:
                yield at, at + len(text)


def _texts(value: Value) -> Iterator[str]:
    """The texts and numbers in a value, a bounded number."""
    for one in islice(scalars(value), _MAX_FOUND):
        if isinstance(one, str | int | float) and not isinstance(one, bool) and (text := str(one)).strip():
            yield text
