"""From what the network says to calls: which candidates, how often each, and in which order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from pydantic import JsonValue

from planner_svc.backends.compact.calls import call_evidence, likeness_of
from planner_svc.backends.compact.drafted import Drafted, Fed, Said, arranged
from planner_svc.backends.compact.filling import DEMONSTRATED, Filler
from planner_svc.backends.compact.inputs import RELEVANCE, Floats, softmax
from planner_svc.backends.compact.items import Kind
from planner_svc.backends.compact.judging import Judges
from planner_svc.backends.compact.sets import set_evidence
from planner_svc.backends.compact.spans import Wish
from planner_svc.backends.compact.task import Gap, Task
from planner_svc.reading.actions import may_be_meant
from planner_svc.reading.asked import named_besides
from planner_svc.reading.profile import Field, Role, Slot
from services.compute import checkpoint

CALLED: Final = 0.5
"""An API is called that is at least so likely to be needed."""
ALONE: Final = 0.3
"""Likewise the likeliest of all: somebody who asks wants something."""
ANSWERS: Final = 0.5
"""A field is asked for that is at least so likely to be."""
_NEVER: Final = 1e-6
"""As unlikely as a judge can find a call: log-odds stay finite."""
_ENDS: Final = re.compile(
    r"\b(?:(?P<from>from|leaving|departing)|(?P<to>to|into|towards?|for))\s+(?:the\s+)?[\"'\u201c\u2018]?$",
    re.IGNORECASE,
)
_NEAR: Final = 20
"""Characters before a value in which its preposition stands."""


class Decoder:
    """Decodes one task.

    Args:
        task: what is decoded.
        judges: the second stage; None: the network decides alone.
    """

    def __init__(self, task: Task, judges: Judges | None = None) -> None:
        self._task = task
        self._judges = judges = judges or Judges()
        profiles = [one.profile for one in task.apis]
        self._evidence = call_evidence(task.query, profiles, task.reading.inputs, task.reading.logits)
        self.called: Floats = _sigmoid(self._odds() + self._bonus())
        self.filler = Filler(task, self.called, judges)
        self._answers: Floats = _sigmoid(task.reading.logits["answer"])

    def _odds(self) -> Floats:
        """Log-odds that each candidate is called."""
        if self._judges.calls is None:
            odds: Floats = self._task.reading.logits["call"][np.asarray(self._task.reading.inputs.first)]
            return odds
        likely = np.clip(self._judges.calls(self._evidence), _NEVER, 1 - _NEVER)
        judged: Floats = np.log(likely / (1 - likely))
        return judged

    def _bonus(self) -> Floats:
        """Log-odds that demos of like requests add to a candidate."""
        similar = [self._task.shown.calls.get(one.profile.api.id, 0.0) for one in self._task.apis]
        return np.asarray([DEMONSTRATED * one for one in similar], np.float32)

    def chosen(self) -> list[int]:
        """The candidates that are called.

        Where nothing weighs sets, each by itself: what changes something only where it is likelier meant than not.
        """
        order, likely = self._weighed
        if likely is not None:
            return sorted(order[: int(likely.argmax())])
        least = [CALLED if self.changes(number) or place else ALONE for place, number in enumerate(order)]
        return sorted(number for number, enough in zip(order, least, strict=True) if self.called[number] >= enough)

    @property
    def together(self) -> float:
        """How likely just the right candidates are called, what they need left aside; without a judge: if none is."""
        likely = self._weighed[1]
        return 1 - float(self.called.max()) if likely is None else float(likely.max())

    @cached_property
    def _weighed(self) -> tuple[list[int], Floats | None]:
        order, evidence = self.sets()
        return order, None if self._judges.sets is None else self._judges.sets(evidence)

    def sets(self) -> tuple[list[int], Floats]:
        """The candidates that may be called, likeliest first; what speaks for calling none, one, two ... of them."""
        order = [number for number in np.argsort(-self.called, kind="stable").tolist() if self._allowed(number)]
        likeness = likeness_of(self._task.reading.inputs)
        sizes = softmax(self._task.reading.logits["size"])
        return order, set_evidence(self._evidence, self.called, likeness, order, sizes)

    def _allowed(self, number: int) -> bool:
        """Whether the request's words leave room for what the call would change."""
        return not self.changes(number) or may_be_meant(self._task.apis[number].profile, self._task.query)

    def calls(self, chosen: Sequence[int]) -> list[Drafted]:
        """The calls of these candidates and of those they need, each after those it needs."""
        drafted: dict[int, list[Drafted]] = {}
        waiting = list(chosen)
        while waiting:
            number = waiting.pop(0)
            if number in drafted:
                continue
            drafted[number] = self._of(number, chosen)
            waiting += [need for call in drafted[number] for need in call.fed_by() if need not in drafted]
        return arranged(drafted)

    @property
    def words(self) -> int:
        """How many the request has."""
        return len(self._task.query.split())

    def changes(self, number: int) -> bool:
        """Whether a candidate's call may change something."""
        return self._task.apis[number].profile.api.mutating

    def end(self, call: Drafted) -> Role | None:
        """Which end of a pair the request's words make of what a call is about: "from Oslo", "to Rome"."""
        start = min((start for start, _ in call.places), default=0)
        found = _ENDS.search(self._task.query, max(start - _NEAR, 0), start)
        return None if found is None else "to" if found["to"] else "from"

    def relevance(self, number: int) -> float:
        """What the retriever says of a candidate: how likely it is needed."""
        inputs = self._task.reading.inputs
        return float(inputs.features[inputs.first[number], RELEVANCE])

    def answers(self, number: int) -> list[Field]:
        """The fields of an API's answer that the request asks for, surest first; then what it names besides."""
        profile = self._task.apis[number].profile
        places = self._task.items(number, Kind.OUTPUT)
        found = [(self._answers[place], profile.fields[item.field]) for place, item in places]
        said = [one for sure, one in sorted(found, key=lambda pair: -pair[0]) if sure >= ANSWERS]
        return [*said, *named_besides(self._task.query, profile, said)] if said else []

    def _of(self, number: int, chosen: Sequence[int]) -> list[Drafted]:
        """The calls of one API: as many as values say, where it is called more than once."""
        profile = self._task.apis[number].profile
        first = self._task.reading.inputs.first[number]
        times = 1 + int(self._task.reading.logits["count"][first].argmax())
        calls = [Drafted(number, float(self.called[number])) for _ in range(times)]
        taken: list[tuple[int, int]] = []
        used: list[tuple[tuple[JsonValue, ...], JsonValue]] = []
        wishes = self._surest(number, times)
        parts = self.filler.segments(wishes, times) if times > 1 else []
        for wish in wishes:
            checkpoint()
            slot = wish.slot
            values = self.filler.values(Gap(wish, profile, times, chosen, taken, used, parts))
            for index, call in enumerate(calls):
                if values:
                    self._put(call, slot, values[min(index, len(values) - 1)])
                elif slot.required:
                    call.missing.append(slot.name)
        order = [slot.name for slot in profile.slots]
        for call in calls:
            call.arguments = {name: call.arguments[name] for name in order if name in call.arguments}
        return calls

    def _surest(self, number: int, times: int) -> list[Wish]:
        """An API's parameters, those first of which it is clearest which words say them."""
        return sorted(self.filler.wishes(number), key=lambda wish: -self.filler.clear(wish, times))

    @staticmethod
    def _put(call: Drafted, slot: Slot, value: Said | Fed) -> None:
        call.arguments[slot.name] = value
        if isinstance(value, Said) and value.place is not None:
            call.place = min(call.place, value.place[0])


def _sigmoid(logits: Floats) -> Floats:
    result: Floats = (1 / (1 + np.exp(-logits))).astype(np.float32)
    return result
