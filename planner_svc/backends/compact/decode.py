"""Turns the network's outputs into calls: which candidates, how often each, and in which order."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from planner_svc.backends.compact.calls import call_evidence, likeness_of
from planner_svc.backends.compact.code_swaps import swapped_by_code, without_siblings
from planner_svc.backends.compact.draft_calls import (
    Argument,
    DraftCall,
    LiteralArgument,
    in_running_order,
)
from planner_svc.backends.compact.filling import Filler
from planner_svc.backends.compact.goals import take_goals
from planner_svc.backends.compact.inputs import RELEVANCE, Floats, Origin, softmax
from planner_svc.backends.compact.items import Kind
from planner_svc.backends.compact.left_out import add_look_ups
from planner_svc.backends.compact.lengths import add_ends_by_length
from planner_svc.backends.compact.measures import take_measures
from planner_svc.backends.compact.named_look_ups import add_named_look_ups
from planner_svc.backends.compact.new_values import drop_other_options, tell_old_from_new_values
from planner_svc.backends.compact.outputs import DEMONSTRATED
from planner_svc.backends.compact.periods import add_other_ends, set_bounds
from planner_svc.backends.compact.person_names import split_full_name
from planner_svc.backends.compact.range_ends import set_right_ends
from planner_svc.backends.compact.second_stage import Judges
from planner_svc.backends.compact.sets import set_evidence
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import FillRequest, Task
from planner_svc.backends.compact.unmarked import add_unmarked_ends, takes_limits
from planner_svc.reading.actions import may_be_meant
from planner_svc.reading.answers import whole_answer_fields
from planner_svc.reading.asked import counts_asked, named_besides, states_asked
from planner_svc.reading.option_names import weekday_options
from planner_svc.reading.profile import Field, Role, Slot
from planner_svc.reading.text import MAX_CHARS, name_parts, split_name, stems
from services.compute import checkpoint
from services.contracts.api import Location

CALLED: Final = 0.5
"""Smallest probability at which an API is called."""
ALONE: Final = 0.3
"""The same for the likeliest API of all: a request usually wants something."""
ANSWERS: Final = 0.5
"""Smallest probability at which a field is asked for."""
_NEVER: Final = 1e-6
"""Lower bound of a judge's probability, so that log-odds stay finite."""
_ENDS: Final = re.compile(
    r"\b(?:(?P<from>from|leaving|departing)|(?P<to>to|into|towards?|for))\s+(?:the\s+)?[\"'\u201c\u2018]?$",
    re.IGNORECASE,
)
_NEAR: Final = 20
"""Characters before a value that are searched for its preposition."""


