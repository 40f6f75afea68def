"""The rules backend: values, calls and references found by rules and one small encoder, without training."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from planner_svc.backends.rules.choose import Choice, Chooser, divide
from planner_svc.backends.rules.draft import draft
from planner_svc.backends.rules.fit import Fitter
from planner_svc.backends.rules.links import Links
from planner_svc.backends.rules.segments import segments
from planner_svc.evidence import Tried
from planner_svc.models import PlanDraft
from planner_svc.reading.choices import named_choices
from planner_svc.reading.context import given_values, read_clock
from planner_svc.reading.loops import looped
from planner_svc.reading.profile import Library, Profile
from planner_svc.reading.text import MAX_CHARS, stems, words_of
from planner_svc.reading.values import Span, find_spans
from services.compute import ComputePool
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import PlanRequest
from services.encoder import Encoder

MIN_CONFIDENCE = 0.55
EVEN = 0.5
SCALE = 2.0
"""A part is as likely answered as not where its utility is ``EVEN``; both were read off development questions."""
MAX_UTILITY = 100.0
MAX_CANDIDATES = 48
MAX_WORDS = 400
MAX_ALTERNATIVES = 4
DEMO_SIMILARITY = 0.75


class RulesBackend:
    """Plans without training and without a language model.

    It keeps nothing between requests but what it read of APIs and texts, bounded.
    """

    name = "rules"

    def __init__(self, encoder: Encoder, pool: ComputePool) -> None:
        self._library = Library(encoder)
        self._links = Links()
        self._pool = pool

    async def read(self, apis: Sequence[Api]) -> int:
        """Read APIs before a request has them as candidates."""
        return await self._pool.run(self._read, apis)

    def _read(self, apis: Sequence[Api]) -> int:
        return len([self._library.profile(api) for api in apis])

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan; see :class:`~planner_svc.backends.base.PlannerBackend`."""
        return await self._pool.run(self.draft, request)

    def draft(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan, on the calling thread."""
        if not request.candidates or not re.search(r"\w", request.query):
            return PlanDraft(None, 0.9, reason="Nothing in the catalogue fits this request.")
        now = read_clock(request.context)
        profiles = [self._library.profile(c.api) for c in request.candidates[:MAX_CANDIDATES] if not c.api.deprecated]
        spans = self._spans(request, now, profiles)
        found, parts, members = segments(request.query, request.clauses, spans)
        demonstrated, preferred = _demonstrated(request)
        chooser = Chooser(
            self._library,
            self._links,
            Fitter(self._library, now.tzinfo or UTC, profiles, given_values(request.context)),
            profiles,
            {c.api.id: c.clause_scores or (c.score,) * max(len(request.clauses), 1) for c in request.candidates},
            members,
            demonstrated,
            preferred,
            Tried(request.evidence),
        )
        return looped(_drafted(chooser, divide(chooser, found, parts)), request.query)

    def _spans(self, request: PlanRequest, now: datetime, profiles: Sequence[Profile]) -> list[Span]:
        """The request's values; acronyms that the APIs' own descriptions use are words, not values."""
        american = (request.context.locale or "").replace("_", "-").endswith("-US")
        text = request.query[:MAX_CHARS]
        jargon = frozenset(word for profile in profiles for word in profile.jargon)
        spans = [s for s in find_spans(text, now, month_first=american) if not _is_jargon(s, text, jargon)]
        known = frozenset(word for profile in profiles for word in profile.vocabulary)
        spans = [
            s for s in spans if s.unit != "noun" or stems(s.text)[-1:] != [*known.intersection(stems(s.text)[-1:])]
        ]
        choices = _choices(profiles, text)
        spans = [s for s in spans if s.kind not in ("phrase", "name") or not any(s.overlaps(c) for c in choices)]
        return [*choices, *(replace(s, kind="thing") if _is_thing(s, known) else s for s in spans)]


def _is_jargon(span: Span, text: str, jargon: frozenset[str]) -> bool:
    counted = re.search(r"\d\s*$", text[max(span.start - 3, 0) : span.start]) is not None
    return span.kind == "code" and span.text in jargon and not counted


def _choices(profiles: Sequence[Profile], text: str) -> list[Span]:
    """Where the request names one of the values that some required argument lists, such as a unit."""
    words = words_of(text)[:MAX_WORDS]
    found: dict[tuple[int, int], Span] = {}
    for profile in profiles:
        for slot in profile.slots:
            if slot.required and slot.choices and slot.kinds != {"array"}:
                for named in named_choices(slot, words):
                    place = (named.start, named.end)
                    found.setdefault(place, Span("choice", *place, text[slice(*place)], named.value))
    return list(found.values())


def _is_thing(span: Span, known: frozenset[str]) -> bool:
    return span.kind == "phrase" and not known.intersection(stems(span.text))


def _demonstrated(request: PlanRequest) -> tuple[dict[str, float], frozenset[tuple[str, str]]]:
    """What similar demos show: a bonus for each API, and which API feeds which. Demos with other APIs are left out."""
    known = {candidate.api.id for candidate in request.candidates}
    bonus: dict[str, float] = {}
    pairs: set[tuple[str, str]] = set()
    for selected in request.demos:
        steps = {step.id: step for step in selected.demo.plan.steps}
        if selected.similarity < DEMO_SIMILARITY or not set(selected.demo.apis) <= known:
            continue
        sinks = {o.value.step for o in selected.demo.plan.answer} & steps.keys()
        for step_id in sinks:
            api = steps[step_id].api
            bonus[api] = max(bonus.get(api, 0.0), 0.2 * selected.similarity)
        for step in steps.values():
            for value in step.arguments.values():
                if value.kind == "reference" and value.step in steps:
                    pairs.add((steps[value.step].api, step.api))
    return bonus, frozenset(pairs)


def _drafted(chooser: Chooser, ranked: list[list[Choice]]) -> PlanDraft:
    best = [choices[0] for choices in ranked]
    confidence = min((confidence_of(choices) for choices in ranked), default=0.0)
    if not best or confidence < MIN_CONFIDENCE:
        return PlanDraft(None, 1 - confidence, reason="Nothing in the catalogue fits this request.")
    plan, missing = draft(best, chooser.answerer)
    alternatives: list[Plan] = []
    weakest = sorted(range(len(ranked)), key=lambda index: confidence_of(ranked[index]))
    for index in weakest:
        for other in ranked[index][1:3]:
            if len(alternatives) < MAX_ALTERNATIVES and confidence_of([other]) >= MIN_CONFIDENCE:
                alternatives.append(draft([*best[:index], other, *best[index + 1 :]], chooser.answerer)[0])
    return PlanDraft(plan, confidence, missing, alternatives=tuple(alternatives))


def confidence_of(choices: Sequence[Choice]) -> float:
    """How likely the first choice is what was asked for: what speaks for it are log-odds, but for a scale."""
    first = choices[0]
    if not first.explained:
        return 0.0
    return 1 / (1 + math.exp((EVEN - min(max(first.utility, -MAX_UTILITY), MAX_UTILITY)) / SCALE))
