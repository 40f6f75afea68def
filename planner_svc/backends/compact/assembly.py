"""Builds a plan from decoded calls: steps with ids, references between them, and the answer's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.draft_calls import PLACES, Argument, DraftCall, LiteralArgument, ReferenceArgument
from planner_svc.backends.compact.items import Encoded
from planner_svc.models import MissingValue
from planner_svc.reading.answers import answer_of, unique_name
from planner_svc.reading.leaves import nested
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value


@dataclass(frozen=True, slots=True)
class Assembly:
    """Decoded calls and what is needed to build a plan from them.

    Attributes:
        apis: the candidates.
        calls: each after the calls it needs.
        decoder: the decoder that made them.
    """

    apis: Sequence[Encoded]
    calls: Sequence[DraftCall]
    decoder: Decoder

    def plan(self) -> Plan:
        """The calls as steps, and the answer's outputs."""
        steps = tuple(
            Step(
                id=_id(index),
                api=self.apis[call.api].profile.api.id,
                arguments=self._arguments(index),
            )
            for index, call in enumerate(self.calls)
        )
        return Plan(steps=steps, answer=tuple(self._answer()))

    def missing(self) -> tuple[MissingValue, ...]:
        """The required arguments that no source gives."""
        return tuple(
            MissingValue(_id(index), name)
            for index, call in enumerate(self.calls)
            for name in (*call.missing, *self._guessed_ends(index))
        )

    def _arguments(self, index: int) -> dict[str, Value]:
        call = self.calls[index]
        guessed = self._guessed_ends(index)
        values = {name: self._value(index, name, one) for name, one in call.arguments.items() if name not in guessed}
        return nested(self.apis[call.api].profile, values)

    def _guessed_ends(self, index: int) -> set[str]:
        """One of two ends of a pair that have one source: nothing is converted from euros to euros.

        It is where the pair ends, unless the words say that what is there is that end: "to euros". Only required ends
        count, and none of ranges: a day or a period can be both ends.
        """
        call = self.calls[index]
        slots = self.apis[call.api].profile.slots
        ends = [one for one in slots if one.role and one.required and not one.in_range and one.name in call.arguments]
        found: set[str] = set()
        for one, other in combinations(ends, 2):
            source = self._source(index, one.name)
            alike = one.role != other.role and one.paired == other.paired
            if alike and source is not None and source == self._source(index, other.name):
                argument = call.arguments[one.name]
                place = argument.place if isinstance(argument, LiteralArgument) else None
                if place is not None and self.decoder.is_period(place):
                    continue
                kept = self.decoder.end_at(place[0]) if place is not None else None
                found.add(other.name if one.role == (kept or "from") else one.name)
        return found

    def _source(self, index: int, name: str) -> tuple[object, ...] | None:
        """Where an argument's value comes from; None if no words and no call say it."""
        argument = self.calls[index].arguments[name]
        if isinstance(argument, LiteralArgument):
            return argument.place
        return self._producer(index, name, argument), argument.field.path

    def _value(self, index: int, name: str, argument: Argument) -> Value:
        if isinstance(argument, LiteralArgument):
            return LiteralValue(value=argument.value)
        return Reference(step=_id(self._producer(index, name, argument)), path=argument.field.path)

    def _producer(self, index: int, name: str, fed: ReferenceArgument) -> int:
        """The call that feeds an argument. Calls of both APIs are paired in their order.

        If two calls feed the two ends of a pair, the request's words decide which end each is.
        """
        call = self.calls[index]
        before = [number for number, other in enumerate(self.calls[:index]) if other.api == fed.api]
        own = [number for number, other in enumerate(self.calls) if other.api == call.api]
        position = own.index(index) * call.producer_count(fed.api) + call.producer_index(name)
        if len(before) == 2 == call.producer_count(fed.api) and fed.role is not None:
            before.sort(key=lambda number: PLACES[self.decoder.pair_end(self.calls[number])])
        return before[min(position, len(before) - 1)]

    def _answer(self) -> list[AnswerOutput]:
        """The outputs asked for, of calls that feed no other call; all outputs of a call if none stands out."""
        taken = {
            self._producer(i, name, one)
            for i, call in enumerate(self.calls)
            for name, one in call.arguments.items()
            if isinstance(one, ReferenceArgument)
        }
        outputs: list[AnswerOutput] = []
        names: set[str] = set()
        for index, call in enumerate(self.calls):
            said = self.decoder.answers(call.api) if index in taken else self.decoder.answers_of_last(call.api)
            if index in taken and not said:
                continue
            for name, path in answer_of(self.apis[call.api].profile, said):
                label = unique_name(name or "result", names)
                outputs.append(AnswerOutput(name=label, value=Reference(step=_id(index), path=path)))
        return outputs


def _id(index: int) -> str:
    return f"var{index + 1}"
