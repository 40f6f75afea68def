"""The trained planner: read the request beside its candidates, decode the calls, put them together as a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner_svc.backends.compact.confidence import Calibration, signs_of
from planner_svc.backends.compact.decode import Decoder, Drafted, Fed, Said
from planner_svc.backends.compact.encodings import Encodings
from planner_svc.backends.compact.inputs import Floats, features_of
from planner_svc.backends.compact.items import Encoded
from planner_svc.backends.compact.reader import Reader
from planner_svc.backends.compact.shown import shown_by
from planner_svc.models import MissingValue, PlanDraft
from planner_svc.reading.context import given_values, read_clock
from planner_svc.reading.profile import Field
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value
from services.contracts.planning import PlanRequest
from services.encoder import Encoder

NOTHING: Final = "Nothing in the catalogue fits this request."
MAX_CANDIDATES: Final = 16
MAX_ALTERNATIVES: Final = 4
LIKELY: Final = 0.1
"""An API that is at least so likely may take the place of one whose call cannot be proved."""


class CompactBackend:
    """Plans with the network that ships. It keeps nothing between requests but what it read of APIs, bounded."""

    name = "compact"

    def __init__(self, encoder: Encoder, reader: Reader, calibration: Calibration, pool: ComputePool) -> None:
        self._encodings = Encodings(encoder)
        self._reader = reader
        self._calibration = calibration
        self._pool = pool

    async def read(self, apis: Sequence[Api]) -> None:
        """Read APIs before a request has them as candidates."""
        await self._pool.run(self._read, apis)

    def _read(self, apis: Sequence[Api]) -> None:
        for api in apis:
            self._encodings.of(api)

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan; see :class:`~planner_svc.backends.base.PlannerBackend`."""
        return await self._pool.run(self.draft, request)

    def draft(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan, on the calling thread."""
        seen = [one for one in request.candidates if not one.api.deprecated][:MAX_CANDIDATES]
        if not seen or not re.search(r"\w", request.query):
            return PlanDraft(None, 0.9, reason=NOTHING)
        apis = [self._encodings.of(candidate.api) for candidate in seen]
        reading = self._reader.read(request.query, apis, [features_of(one, rank) for rank, one in enumerate(seen)])
        now, given = read_clock(request.context), given_values(request.context)
        shown = shown_by(request.demos, {one.api.id for one in seen}, now)
        decoder = Decoder(request.query, apis, reading, now, given, shown)
        chosen = decoder.chosen()
        calls = decoder.calls(chosen)
        if not calls:
            return PlanDraft(None, 1 - float(decoder.called.max()), reason=NOTHING)
        best = _Assembly(apis, calls, decoder)
        return PlanDraft(
            best.plan(),
            self._calibration.probability(signs_of(decoder, calls)),
            best.missing(),
            alternatives=tuple(_alternatives(decoder, apis, chosen)),
        )


def _alternatives(decoder: Decoder, apis: Sequence[Encoded], chosen: Sequence[int]) -> list[Plan]:
    """The next best: the least likely call's API changed for the likeliest other one, or left out."""
    called: Floats = decoder.called
    others = [int(n) for n in np.argsort(-called) if n not in chosen and called[n] >= LIKELY]
    found: list[Plan] = []
    for weakest in sorted(chosen, key=lambda number: float(called[number]))[:2]:
        rest = [number for number in chosen if number != weakest]
        for changed in ([*rest, *others[:1]], rest):
            calls = decoder.calls(changed) if changed and sorted(changed) != sorted(chosen) else []
            if calls:
                found.append(_Assembly(apis, calls, decoder).plan())
    return found[:MAX_ALTERNATIVES]


@dataclass(frozen=True, slots=True)
class _Assembly:
    """Calls on their way to steps."""

    apis: Sequence[Encoded]
    calls: Sequence[Drafted]
    decoder: Decoder

    def plan(self) -> Plan:
        """The calls as steps, and what answers."""
        steps = tuple(
            Step(
                id=_id(index),
                api=self.apis[call.api].profile.api.id,
                arguments={name: self._value(index, one) for name, one in call.arguments.items()},
            )
            for index, call in enumerate(self.calls)
        )
        return Plan(steps=steps, answer=tuple(self._answer()))

    def missing(self) -> tuple[MissingValue, ...]:
        """What nobody says."""
        return tuple(MissingValue(_id(index), name) for index, call in enumerate(self.calls) for name in call.missing)

    def _value(self, index: int, argument: Said | Fed) -> Value:
        if isinstance(argument, Said):
            return LiteralValue(value=argument.value)
        return Reference(step=_id(self._producer(index, argument)), path=argument.field.path)

    def _producer(self, index: int, fed: Fed) -> int:
        """Of several calls of the API that feeds it, the one that stands where this one does among its own."""
        before = [number for number, call in enumerate(self.calls[:index]) if call.api == fed.api]
        own = [number for number, call in enumerate(self.calls) if call.api == self.calls[index].api]
        return before[min(own.index(index), len(before) - 1)]

    def _answer(self) -> list[AnswerOutput]:
        """What was asked for, of calls whose answers no other call takes up; all of them where nothing stands out."""
        taken = {
            self._producer(i, one)
            for i, call in enumerate(self.calls)
            for one in call.arguments.values()
            if isinstance(one, Fed)
        }
        outputs: list[AnswerOutput] = []
        names: set[str] = set()
        for index, call in enumerate(self.calls):
            fields: list[Field | None] = [*self.decoder.answers(call.api)]
            if not fields and index not in taken:
                fields = [None]
            for one in fields:
                name = _unused(one.name if one is not None and one.name else "result", names)
                path = () if one is None else one.path
                outputs.append(AnswerOutput(name=name, value=Reference(step=_id(index), path=path)))
        return outputs


def _id(index: int) -> str:
    return f"var{index + 1}"


def _unused(name: str, taken: set[str]) -> str:
    label = next(text for n in range(1, len(taken) + 2) if (text := name if n == 1 else f"{name}_{n}") not in taken)
    taken.add(label)
    return label[:200]
