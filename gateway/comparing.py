"""Compares two runs, step by step, in the plan's order: what was planned, sent and answered."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_json

from services.contracts.base import JsonPath
from services.contracts.comparison import Comparison, Divergence
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.plan import Step
from services.contracts.run import Run

_Difference = tuple[JsonPath, JsonValue, JsonValue]
_Pair = tuple[str | int, Any, Any]
"""A key or an index, and the two values there."""


def compare(run: Run, other: Run) -> Comparison:
    """The first difference between two runs.

    Steps that one of them reused from another run are not compared. Headers are not compared either, because they
    differ from call to call (keys, dates), nor are times. Call it in a thread: runs may hold a million values.
    """
    return Comparison(run=run.id, other=other.id, divergence=_first(run, other))


def _first(run: Run, other: Run) -> Divergence | None:
    ours, theirs = _steps(run), _steps(other)
    reused = {one.step for one in (*run.reused, *other.reused)}
    records = [{record.step: record for record in one.steps} for one in (run, other)]
    for name in dict.fromkeys((*ours, *theirs)):
        step, counterpart = ours.get(name), theirs.get(name)
        if step is None or counterpart is None:
            if name in reused:
                continue
            here, there = (one.api if one is not None else None for one in (step, counterpart))
            return Divergence(step=name, what="plan", run=here, other=there)
        found = _of_step(step, counterpart, records[0].get(name), records[1].get(name), reused)
        if found is not None:
            return found
    return None


def _steps(run: Run) -> dict[str, Step]:
    return {step.id: step for step in run.plan.steps} if run.plan is not None else {}


def _of_step(
    step: Step, counterpart: Step, record: StepRecord | None, other: StepRecord | None, reused: Collection[str]
) -> Divergence | None:
    sent = [_requests(one) for one in (record, other)]
    if step.api != counterpart.api or sent[0] != sent[1] or not sent[0]:
        planned = _planned(step, counterpart, reused)
        if planned is not None:
            return _divergence(step.id, "plan", planned)
    kinds = [one.outcome.kind if one is not None else None for one in (record, other)]
    if record is None or other is None:
        return _divergence(step.id, "response", _difference(kinds[0], kinds[1]))
    if sent[0] and sent[1] and sent[0] != sent[1]:
        return _divergence(step.id, "request", _difference(sent[0], sent[1]))
    if kinds[0] != kinds[1]:
        return _divergence(step.id, "response", ((), kinds[0], kinds[1]))
    answered = [one.outcome.model_dump(mode="json", exclude={"value", "stored"}) for one in (record, other)]
    if answered[0] != answered[1]:
        return _divergence(step.id, "response", _difference(answered[0], answered[1]))
    return _divergence(step.id, "value", _values(record, other))


def _requests(record: StepRecord | None) -> list[Any]:
    return [one.model_dump(mode="json", exclude={"headers"}) for one in record.requests] if record is not None else []


def _planned(step: Step, counterpart: Step, reused: Collection[str]) -> _Difference | None:
    """The first difference between two steps. A literal that replaces the value of a reused step is not one."""
    ours, theirs = (one.model_dump(mode="json", exclude={"id", "after"}) for one in (step, counterpart))
    return _difference(ours, theirs, reused)


def _values(record: StepRecord, other: StepRecord) -> _Difference | None:
    ours, theirs = record.outcome, other.outcome
    if not isinstance(ours, Succeeded) or not isinstance(theirs, Succeeded):
        return None
    found = _difference(ours.value, theirs.value)
    if found is None and ours.stored != theirs.stored:  # they differ beyond their previews
        kept = [one.stored.model_dump(mode="json") if one.stored else None for one in (ours, theirs)]
        return ((), kept[0], kept[1])
    return found


def _divergence(step: str, what: str, found: _Difference | None) -> Divergence | None:
    if found is None:
        return None
    path, ours, theirs = found
    return Divergence.model_validate({"step": step, "what": what, "path": path, "run": ours, "other": theirs})


def _refers_to_any(side: Any, reused: Collection[str]) -> bool:
    """Whether this is a reference to a step that was reused."""
    if not isinstance(side, dict) or side.get("kind") != "reference":
        return False
    return isinstance(step := side.get("step"), str) and step in reused  # a literal may look like a reference


def _difference(ours: Any, theirs: Any, reused: Collection[str] = ()) -> _Difference | None:
    """The first place, depth first, where two JSON values differ."""
    if ours == theirs and to_json(ours) == to_json(theirs):  # in a fraction of the time
        return None
    waiting: list[tuple[JsonPath, Iterator[_Pair]]] = [((), iter([("", ours, theirs)]))]
    while waiting:
        path, pairs = waiting[-1]
        if (pair := next(pairs, None)) is None:
            waiting.pop()
            continue
        key, one, two = pair
        if reused and any(_refers_to_any(side, reused) for side in (one, two)):
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            if (name := _missing(one, two)) is not None:
                return ((*path, key, name)[1:], one.get(name), two.get(name))
        elif not (isinstance(one, list) and isinstance(two, list)):
            if isinstance(one, bool) is not isinstance(two, bool) or one != two:
                return ((*path, key)[1:], one, two)
            continue
        waiting.append(((*path, key), _pairs(one, two)))
    return None


def _missing(one: Mapping[str, Any], two: Mapping[str, Any]) -> str | None:
    """The first name that only one of two objects has."""
    if one.keys() == two.keys():
        return None
    return next(name for name in (*one, *two) if name not in one or name not in two)


def _pairs(one: Any, two: Any) -> Iterator[_Pair]:
    """The members of two objects with the same names; or the items of two lists, and what one has beyond the other."""
    if isinstance(one, dict):
        yield from ((name, one[name], two[name]) for name in one)
        return
    yield from ((at, *pair) for at, pair in enumerate(zip(one, two, strict=False)))
    if len(one) != len(two):
        at = min(len(one), len(two))
        yield at, one[at] if at < len(one) else None, two[at] if at < len(two) else None