class Decoder:
    """Decodes one task.

    Args:
        task: what to decode.
        judges: the second stage; None: the network decides alone.
    """

    def __init__(self, task: Task, judges: Judges | None = None) -> None:
        self._task = task
        self._judges = judges = judges or Judges()
        profiles = [one.profile for one in task.apis]
        self._evidence = call_evidence(task.query, profiles, task.reading.inputs, task.reading.logits)
        called = _sigmoid(self._odds() + self._bonus())
        fed = self._fed_in_path()
        order = swapped_by_code(task.query, profiles, task.code_kinds, called, fed)
        self._evidence = self._evidence[order]
        self.called = without_siblings(task.query, profiles, task.code_kinds, called[order], fed)
        self.filler = Filler(task, self.called, judges)
        self._answers: Floats = _sigmoid(task.reading.logits["answer"])

    def _fed_in_path(self) -> list[bool]:
        """Whether the network rather takes an argument in a candidate's path from another call."""
        origins = softmax(self._task.reading.logits["source"]).argmax(axis=1)
        found = []
        for number, api in enumerate(self._task.apis):
            items = self._task.items(number, Kind.PARAMETER)
            in_path = (place for place, one in items if api.profile.slots[one.slot].parameter.location is Location.PATH)
            found.append(any(origins[place] == Origin.REFERENCE for place in in_path))
        return found

    def _odds(self) -> Floats:
        """Log-odds that each candidate is called."""
        if self._judges.calls is None:
            odds: Floats = self._task.reading.logits["call"][np.asarray(self._task.reading.inputs.first)]
            return odds
        likely = np.clip(self._judges.calls(self._evidence), _NEVER, 1 - _NEVER)
        judged: Floats = np.log(likely / (1 - likely))
        return judged

    def _bonus(self) -> Floats:
        """Log-odds that demos of similar requests add to each candidate."""
        similar = [self._task.hints.calls.get(one.profile.api.id, 0.0) for one in self._task.apis]
        return np.asarray([DEMONSTRATED * one for one in similar], np.float32)

    def chosen(self) -> list[int]:
        """The candidates to call.

        Without a judge of sets, each is decided by itself. A call that changes something needs at least ``CALLED``.
        """
        order, likely = self._weighed
        if likely is not None:
            return sorted(order[: int(likely.argmax())])
        least = [CALLED if self.changes(number) or place else ALONE for place, number in enumerate(order)]
        return sorted(number for number, enough in zip(order, least, strict=True) if self.called[number] >= enough)

    @property
    def probability_of_set(self) -> float:
        """Probability that the called set is right, without its suppliers; without a judge, that none is called."""
        likely = self._weighed[1]
        return 1 - float(self.called.max()) if likely is None else float(likely.max())

    @cached_property
    def _weighed(self) -> tuple[list[int], Floats | None]:
        order, evidence = self.sets()
        return order, None if self._judges.sets is None else self._judges.sets(evidence)

    def sets(self) -> tuple[list[int], Floats]:
        """The candidates that may be called, likeliest first; the evidence for calling the first 0, 1, 2 ..."""
        order = [number for number in np.argsort(-self.called, kind="stable").tolist() if self._allowed(number)]
        likeness = likeness_of(self._task.reading.inputs)
        sizes = softmax(self._task.reading.logits["size"])
        return order, set_evidence(self._evidence, self.called, likeness, order, sizes)

    def _allowed(self, number: int) -> bool:
        """Whether the request's words allow the change that the call would make."""
        return not self.changes(number) or may_be_meant(self._task.apis[number].profile, self._task.query)

    def calls(self, chosen: Sequence[int]) -> list[DraftCall]:
        """The calls of these candidates and of their suppliers, each after the calls it needs."""
        by_candidate: dict[int, list[DraftCall]] = {}
        waiting = list(chosen)
        while waiting:
            number = waiting.pop(0)
            if number in by_candidate:
                continue
            by_candidate[number] = self._calls_of(number, chosen)
            waiting += [need for call in by_candidate[number] for need in call.fed_by() if need not in by_candidate]
        add_look_ups(self._task, self.filler, by_candidate, lambda number: self._calls_of(number, [*chosen, number]))
        add_named_look_ups(self._task, self.filler, by_candidate)
        tell_old_from_new_values(self._task.query, self._task.apis, by_candidate)
        self._set_names(by_candidate)
        return in_running_order(by_candidate)

    def _set_names(self, by_candidate: Mapping[int, Sequence[DraftCall]]) -> None:
        """Tell of each call where the request has a word of its API's name that no other call's API has.

        If it has none, a word of its summary counts, then any word of its name: the file comes before its lines.
        """
        profiles = {number: self._task.apis[number].profile for number in by_candidate}
        said = name_parts(self._task.query[:MAX_CHARS])
        for number, calls in by_candidate.items():
            others = frozenset().union(*(one.title for other, one in profiles.items() if other != number))
            name = frozenset(stems(" ".join(split_name(profiles[number].api.name))))
            places = (
                [word.start for word in said if word.stem in own]
                for own in (name - others, profiles[number].title - others, name)
            )
            place = next((found[0] for found in places if found), math.inf)
            for call in calls:
                call.named = place

    @property
    def words(self) -> int:
        """The number of words in the request."""
        return len(self._task.query.split())

    def changes(self, number: int) -> bool:
        """Whether a candidate's call may change something."""
        return self._task.apis[number].profile.api.mutating

    def pair_end(self, call: DraftCall) -> Role | None:
        """The end of a pair that a call's values are in the request's words: "from Oslo", "to Rome"."""
        return self.end_at(min((start for start, _ in call.places), default=0))

    def end_at(self, start: int) -> Role | None:
        """The end of a pair that the words at a character of the request are, as the words before them tell."""
        found = _ENDS.search(self._task.query, max(start - _NEAR, 0), start)
        return None if found is None else "to" if found["to"] else "from"

    def is_period(self, place: tuple[int, int]) -> bool:
        """Whether the words at these characters are a period, which has a first and a last day."""
        moment = self.filler.moments.at(*place)
        return moment is not None and moment.last is not None

    def relevance(self, number: int) -> float:
        """The retriever's probability that a candidate is needed."""
        inputs = self._task.reading.inputs
        return float(inputs.features[inputs.first[number], RELEVANCE])

    def answers(self, number: int) -> list[Field]:
        """The fields of an API's answer that the request asks for, surest first, then other fields that it names."""
        profile = self._task.apis[number].profile
        places = self._task.items(number, Kind.OUTPUT)
        found = [(self._answers[place], profile.fields[item.field]) for place, item in places]
        said = [one for sure, one in sorted(found, key=lambda pair: -pair[0]) if sure >= ANSWERS]
        return [*said, *named_besides(self._task.query, profile, said)] if said else []

    def answers_of_last(self, number: int) -> list[Field]:
        """The same for a call that feeds no other: also what a question is about, such as the number of all items."""
        said, profile = self.answers(number), self._task.apis[number].profile
        states, counts = states_asked(self._task.query, profile), counts_asked(self._task.query, profile)
        if counts and not said:
            said = whole_answer_fields(profile)
            counts = counts if said else []  # otherwise the whole answer has them
        return list(dict.fromkeys([*states, *said, *counts]))

    def _calls_of(self, number: int, chosen: Sequence[int]) -> list[DraftCall]:
        """The calls of one API: as many as there are values, if it is called more than once."""
        profile = self._task.apis[number].profile
        first = self._task.reading.inputs.first[number]
        times = max(1 + int(self._task.reading.logits["count"][first].argmax()), len(self.filler.members(number)))
        calls = [DraftCall(number, float(self.called[number])) for _ in range(times)]
        taken: list[tuple[tuple[int, int], Slot]] = []
        fills: list[FillRequest] = []
        targets = self._clearest_first(number, times)
        parts = self.filler.segments(targets, times) if times > 1 else []
        for target in targets:
            checkpoint()
            slot = target.slot
            fills.append(FillRequest(target, profile, times, chosen, taken, parts))
            values = self.filler.values(fills[-1])
            for index, call in enumerate(calls):
                if values:
                    self._set_argument(call, slot, values[min(index, len(values) - 1)])
                elif slot.required:
                    call.missing.append(slot.name)
        order = [slot.name for slot in profile.slots]
        alone = not any(takes_limits(self._task.apis[other].profile) for other in chosen if other != number)
        for call in calls:
            split_full_name(call, profile, self._task.query)
            if number in chosen and times == 1 and alone:
                add_unmarked_ends(self.filler, self._task.query, call, fills)
            if number in chosen and times == 1:
                take_measures(self.filler, self._task.query, call, fills)
            take_goals(self.filler, self._task.query, call, fills)
            set_right_ends(self.filler, self._task.query, call, fills)
            add_other_ends(self.filler, self._task.query, call, fills)
            set_bounds(self.filler, self._task.query, call, fills)
            add_ends_by_length(self.filler, self._task.query, call, fills)
            drop_other_options(self._task.query, call, fills)
            call.arguments = {name: call.arguments[name] for name in order if name in call.arguments}
        return calls

    def _clearest_first(self, number: int, times: int) -> list[ParameterTarget]:
        """An API's parameters, sorted by how clear it is which words say them, clearest first.

        Weekdays are certain, and so are several numbers for what the path names.
        """
        several = len(self.filler.members(number)) > 1
        return sorted(
            self.filler.targets(number),
            key=lambda target: (
                not weekday_options(target.slot),
                not several or target.slot.parameter.location is not Location.PATH,
                -self.filler.best_span_probability(target, times),
            ),
        )

    @staticmethod
    def _set_argument(call: DraftCall, slot: Slot, value: Argument) -> None:
        call.arguments[slot.name] = value
        if isinstance(value, LiteralArgument) and value.place is not None:
            call.place = min(call.place, value.place[0])


def _sigmoid(logits: Floats) -> Floats:
    result: Floats = (1 / (1 + np.exp(-logits))).astype(np.float32)
    return result
