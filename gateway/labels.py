"""Which call a value of an answer is from, where several calls answer alike. Only the text shows it."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from pydantic import JsonValue

from services.contracts.answer import AnswerValue
from services.contracts.outcome import StepRecord, Succeeded
from services.contracts.plan import LiteralValue, Plan, Reference, Step
from services.paths import value_at

MAX_LABELS: Final = 10
_MAX_CALLS: Final = 100
"""Calls of one operation that are told apart by their arguments. Of more, an answer's text does not show all."""
_MAX_PARTS: Final = 3
_MAX_PART: Final = 60
_NUMBER: Final = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class Labels:
    """Short texts that tell calls apart.

    Attributes:
        calls: by step, the arguments in which it differs from other calls of its operation, or its API.
        items: by step with ``foreach``, the first items that it was called for.
        names: the names of values without the number that tells them from another call's.
    """

    calls: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


NO_LABELS: Final = Labels()


def labels_of(plan: Plan | None, records: Sequence[StepRecord], values: Sequence[AnswerValue]) -> Labels:
    """The labels of the calls that an answer is from.

    Args:
        plan: the plan that was run.
        records: what its steps did.
        values: the answer's values.
    """
    if plan is None:
        return NO_LABELS
    shown = {value.step for value in values}
    by_api: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        if step.id in shown and step.foreach is None:
            by_api[step.api].append(step)
    calls = {label: text for alike in by_api.values() for label, text in _differences(alike)}
    items = {
        step.id: item_labels(step, records) for step in plan.steps if step.foreach is not None and step.id in shown
    }
    bare = _bare_names(values)
    by_name: dict[str, set[str]] = defaultdict(set)
    for value in values:
        by_name[bare[value.name]].add(value.step)
    numbered = {step for steps in by_name.values() if len(steps) > 1 for step in steps}
    apis = {step.id: step.api for step in plan.steps if step.id in numbered}
    return Labels(apis | calls, items, bare)


def _bare_names(values: Sequence[AnswerValue]) -> dict[str, str]:
    """The names of the values; without the number that only tells them from another call's: ``id`` for ``id_2``."""
    names = {value.name for value in values}
    own = {(value.step, value.name) for value in values}
    found = {}
    for value in values:
        base = _NUMBER.sub("", value.name)
        numbered = base in names or (value.path and value.path[-1] == base)
        found[value.name] = base if numbered and (value.step, base) not in own else value.name
    return found


def _differences(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Each of the calls with the arguments in which they differ; none if two could not be told apart."""
    if not 1 < len(steps) <= _MAX_CALLS:
        return
    names = dict.fromkeys(name for step in steps for name in step.arguments)
    differ = [name for name in names if len({str(step.arguments.get(name)) for step in steps}) > 1]
    values = [[step.arguments.get(name) for name in differ] for step in steps]
    texts = [", ".join(_part(one.value) for one in some if isinstance(one, LiteralValue)) for some in values]
    if all(texts) and len(set(texts)) == len(texts):
        yield from zip((step.id for step in steps), texts, strict=True)


def item_labels(step: Step, records: Sequence[StepRecord]) -> list[str]:
    """Short texts for the first items of the list that the step was called for.

    None if they are in no answer, or if it is not certain that a call belongs to the item at its place: the condition
    of a loop leaves items out, and a match may choose another list.
    """
    over = step.foreach.items if step.foreach is not None else None
    if not isinstance(over, Reference) or over.match is not None:
        return []
    found = {one.step: one for one in records if one.step in (over.step, step.id)}
    source = found[over.step].outcome if over.step in found else None
    if not isinstance(source, Succeeded):
        return []
    items = value_at(source.value, over.path)
    if not isinstance(items, list):
        return []
    calls = len(found[step.id].items) if step.id in found else 0
    if step.when is not None and (len(items) != calls or source.stored is not None):
        return []
    return [_item(one) for one in items[:MAX_LABELS]]


def _item(item: JsonValue) -> str:
    """An item in short: the first of its values that are no lists, objects or flags."""
    values = item.values() if isinstance(item, dict) else [item]
    plain = (one for one in values if isinstance(one, str | int | float) and not isinstance(one, bool) and one != "")
    return ", ".join(_part(one) for one in islice(plain, _MAX_PARTS))


def _part(value: JsonValue) -> str:
    text = " ".join(str(value)[: 2 * _MAX_PART].split())
    return text if len(text) <= _MAX_PART else text[: _MAX_PART - 1] + "…"
