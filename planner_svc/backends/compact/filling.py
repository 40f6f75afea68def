"""Fills each parameter: from the request's words, an option or another call's answer, as its schema requires."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final

import numpy as np
from pydantic import JsonValue

from planner_svc.backends.compact.amounts import NUMBERS, amount_meant, ids_named, with_ids_between
from planner_svc.backends.compact.draft_calls import Argument, LiteralArgument, ReferenceArgument
from planner_svc.backends.compact.forms import OF_TIME, Form, number_written, written
from planner_svc.backends.compact.inputs import Floats, Origin, softmax
from planner_svc.backends.compact.items import Kind
from planner_svc.backends.compact.links import LinkCandidate, link_evidence
from planner_svc.backends.compact.options import Options
from planner_svc.backends.compact.outputs import Outputs
from planner_svc.backends.compact.said_moments import Place, SaidMoments
from planner_svc.backends.compact.second_stage import Judges
from planner_svc.backends.compact.segments import segments
from planner_svc.backends.compact.spans import ParameterTarget, Spans, as_in_examples
from planner_svc.backends.compact.taken import may_share, non_overlapping, overlaps, says_no_more
from planner_svc.backends.compact.task import UNLIKELY, FillRequest, Task
from planner_svc.reading.code_kinds import thing_of
from planner_svc.reading.date_formats import date_formats, in_stated_format, is_no_clock
from planner_svc.reading.enumerations import complete_enumeration
from planner_svc.reading.moments import Moment
from planner_svc.reading.negations import denied
from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.quantities import quantities
from planner_svc.reading.readings import moment_of, readings
from planner_svc.reading.standard_codes import code_named, may_be_code
from planner_svc.reading.tense import tells_of_past
from planner_svc.reading.text import MAX_CHARS, stem, stem_set, stems
from planner_svc.reading.timestamps import as_stamp, is_stamp, stamp_of
from planner_svc.reading.units import unit_of
from planner_svc.reading.values import number_in_context
from planner_svc.reading.weekdays import named_weekdays
from planner_svc.reading.withdrawn import TakenBack
from services.contracts.api import Location

SUPPOSED: Final = 0.1
"""Limit for guesses: if no source gives a required value, other APIs that only read and are at least this likely are
assumed to be called. An output of theirs is used if it is at least this likely to be the value."""
REPEATED: Final = 0.1
"""Smallest share of the likeliest words' probability at which other words are values too, or are tried instead."""
OF_DATES: Final = stem_set("date day time week weekday month year quarter season hour minute age")
"""Words of arguments that take a part of a date."""
_NOUN_BEFORE: Final = re.compile(r"(?:the\s+)?(?P<noun>[a-z]+)\s+(?=[A-Z])")
LENGTHS: Final = stem_set("duration length lasting timeout interval period ttl age delay")
"""Words of arguments that take a length of time."""
WHERE: Final = frozenset({"timezone", "locale"})
"""Arguments for which the application's value describes the user rather than the request."""
LIKELY: Final = 0.5
"""Likelier than not: APIs whose parameters compete for words, and references for what a change can do without."""


