"""Signs for and against a planner's answer.

A planner does not check its plan as a whole, for example whether the plan accounts for all words of the request. The
retriever's scores of the APIs are left out: they differ more between catalogues than between right and wrong plans.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from planner_svc.cascade import BackendAnswer
from planner_svc.reading.actions import asks_for_action
from planner_svc.reading.leaves import flat, has
from planner_svc.reading.profile import Slot, profile_of, words_of_api
from planner_svc.reading.text import MAX_CHARS, stems
from services.contracts.api import Api
from services.contracts.plan import Plan, Step, scalars, step_references
from services.contracts.planning import PlanRequest

SIGNS: Final = (
    "plans",
    "asks",
    "refuses",
    "sure of a plan",
    "sure of a question",
    "sure of a refusal",
    "calls",
    "calls that change something",
    "values said",
    "values of other words than the request's",
    "values from calls",
    "questions",
    "calls inserted",
    "words unaccounted for",
    "clauses",
    "words",
    "asks for a change",
    "arguments left out that are named",
    "arguments left out an option of which is named",
    "words unaccounted for but by arguments left out",
)
"""Signs of a planner's answer, and of the request."""
_MAX_WORDS: Final = 400
_MAX_CHOICES: Final = 200
_SURE: Final = 1e-4


def signs_of(request: PlanRequest, answer: BackendAnswer) -> tuple[float, ...]:
    """The signs of an answer; ``SIGNS`` names them."""
    said = frozenset(stems(request.query[:MAX_CHARS])[:_MAX_WORDS])
    known = {one.api.id: one.api for one in request.candidates}
    response, plan = answer.response, answer.plan
    plans, asks = answer.outcome in ("planned", "denied"), answer.outcome == "needs_input"
    kinds = (float(plans), float(asks), float(answer.outcome == "no_plan"))
    sure = _odds(answer.own_confidence)
    steps = plan.steps if plan is not None else ()
    called = [known[step.api] for step in steps if step.api in known]
    left_out = [one for step in steps if step.api in known for one in _left_out(step, known[step.api])]
    literals = _literals(plan) if plan is not None else []
    folded = request.query.casefold()
    return (
        *kinds,
        *(kind * sure for kind in kinds),
        float(len(steps)),
        float(sum(one.mutating for one in called)),
        math.log1p(len(literals)),
        math.log1p(sum(text.casefold() not in folded for text in literals)),
        math.log1p(sum(1 for step in steps for _ in step_references(step))),
        float(len(response.questions)),
        float(len(response.compiled.proof.inserted)) if response.compiled is not None else 0.0,
        _unaccounted(said, literals, called),
        math.log1p(len(request.clauses)),
        math.log1p(len(said)),
        float(asks_for_action(request.query[:MAX_CHARS])),
        math.log1p(sum(said.issuperset(slot.words) for slot in left_out)),
        math.log1p(sum(_is_named(slot, said) for slot in left_out)),
        _unaccounted(said, literals, called, left_out),
    )


def _left_out(step: Step, api: Api) -> Iterator[Slot]:
    """The arguments that a call could have but lacks, such as a status if open tickets are asked for."""
    for slot in flat(profile_of(api)).slots:
        if slot.words and not slot.paging and not has(step.arguments, slot.path or (slot.name,)):
            yield slot


def _is_named(slot: Slot, said: frozenset[str]) -> bool:
    """Whether the request contains all words of one of its options."""
    options = (stems(str(choice)[:MAX_CHARS]) for choice in slot.choices[:_MAX_CHOICES])
    return any(words and said.issuperset(words) for words in options)


def _unaccounted(
    said: frozenset[str], literals: Sequence[str], apis: Sequence[Api], left_out: Sequence[Slot] = ()
) -> float:
    """Share of the request's words that neither values nor the called APIs account for.

    Fields of answers count, at any depth: a request for allergies asks for such a field. Arguments that are left out do
    not count, unless the same word is a value, in the call's name, or a field of its answer.
    """
    if not said:
        return 0.0
    profiles = [profile_of(api) for api in apis]
    known = {stem for text in literals for stem in stems(text[:MAX_CHARS])}
    unused = {word for slot in left_out for word in (*slot.words, *_words_of_options(slot))}
    unused -= known.union(*(one.title for one in profiles), *(field.words for one in profiles for field in one.fields))
    return len(said.difference(known, *map(words_of_api, profiles)) | (said & unused)) / len(said)


def _words_of_options(slot: Slot) -> Iterator[str]:
    for choice in slot.choices[:_MAX_CHOICES]:
        yield from stems(str(choice)[:MAX_CHARS])


def _literals(plan: Plan) -> list[str]:
    said = (one for step in plan.steps for value in step.arguments.values() for one in scalars(value))
    return [str(one) for one in said if one is not None and not isinstance(one, bool)]


def _odds(probability: float) -> float:
    sure = min(max(probability, _SURE), 1 - _SURE)
    return math.log(sure / (1 - sure))
