"""What speaks for the word of one planner and against it, seen beside the word of another one.

Neither planner sees what the other says, nor how its own plan looks from outside: whether the request's words are
accounted for, for example. What the retriever thinks of the APIs is left out: it differs more between catalogues than
between right plans and wrong ones.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from planner_svc.cascade import Word
from planner_svc.reading.actions import asks_for_action
from planner_svc.reading.profile import read_profile, words_of_api
from planner_svc.reading.text import MAX_CHARS, stems
from services.contracts.api import Api
from services.contracts.evidence import written_call, written_calls
from services.contracts.plan import Plan, scalars, step_references
from services.contracts.planning import PlanRequest

OWN: Final = (
    "plans",
    "asks",
    "refuses",
    "sure of a plan",
    "sure of a question",
    "sure of a refusal",
    "second choice",
    "calls",
    "calls that change something",
    "values said",
    "values of other words than the request's",
    "values from calls",
    "questions",
    "calls inserted",
    "words unaccounted for",
)
"""Of each planner's word."""
BOTH: Final = (
    "both plan",
    "both refuse",
    "same plan",
    "same APIs",
    "APIs in common",
    "calls in common",
    "clauses",
    "words",
    "asks for a change",
)
"""Of the two together, and of the request."""
_MAX_WORDS: Final = 400
_SURE: Final = 1e-4


def signs_of(request: PlanRequest, words: Sequence[Word | None]) -> tuple[float, ...]:
    """The signs of what was said: ``OWN`` for each of the words, one after the other, then ``BOTH``.

    Args:
        request: what was asked for.
        words: of two planners, always in the same order; None: it said nothing.
    """
    said = frozenset(stems(request.query[:MAX_CHARS])[:_MAX_WORDS])
    known = {one.api.id: one.api for one in request.candidates}
    own = [sign for word in words for sign in _own(word, request, said, known)]
    first, second = (_plan(word) for word in words)
    refused = [word is None or word.plan is None for word in words]
    return (
        *own,
        float(not any(refused)),
        float(all(refused)),
        *_alike(first, second),
        math.log1p(len(request.clauses)),
        math.log1p(len(said)),
        float(asks_for_action(request.query[:MAX_CHARS])),
    )


def _own(word: Word | None, request: PlanRequest, said: frozenset[str], known: dict[str, Api]) -> tuple[float, ...]:
    if word is None:
        return (0.0,) * len(OWN)
    response, plan = word.response, word.plan
    plans, asks = word.outcome in ("planned", "denied"), word.outcome == "needs_input"
    kinds = (float(plans), float(asks), float(word.outcome == "no_plan"))
    sure = _odds(word.sure)
    steps = plan.steps if plan is not None else ()
    called = [known[step.api] for step in steps if step.api in known]
    literals = _literals(plan) if plan is not None else []
    folded = request.query.casefold()
    return (
        *kinds,
        *(kind * sure for kind in kinds),
        float(word.rank > 0),
        float(len(steps)),
        float(sum(one.mutating for one in called)),
        math.log1p(len(literals)),
        math.log1p(sum(text.casefold() not in folded for text in literals)),
        math.log1p(sum(1 for step in steps for _ in step_references(step))),
        float(len(response.questions)),
        float(len(response.compiled.proof.inserted)) if response.compiled is not None else 0.0,
        _unaccounted(said, literals, called),
    )


def _alike(first: Plan | None, second: Plan | None) -> tuple[float, float, float, float]:
    """Whether two plans are the same, call the same APIs; and which share of APIs and of calls is in both."""
    if first is None or second is None:
        return (0.0,) * 4
    apis = [frozenset(step.api for step in plan.steps) for plan in (first, second)]
    calls = [calls_of(plan) for plan in (first, second)]
    return (
        float(calls[0] == calls[1]),
        float(apis[0] == apis[1]),
        len(apis[0] & apis[1]) / len(apis[0] | apis[1]),
        (calls[0] & calls[1]).total() / (calls[0] | calls[1]).total(),
    )


def calls_of(plan: Plan) -> Counter[str]:
    """A plan's calls as texts, whatever its steps are called and in which order they stand."""
    arguments = written_calls(plan)
    return Counter(written_call(step.api, arguments[step.id]) for step in plan.steps)


def _unaccounted(said: frozenset[str], literals: Sequence[str], apis: Sequence[Api]) -> float:
    """Share of the request's words that neither values nor what is called account for.

    What a call answers with counts: who asks for allergies asks for a field of an answer, at whatever depth.
    """
    if not said:
        return 0.0
    known = {stem for text in literals for stem in stems(text[:MAX_CHARS])}
    return len(said.difference(known, *(words_of_api(read_profile(api)) for api in apis))) / len(said)


def _literals(plan: Plan) -> list[str]:
    said = (one for step in plan.steps for value in step.arguments.values() for one in scalars(value))
    return [str(one) for one in said if one is not None and not isinstance(one, bool)]


def _plan(word: Word | None) -> Plan | None:
    return word.plan if word is not None else None


def _odds(probability: float) -> float:
    sure = min(max(probability, _SURE), 1 - _SURE)
    return math.log(sure / (1 - sure))
