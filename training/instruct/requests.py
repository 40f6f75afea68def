"""Reads and checks requests with their calls that a model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, Literal

from pydantic import JsonValue

from evals.recording import instance_row
from planner_svc.backends.served.reply import ReplyError, read_reply
from planner_svc.compile import compile_plan
from planner_svc.reading.dates import DateReader
from planner_svc.reading.moments import Moment
from planner_svc.reading.numbers import DIGITS, NUMBER_WORD, number
from planner_svc.reading.renderings import renderings
from services.contracts.plan import (
    AnswerOutput,
    Plan,
    Reference,
    dependencies,
    scalars,
)
from services.contracts.planning import Decision, DiagnosticCode, Policy
from training.instruct.refusals import Reason, Refusal
from training.instruct.tool_sampler import Offer
from training.shared.leaks import NearDuplicates

Kind = Literal["single", "multiple", "nested"]
KINDS: Final[tuple[Kind, ...]] = ("single", "multiple", "nested")
MAX_CALLS: Final = 6
_WORDS: Final = (3, 120)
_CHARS: Final = 1_000
_ALLOWED: Final = Policy(mutating=Decision.ALLOW)
_NUMBERS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (DIGITS, rf"{DIGITS}\s?(?:k|m|dozen|hundred|thousand|million|billion)\b", rf"\b{NUMBER_WORD}\b")
)
_CLOCKS: Final = (datetime(2001, 3, 5, 12, tzinfo=UTC), datetime(2033, 9, 20, 12, tzinfo=UTC))
"""A date is complete if it is the same for both clocks."""
_INNARDS: Final = re.compile(r"API_call_|\$[A-Za-z_]\w*[.$\[]")
_REASONS: Final[dict[DiagnosticCode, Reason]] = {
    DiagnosticCode.UNKNOWN_API: "unknown tool",
    DiagnosticCode.UNKNOWN_ARGUMENT: "unknown parameter",
    DiagnosticCode.MISSING_ARGUMENT: "missing parameter",
    DiagnosticCode.INVALID_LITERAL: "value type",
    DiagnosticCode.UNKNOWN_STEP: "reference",
    DiagnosticCode.UNKNOWN_FIELD: "reference",
    DiagnosticCode.FORWARD_REFERENCE: "reference",
    DiagnosticCode.CYCLE: "reference",
    DiagnosticCode.TYPE_MISMATCH: "reference",
    DiagnosticCode.LIST_FOR_SINGLE: "reference",
    DiagnosticCode.SINGLE_FOR_LIST: "reference",
}


def read_request(values: Sequence[JsonValue]) -> list[JsonValue]:
    """The last object of an answer, which should be the request.

    Raises:
        Refusal: there is none.
    """
    found = [value for value in values if isinstance(value, dict)]
    if not found:
        raise Refusal("form")
    return [next((value for value in reversed(found) if "query" in value), found[-1])]


def check_request(value: JsonValue, kind: Kind, offer: Offer, asked: NearDuplicates) -> dict[str, JsonValue]:
    """Check a request. Returns ``{"query", "calls"}``, with calls in the format that :mod:`evals.data` reads.

    Args:
        value: what a model wrote.
        kind: the requested kind.
        offer: the tools that the model was shown.
        asked: all requests so far; this one is added.

    Raises:
        Refusal: it is not a valid request, its calls do not solve it, or it is not new.
    """
    if not isinstance(value, dict):
        raise Refusal("form")
    if not value.get("query") and not value.get("calls"):
        raise Refusal("declined")
    query, plan = _query(value.get("query"), offer), _plan(value.get("calls"), offer)
    _check_kind(kind, plan, offer)
    _check_calls(plan, offer)
    said = Said(query)
    if not all(said.says(one) for step in plan.steps for value in step.arguments.values() for one in scalars(value)):
        raise Refusal("value not said")
    if asked.of(query) is not None:
        raise Refusal("duplicate")
    asked.add([query])
    return {"query": query, "calls": instance_row("", query, plan)["calls"]}


def _query(told: JsonValue, offer: Offer) -> str:
    if not isinstance(told, str):
        raise Refusal("form")
    query = " ".join(told.split())
    least, most = _WORDS
    if not least <= len(query.split()) <= most or len(query) > _CHARS or not query.isprintable():
        raise Refusal("request")
    # A person may use a name that is a plain word ("translate").
    names = [name for name in offer.names.values() if not re.fullmatch(r"[A-Z]?[a-z]+", name)]
    if _INNARDS.search(query) or any(name in query for name in names):
        raise Refusal("request")
    return query


def _plan(calls: JsonValue, offer: Offer) -> Plan:
    if not isinstance(calls, list):
        raise Refusal("form")
    if not 0 < len(calls) <= MAX_CALLS:
        raise Refusal("calls")
    try:
        plan = read_reply(json.dumps({"calls": calls}), offer.names).plan
    except ReplyError:
        raise Refusal("form") from None
    if plan is None or any(step.foreach or step.when or step.after for step in plan.steps):
        raise Refusal("form")  # the data cannot express these
    return plan


def _check_kind(kind: Kind, plan: Plan, offer: Offer) -> None:
    called = {step.api for step in plan.steps}
    if called - offer.names.keys():
        raise Refusal("unknown tool")
    linked = any(dependencies(step) for step in plan.steps)
    fits = {
        "single": len(plan.steps) == 1,
        "multiple": len(called) > 1,
        "nested": linked and called == offer.names.keys(),
    }
    if not fits[kind]:
        raise Refusal("calls")


def _check_calls(plan: Plan, offer: Offer) -> None:
    """Let the compiler prove parameters, types and references. An argument that it would have to fill in is missing."""
    outputs = tuple(AnswerOutput(name=step.id, value=Reference(step=step.id)) for step in plan.steps)
    called = {step.api for step in plan.steps}
    apis = [api for api in offer.apis if api.id in called]
    compiled = compile_plan(Plan(steps=plan.steps, answer=outputs), apis, _ALLOWED)
    for found in compiled.diagnostics:
        if found.severity == "error" or found.code is DiagnosticCode.MISSING_ARGUMENT:
            raise Refusal(_REASONS.get(found.code, "calls"))


class Said:
    """Finds the values that a request states.

    Args:
        query: the request.
    """

    def __init__(self, query: str) -> None:
        self._query, self._folded = query, _folded(query)

    def says(self, value: JsonValue) -> bool:
        """Whether the request states a value: as text, a number also in words, a full date also with its month's name.

        Booleans and null count as stated, because people express them in other words.
        """
        if isinstance(value, bool) or value is None:
            return True
        if isinstance(value, int | float):
            return value in self._numbers
        text = str(value)
        if not (folded := _folded(text)):
            return bool(text.strip()) and text in self._query
        # As a whole word: "party" does not state "art".
        if re.search(rf"(?<![a-z0-9]){re.escape(folded)}(?![a-z0-9])", self._folded):
            return True
        return text[:1].isdigit() and text in self._moments

    @cached_property
    def _numbers(self) -> set[int | float]:
        texts = [text for pattern in _NUMBERS for text in pattern.findall(self._query)]
        found = {value for text in texts if (value := number(text)) is not None}
        return found | {abs(value) for value in found}  # "3-5 days" does not contain -5

    @cached_property
    def _moments(self) -> set[str]:
        """Dates and times in ISO 8601 that the request names independent of the current time."""
        readings = [
            {
                text
                for found in DateReader(now).find(self._query)
                if isinstance(found.value, Moment)
                for text in renderings(found.value, UTC)
            }
            for now in _CLOCKS
        ]
        return set.intersection(*readings)


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()
