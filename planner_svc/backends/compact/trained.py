"""The trained planner: read the request beside its candidates, decode the calls, put them together as a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from planner_svc.backends.compact.decode import Decoder, Drafted, Fed, Said
from planner_svc.backends.compact.inputs import FEATURES
from planner_svc.backends.compact.items import Encoded, encode
from planner_svc.backends.compact.profile import Field, read_profile
from planner_svc.backends.compact.reader import Reader
from planner_svc.models import MissingValue, PlanDraft
from services.contracts.api import Api, Candidate
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, Reference, Step, Value
from services.encoder import Encoder

NOTHING: Final = "Nothing in the catalogue fits this request."
MAX_CANDIDATES: Final = 16


class Encodings:
    """APIs as they were read, the least recently used dropped first. Several threads may use it."""

    def __init__(self, encoder: Encoder, most: int = 5_000) -> None:
        self._encoder, self._most = encoder, most
        self._known: dict[str, Encoded] = {}

    def of(self, api: Api) -> Encoded:
        """The API's items with their vectors; read now where it is not known."""
        key = api.content_hash or hashlib.sha256(api.model_dump_json().encode()).hexdigest()
        found = self._known.pop(f"{api.id}\n{key}", None) or encode(read_profile(api), self._encoder)
        self._known[f"{api.id}\n{key}"] = found
        while len(self._known) > self._most:
            self._known.pop(next(iter(self._known), ""), None)
        return found


def features_of(candidate: Candidate, rank: int) -> tuple[float, ...]:
    """What the retriever says of a candidate; ``rank`` from 0."""
    told = (
        candidate.score,
        max(candidate.clause_scores, default=candidate.score),
        candidate.relevance or 0.0,
        1 / (1 + rank),
        float(candidate.role == "supplier"),
    )
    assert len(told) == FEATURES
    return told


def draft_plan(
    query: str,
    candidates: Sequence[Candidate],
    now: datetime,
    given: Mapping[str, JsonValue],
    encodings: Encodings,
    reader: Reader,
) -> PlanDraft:
    """Draft a plan; blocks, run it on a pool.

    Args:
        query: the request.
        candidates: best first; the first ``MAX_CANDIDATES`` count.
        now: the request's clock.
        given: values that the application knows, by argument name.
        encodings: the APIs, read.
        reader: the network.
    """
    seen = candidates[:MAX_CANDIDATES]
    apis = [encodings.of(candidate.api) for candidate in seen]
    reading = reader.read(query, apis, [features_of(one, rank) for rank, one in enumerate(seen)])
    decoder = Decoder(query, apis, reading, now, given)
    calls = decoder.calls()
    if not calls:
        return PlanDraft(None, 1 - float(decoder.called.max()), reason=NOTHING)
    return _Assembly(apis, calls, decoder).draft()


@dataclass(frozen=True, slots=True)
class _Assembly:
    """Calls on their way to steps."""

    apis: Sequence[Encoded]
    calls: Sequence[Drafted]
    decoder: Decoder

    def draft(self) -> PlanDraft:
        ids = {index: f"var{index + 1}" for index in range(len(self.calls))}
        steps = tuple(
            Step(
                id=ids[index],
                api=self.apis[call.api].profile.api.id,
                arguments={name: self._value(index, one, ids) for name, one in call.arguments.items()},
            )
            for index, call in enumerate(self.calls)
        )
        missing = tuple(
            MissingValue(ids[index], name) for index, call in enumerate(self.calls) for name in call.missing
        )
        return PlanDraft(Plan(steps=steps, answer=tuple(self._answer(ids))), self._sure(), missing)

    def _value(self, index: int, argument: Said | Fed, ids: Mapping[int, str]) -> Value:
        if isinstance(argument, Said):
            return LiteralValue(value=argument.value)
        return Reference(step=ids[self._producer(index, argument)], path=argument.field.path)

    def _producer(self, index: int, fed: Fed) -> int:
        """Of several calls of the API that feeds it, the one that stands where this one does among its own."""
        before = [number for number, call in enumerate(self.calls[:index]) if call.api == fed.api]
        own = [number for number, call in enumerate(self.calls) if call.api == self.calls[index].api]
        return before[min(own.index(index), len(before) - 1)]

    def _answer(self, ids: Mapping[int, str]) -> list[AnswerOutput]:
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
                outputs.append(AnswerOutput(name=name, value=Reference(step=ids[index], path=path)))
        return outputs

    def _sure(self) -> float:
        """As likely as the least likely thing in it, the calls that were left out among them."""
        made = {call.api for call in self.calls}
        left_out = [1 - float(sure) for number, sure in enumerate(self.decoder.called) if number not in made]
        arguments = [one.sure for call in self.calls for one in call.arguments.values()]
        return min([*(call.sure for call in self.calls), *left_out, *arguments])


def _unused(name: str, taken: set[str]) -> str:
    label = next(text for n in range(1, len(taken) + 2) if (text := name if n == 1 else f"{name}_{n}") not in taken)
    taken.add(label)
    return label[:200]