class Filler:
    """Fills the parameters of a task's APIs.

    Args:
        task: what to decode.
        called: how likely each candidate is called.
        judges: the second stage.
    """

    def __init__(self, task: Task, called: Floats, judges: Judges) -> None:
        self._task, self._called, self._judges = task, called, judges
        self._calling = np.flatnonzero(called >= LIKELY).tolist()
        logits = task.reading.logits
        self._sources: Floats = softmax(logits["source"])
        self._outputs = Outputs(task, called, self._sources)
        self.spans = Spans(
            task.query,
            task.reading.offsets,
            softmax(logits["start"]),
            softmax(logits["end"]),
            self._sources,
            [target for number in self._calling for target in self.targets(number)],
        )
        self._weighed: dict[int, list[tuple[tuple[int, int], float]]] = {}
        self._enumerated: dict[int, list[tuple[str, Place]]] = {}
        self._options = Options(task)
        self.moments = SaidMoments(task.query[:MAX_CHARS], task.now)
        self._amounts = quantities(task.query)
        self._taken_back = TakenBack(task.query)

    def targets(self, number: int) -> list[ParameterTarget]:
        """The parameters of the candidate with this number."""
        profile = self._task.apis[number].profile
        slots, shown = profile.slots, self._task.hints.values
        others = (self._task.apis[other].profile.fields for other in self._calling if other != number)
        answered = {output.words for fields in others for output in fields}
        found = self._task.items(number, Kind.PARAMETER)
        asked = ((place, slots[item.slot]) for place, item in found)
        return [
            ParameterTarget(number, place, slot, slot.words in answered, shown.get((profile.api.id, slot.name), ()))
            for place, slot in asked
        ]

    def best_span_probability(self, target: ParameterTarget, times: int) -> float:
        """The probability of the likeliest words for a parameter of an API that is called ``times`` times."""
        return max((likely for _, likely in self._spans_of(target, times)), default=0.0)

    def members(self, number: int) -> list[tuple[str, Place]]:
        """The things that an enumeration or range names for the only argument that takes one of them, with places."""
        if number not in self._enumerated:
            profile = self._task.apis[number].profile
            found = [members for one in self.targets(number) if (members := self._members(one, profile))]
            self._enumerated[number] = found[0] if len(found) == 1 else []
        return self._enumerated[number]

    def _members(self, target: ParameterTarget, profile: Profile) -> list[tuple[str, Place]]:
        """What is enumerated with an argument's likeliest words, and they: ids in the path, codes or addresses.

        Of "A-1 or A-2" a change means only one.
        """
        slot, spans = target.slot, self._spans_of(target, 1)
        lists = slot.kinds == {"array"} or (slot.said.endswith("s") and not slot.said.endswith("ss"))
        if lists or slot.temporal or slot.choices or not spans or spans[0][1] < REPEATED:
            return []
        (first, last), _ = spans[0]
        offsets = self._task.reading.offsets
        members = ids_named(self._task.query, (offsets[first][0], offsets[last][1]))
        numbers = all(text.isdecimal() for text, _ in members)
        fits = slot.parameter.location is Location.PATH if numbers else not slot.kinds & NUMBERS
        whole = self._task.query[members[0][1][0] : members[-1][1][1]] if members else ""
        return members if fits and not (profile.api.mutating and "or" in whole.split()) else []

    def _spans_of(self, target: ParameterTarget, times: int) -> list[tuple[tuple[int, int], float]]:
        """First and last tokens of a parameter's possible values, each with its probability, likeliest first."""
        if target.place not in self._weighed:
            found = self.spans.candidates(target, times)
            if self._judges.spans is not None and found:
                likely = self._judges.spans(self.spans.evidence(target, found))
            else:
                likely = np.asarray([self.spans.likely(target.place)[span] for span in found])
            weighed = zip(found, likely.tolist(), strict=True)
            self._weighed[target.place] = sorted(weighed, key=lambda one: -one[1])
        return self._weighed[target.place]

    def values(self, fill: FillRequest) -> list[Argument]:
        """The values of a parameter: one for each call that has its own, or one for all.

        A value that the application knows is used if the request says none. Facts about the user (``WHERE``) fill
        required parameters only. A required value that is still missing may be looked up.
        """
        found = self._weekdays(fill) or self._found(fill)
        known = self._task.given.get(fill.slot.name)
        if (
            not found
            and known is not None
            and fill.allows(known)
            and (fill.slot.required or fill.slot.name not in WHERE)
        ):
            return [LiteralArgument(known, None, 1.0)]
        return found or (self._looked_up(fill) if fill.slot.required else [])

    def _weekdays(self, fill: FillRequest) -> list[Argument]:
        """The weekdays that the request names, if the parameter takes a list of them, one, or one for each call."""
        days, places = named_weekdays(fill.profile, fill.slot, self._task.query)
        if not days or not (fill.listed or len(days) in (1, fill.times)):
            return []
        values: list[JsonValue] = [days] if fill.listed else days
        if not all(map(fill.allows, values)):
            return []
        self._take(fill, places)
        return [LiteralArgument(value, None, 1.0) for value in values]

    def _take(self, fill: FillRequest, places: Iterable[tuple[int, int]]) -> None:
        """Mark the tokens at these characters as words that say the parameter."""
        offsets = self._task.reading.offsets
        said = (at for at, (a, b) in enumerate(offsets) for start, end in places if a < end and start < b)
        fill.taken.extend(((at, at), fill.slot) for at in said)

    def _found(self, fill: FillRequest) -> list[Argument]:
        """The values that the request or another call gives."""
        links = self.links(fill.target, fill.times, fill.chosen)
        slot, origins = fill.slot, self._origins(fill, links)
        if slot.kinds == {"boolean"} and (place := denied(fill.profile, slot, self._task.query)):
            return [LiteralArgument(False, place, 1.0)] if fill.allows(False) else []
        for origin in map(Origin, np.argsort(-origins)):
            sure = float(origins[origin])
            if origin is Origin.ABSENT and not slot.required:
                return []
            guessed = origin is Origin.REFERENCE and fill.profile.api.mutating and not slot.required and sure < LIKELY
            if origin is Origin.ABSENT or sure < UNLIKELY or guessed:
                continue
            found = list(self._from(origin, fill, links, sure))
            if found:
                return found
        return []

    def _looked_up(self, fill: FillRequest) -> list[Argument]:
        """An output of a call that is too unlikely by itself, but likely once its answer is needed.

        A call that changes something never gets such a guess: the user is asked.
        """
        apis = self._task.apis
        if fill.profile.api.mutating:
            return []
        likely = [n for n, api in enumerate(apis) if self._called[n] >= SUPPOSED and not api.profile.api.mutating]
        links = self.links(fill.target, fill.times, [*fill.chosen, *likely])
        return [reference_argument(fill.slot, one, sure) for one, sure in links[:1] if sure >= SUPPOSED]

    def _origins(self, fill: FillRequest, links: Sequence[tuple[LinkCandidate, float]]) -> Floats:
        """Probabilities of a value's source. The second stage, if any, overrides the network for words and links."""
        origins = self._sources[fill.place].copy()
        judged = np.zeros_like(origins)
        if self._judges.spans is not None:
            judged[Origin.SPAN] = self.best_span_probability(fill.target, fill.times)
            origins[Origin.SPAN] = 0
        if self._judges.links is not None:
            judged[Origin.REFERENCE] = max((likely for _, likely in links), default=0.0)
            origins[Origin.REFERENCE] = 0
        judged /= max(1.0, float(judged.sum()))
        result: Floats = judged + origins * (1 - judged.sum()) / max(float(origins.sum()), UNLIKELY)
        return result

    def _from(
        self, origin: Origin, fill: FillRequest, links: Sequence[tuple[LinkCandidate, float]], sure: float
    ) -> Iterator[Argument]:
        if origin is Origin.SPAN:
            yield from self._spans(fill, sure)
        elif origin is Origin.OPTION:
            yield from self._options.values(fill, sure)
        elif origin is Origin.REFERENCE:
            yield from (reference_argument(fill.slot, one, sure) for one, _ in links[:1])
        elif fill.slot.kinds == {"boolean"}:
            yield LiteralArgument(origin is Origin.TRUE, None, sure)

    def segments(self, targets: Sequence[ParameterTarget], times: int) -> list[tuple[int, int]]:
        """The tokens of each of several calls of one API; empty if the calls cannot be told apart."""
        weighed = [
            self._spans_of(target, times)
            for target in targets
            if target.slot.kinds != {"array"} and self._sources[target.place][Origin.SPAN] >= UNLIKELY
        ]
        free = [non_overlapping([one for one in spans if one[1] >= spans[0][1] * REPEATED]) for spans in weighed]
        return segments([spans for spans in free if spans], times)

    def _spans(self, fill: FillRequest, sure: float) -> Iterator[LiteralArgument]:
        """The likeliest words that are a valid value; if there are several values, all likely ones, in order."""
        if not fill.listed and (found := self._by_member(fill, sure) or self._by_call(fill, sure)):
            yield from found
            return
        several = fill.listed or fill.times > 1
        said: list[LiteralArgument] = []
        for first, last, likely in self._ranges(fill):
            one = self._literal_argument(fill, first, last, sure * likely)
            if one is not None:
                said.append(one)
                if not several:
                    break
        said.sort(key=lambda one: one.place or (0, 0))
        if not fill.listed:
            yield from said
            return
        said = with_ids_between(self._task.query, fill.slot, self._with_missing_members(fill, said))
        said = [one for one in said if not self._taken_back.excepts(str(one.value)) or not fill.profile.api.mutating]
        values = [one.value for one in said]
        if any(isinstance(value, str) for value in values):
            values = list({str(value): value for value in values}.values())
        if said and fill.allows(values):
            yield LiteralArgument(values, said[0].place, min(one.sure for one in said))

    def _literal_argument(self, fill: FillRequest, first: int, last: int, sure: float) -> LiteralArgument | None:
        """The value of these tokens, which other parameters of the call then avoid; None if it is not allowed."""
        start, end = self._task.reading.offsets[first][0], self._task.reading.offsets[last][1]
        value = self.meaning(fill, start, end)
        if value is None:
            return None
        fill.taken.append(((first, last), fill.slot))
        return LiteralArgument(value, (start, end), sure)

    def _by_member(self, fill: FillRequest, sure: float) -> list[LiteralArgument]:
        """What each call is made for, if the request names as many things as there are calls."""
        own = fill.times > 1 and not fill.listed and self._members(fill.target, fill.profile)
        members = self.members(fill.target.number) if own else []
        values: list[JsonValue] = [int(text) if fill.slot.kinds & NUMBERS else text for text, _ in members]
        if len(members) != fill.times or not all(map(fill.allows, values)):
            return []
        self._take(fill, [place for _, place in members])
        sure *= self.best_span_probability(fill.target, 1)
        return [LiteralArgument(value, place, sure) for value, (_, place) in zip(values, members, strict=True)]

    def _by_call(self, fill: FillRequest, sure: float) -> list[LiteralArgument]:
        """The likeliest words in each call's segment, or the previous call's; empty if fewer than 2 have any."""
        if not fill.segments:
            return []
        ranges = self._ranges(fill)
        own = [[one for one in ranges if start <= one[0] < stop] for start, stop in fill.segments]
        if sum(map(bool, own)) < 2:
            return []
        found: list[LiteralArgument] = []
        for parts in own:
            said = (self._literal_argument(fill, first, last, sure * likely) for first, last, likely in parts)
            current = next((one for one in said if one is not None), None) or (found[-1] if found else None)
            if current is not None:
                found.append(current)
        return found

    def _with_missing_members(self, fill: FillRequest, said: Sequence[LiteralArgument]) -> list[LiteralArgument]:
        """The values and the missing members of their enumeration: a list that takes one member takes all."""
        known = {one.place: one for one in said if one.place is not None}
        found = list[LiteralArgument]()
        for start, end in complete_enumeration(self._task.query, list(known)):
            if self._is_without(fill, start, end):
                continue
            value = None if (start, end) in known else self.meaning(fill, start, end)
            if (start, end) in known:
                found.append(known[start, end])
            elif value is not None:
                self._take(fill, [(start, end)])
                found.append(LiteralArgument(value, (start, end), min(one.sure for one in said)))
        return found

    def meaning(self, fill: FillRequest, start: int, end: int) -> JsonValue:
        """The words as a value, in the parameter's usual form; None if that value is not allowed."""
        start = _after_noun(fill, self._task.query, start, end)
        text = self._task.query[start:end]
        if self._is_of_a_date(fill, start, end) or self._is_of_another_kind(fill, text):
            return None
        code = code_named(fill.slot, text)
        if code is not None and fill.allows([code] if fill.listed else code):
            return code
        form = self._form(fill)
        try:
            amount = amount_meant(self._task.query, self._amounts, fill.slot, start, end)
        except ValueError:
            return None
        amount = None if fill.listed else amount
        formats = date_formats(fill.slot.parameter.description)
        stamp, side = stamp_of(fill.slot), self.moments.side(start)
        last = fill.slot.role == "to" if side is None else side == "after"
        dated = fill.slot.temporal or bool(formats) or form in OF_TIME or stamp is not None
        moment = self._moment(fill.slot, start, end, whole=stamp is not None) if dated else None
        if stamp is not None and moment is not None:
            at = as_stamp(stamp, moment, self._task.now.tzinfo or UTC, last=last)
            if at is not None:
                return at if fill.allows(at) else None
        meant = readings(fill.profile, fill.slot, text, self._task.now, moment)
        read = meant[0] if meant else None
        if moment is not None and read in in_stated_format(moment.last_day() if last else moment, formats):
            return read
        value: JsonValue = None
        if amount is not None and not isinstance(read, bool):
            value = amount if isinstance(amount, str) else number_written(form, amount)
        elif isinstance(read, int | float) and not isinstance(read, bool):
            value = number_written(form, number_in_context(self._task.query, start, end, fill.slot.words, read))
        elif (
            fill.slot.kinds & {"string", "array"} and not fill.slot.choices and (read is None or isinstance(read, str))
        ):
            value = as_in_examples(fill.target, written(form, text, self._task.now, moment, last=last))
        if not (is_stamp(stamp, read) and may_be_code(fill.slot, text)):
            return None
        if is_no_clock(text, formats, moment):
            return None
        allowed = value is not None and fill.allows([value] if fill.listed else value)
        return value if allowed else read if amount in (None, read) else None

    def _is_of_another_kind(self, fill: FillRequest, text: str) -> bool:
        """Whether a text is the id of another kind of thing than the argument takes, or a name where it takes ids."""
        thing, kinds = thing_of(fill.profile, fill.slot), self._task.code_kinds
        return kinds.is_of_another(thing, text) or kinds.is_no_id(thing, text)

    def _is_of_a_date(self, fill: FillRequest, start: int, end: int) -> bool:
        """Whether a number is only a part of a date that another argument takes: the year of "the end of June 2027"."""
        slot = fill.slot
        takes_parts = not (OF_DATES.isdisjoint({*slot.words, *slot.about}) or _is_length(slot))
        if slot.temporal or not slot.kinds & {"integer", "number"} or takes_parts:
            return False
        return any(one.temporal for one in fill.profile.slots) and self.moments.has_part(start, end)

    def _moment(self, slot: Slot, start: int, end: int, *, whole: bool) -> Moment | None:
        """The moment that the words say for an argument: of what is over, rather the last one than one to come.

        Words that are a part of a moment, such as its time of day, are it by themselves.
        """
        moment = self.moments.at(start, end, whole=whole) or moment_of(self._task.query[start:end], self._task.now)
        return self.moments.over(moment, start, end) if tells_of_past(slot.parameter.description) else moment

    def _form(self, fill: FillRequest) -> Form:
        """How the parameter's values are written: as in a demo, otherwise as the network predicts."""
        shown = self._task.hints.forms.get((fill.profile.api.id, fill.slot.name))
        if shown is not None:
            return shown
        odds = self._task.reading.logits["form"][fill.place].copy()
        if "number" not in fill.slot.kinds:
            odds[Form.DECIMAL] = -np.inf
        return Form(int(odds.argmax()))

    def _ranges(self, fill: FillRequest) -> list[tuple[int, int, float]]:
        """First and last tokens of values, likeliest first, down to ``REPEATED``, without overlaps.

        The words of another argument of the call are no value, unless both may share them or more words are said; if
        so, other words are likelier.
        """
        query, offsets = self._task.query, self._task.reading.offsets
        taken = [span for span, _ in fill.taken]
        others = [span for span, slot in fill.taken if slot is not fill.slot and not may_share(fill.slot, slot)]
        weighed: list[tuple[tuple[int, int], float]] = []
        likeliest = 0.0
        for span, likely in self._spans_of(fill.target, fill.times):
            is_anothers = any(says_no_more(query, offsets, span, other) for other in others)
            weight = likely if is_anothers or not overlaps(span, taken) else likely * UNLIKELY
            likeliest = max(likeliest, weight)
            if not is_anothers and not self._is_taken_back(fill, *span):
                weighed.append((span, weight))
        weighed.sort(key=lambda one: -one[1])
        return non_overlapping([one for one in weighed if one[1] >= likeliest * REPEATED])

    def _is_taken_back(self, fill: FillRequest, first: int, last: int) -> bool:
        """Whether the request replaces these tokens, or excepts what they name from a change."""
        offsets = self._task.reading.offsets
        return self._is_without(fill, offsets[first][0], offsets[last][1])

    def _is_without(self, fill: FillRequest, start: int, end: int) -> bool:
        named = fill.profile.api.mutating and (fill.listed or fill.slot.parameter.location is Location.PATH)
        return self._taken_back.covers(start, end, named=named)

    def links(self, target: ParameterTarget, times: int, chosen: Sequence[int]) -> list[tuple[LinkCandidate, float]]:
        """Outputs of other called or likely APIs, with their probability of being the value, likeliest first."""
        candidates = self.link_candidates(target, chosen)
        if self._judges.links is None or not candidates:
            return [(one, 0.0) for one in candidates]
        likely = self._judges.links(self.link_evidence(target, times, candidates))
        return sorted(zip(candidates, likely.tolist(), strict=True), key=lambda one: -one[1])

    def link_evidence(self, target: ParameterTarget, times: int, candidates: Sequence[LinkCandidate]) -> Floats:
        """The evidence for and against each of the outputs."""
        said_here = self.best_span_probability(target, times)
        return link_evidence(target.slot, self._sources[target.place], said_here, candidates)

    def link_candidates(self, target: ParameterTarget, chosen: Sequence[int]) -> list[LinkCandidate]:
        """The likeliest outputs by the network, strongest first."""
        return self._outputs.candidates(target, chosen)


def _after_noun(fill: FillRequest, query: str, start: int, end: int) -> int:
    """Where a name begins: after the word for the kind of thing in "office Harbour House"."""
    before = _NOUN_BEFORE.match(query, start, end) if fill.slot.samples else None
    return before.end() if before is not None and stem(before["noun"]) in stems(fill.profile.noun) else start


def _is_length(slot: Slot) -> bool:
    """Whether an argument takes a length of time: "tonight at 8" is no duration of 8 minutes."""
    unit = unit_of(slot)
    return unit is not None and unit.kind == "time" and not LENGTHS.isdisjoint(slot.words)


def reference_argument(slot: Slot, candidate: LinkCandidate, sure: float) -> ReferenceArgument:
    """An output as the value of a parameter, with its probability."""
    end = tuple(word for word in slot.words if word not in candidate.output.words)
    return ReferenceArgument(candidate.api, candidate.output, sure, end, slot.role)
