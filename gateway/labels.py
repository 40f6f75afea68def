"""Which call a value of an answer is from, where an operation was called several times. Only the text shows it."""

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
_MAX_PARTS: Final = 3
_MAX_PART: Final = 60


@dataclass(frozen=True, slots=True)
class Labels:
    """Short texts that tell calls apart.

    Attributes:
        calls: by step, the arguments in which it differs from other calls of its operation.
        items: by step with ``foreach``, the first items that it was called for.
    """

    calls: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
    answers = {one.step: one.outcome.value for one in records if isinstance(one.outcome, Succeeded)}
    by_api: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        if step.id in shown and step.foreach is None:
            by_api[step.api].append(step)
    calls = {label: text for alike in by_api.values() for label, text in _differences(alike)}
    items = {step.id: _items(step, answers) for step in plan.steps if step.foreach is not None and step.id in shown}
    return Labels(calls, items)


def _differences(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Each of the calls with the arguments in which they differ; none if two could not be told apart."""
    names = dict.fromkeys(name for step in steps for name in step.arguments)
    differ = [name for name in names if len({str(step.arguments.get(name)) for step in steps}) > 1]
    values = [[step.arguments.get(name) for name in differ] for step in steps]
    texts = [", ".join(_part(one.value) for one in some if isinstance(one, LiteralValue)) for some in values]
    if len(steps) > 1 and all(texts) and len(set(texts)) == len(texts):
        yield from zip((step.id for step in steps), texts, strict=True)


def _items(step: Step, answers: Mapping[str, JsonValue]) -> list[str]:
    """The first items of the list that the step was called for; empty if they are not in an answer."""
    over = step.foreach.items if step.foreach is not None else None
    items = value_at(answers.get(over.step), over.path) if isinstance(over, Reference) else None
    return [_item(one) for one in items[:MAX_LABELS]] if isinstance(items, list) else []


def _item(item: JsonValue) -> str:
    """An item in short: the first of its values that are no lists, objects or flags."""
    values = item.values() if isinstance(item, dict) else [item]
    plain = (one for one in values if isinstance(one, str | int | float) and not isinstance(one, bool) and one != "")
    return ", ".join(_part(one) for one in islice(plain, _MAX_PARTS))


def _part(value: JsonValue) -> str:
    text = " ".join(str(value)[: 2 * _MAX_PART].split())
    return text if len(text) <= _MAX_PART else text[: _MAX_PART - 1] + "…"
