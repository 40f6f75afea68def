"""The slots of a sentence: one for each value of the answer, described by the API's document, without the value."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.reading.text import split_name
from services.contracts.base import EVERY
from services.contracts.plan import AnswerOutput, LiteralValue, Plan, step_references
from services.contracts.planning import CompiledPlan
from services.contracts.sentence import MAX_SLOTS

_MAX_DESCRIPTION: Final = 120
_MAX_NAME: Final = 40
_MAX_GIVEN: Final = 40
_MAX_GIVEN_VALUES: Final = 3


class NotExpressible(Exception):
    """The answer cannot be told in a sentence; the message says why."""


@dataclass(frozen=True, slots=True)
class SentenceSlot:
    """A slot of the sentence.

    Attributes:
        name: its name in the prompt; unique; letters, digits and underscores.
        kind: the kind of its values, in one word.
        many: whether its value is a list.
        is_boolean: whether it may be a yes or no. Then it must follow a colon: the text before it is the question,
            not a claim.
        description: its description in the API's document.
        words: the document's words for it, as one text.
    """

    name: str
    kind: str
    many: bool
    is_boolean: bool
    description: str
    words: str


def slots_of(compiled: CompiledPlan) -> tuple[SentenceSlot, ...]:
    """A slot for each value of the plan's answer, in order.

    Slots are named by the document's fields, not by the plan's outputs, since a model may have named those.

    Raises:
        NotExpressible: there are too many values, or one of them is an object.
    """
    outputs = compiled.plan.answer
    if not 1 <= len(outputs) <= MAX_SLOTS:
        raise NotExpressible(f"the answer has {len(outputs)} values")
    schemas = Schemas()
    slots: list[SentenceSlot] = []
    for output in outputs:
        slots.append(_slot(schemas, compiled, output, {slot.name for slot in slots}))
    alike = {slot.description for slot in slots if [one.description for one in slots].count(slot.description) > 1}
    return tuple(
        replace(slot, description=_line(f"{slot.description} ({said})"))
        if slot.description in alike and (said := _given(compiled.plan, output.value.step))
        else slot
        for slot, output in zip(slots, outputs, strict=True)
    )


def _given(plan: Plan, step_id: str) -> str:
    """Literals of a call, or else of the calls that feed it: they tell calls of one API apart."""
    waiting, seen = [step_id], {step_id}
    while waiting:
        step = plan.step(waiting.pop(0))
        assert step is not None  # true for a proved plan
        values = [v.value for v in step.arguments.values() if isinstance(v, LiteralValue)]
        texts = [str(value)[:_MAX_GIVEN] for value in values if isinstance(value, str | int | float)]
        if texts:
            return ", ".join(texts[:_MAX_GIVEN_VALUES])
        before = sorted({reference.step for reference in step_references(step)} - seen)
        seen.update(before)
        waiting += before
    return ""


def _slot(schemas: Schemas, compiled: CompiledPlan, output: AnswerOutput, taken: set[str]) -> SentenceSlot:
    step = compiled.plan.step(output.value.step)
    assert step is not None  # true for a proved plan
    api, path = compiled.apis[step.api], output.value.path
    each = step.foreach is not None
    if each and path and isinstance(path[0], int):  # a single answer of the loop
        each, path = False, path[1:]
    node = schemas.at(Node(api.response.json_schema, api.definitions), path, strict=False)
    kinds = schemas.kinds(node) - {"null"}
    listed = kinds == {"array"}
    if listed:
        item = schemas.child(node, 0, strict=False)
        node = item if isinstance(item, Node) else Node({}, {})
        kinds = schemas.kinds(node) - {"null"}
    if kinds <= {"object", "array"} or (each and listed):
        raise NotExpressible("a value of the answer is an object or a list of lists")
    words = [part for part in path if isinstance(part, str) and part != EVERY]
    about = _description(schemas, node)
    return SentenceSlot(
        name=_name(words[-1] if words else api.name, taken),
        kind=_kind(kinds),
        many=listed or each,
        is_boolean="boolean" in kinds,
        description=_line(about or api.summary),
        words=" ".join([*_named([*words, api.name]), _line(api.summary), _line(about)]),
    )


def _description(schemas: Schemas, node: Node) -> str:
    for branch in schemas.branches(node):
        for schema in branch:
            said = schema.get("description") or schema.get("title")
            if isinstance(said, str) and said.strip():
                return said
    return ""


def _kind(kinds: frozenset[str]) -> str:
    if "string" in kinds:
        return "text"
    if kinds <= {"integer", "number"}:
        return "number"
    return "yes or no" if kinds == {"boolean"} else "value"


def _named(names: Iterable[str]) -> list[str]:
    return [word for name in names for word in split_name(name[:200])]


def _name(name: str, taken: set[str]) -> str:
    """The name in snake case, made unique."""
    base = re.sub(r"[^a-z0-9]+", "_", "_".join(split_name(name[:200])).lower()).strip("_")[:_MAX_NAME].strip("_")
    base = base if base[:1].isalpha() else f"value_{base}".rstrip("_")
    found, count = base, 1
    while found in taken:
        count += 1
        found = f"{base}_{count}"
    return found


def _line(text: str) -> str:
    """The start of a text on one line, without braces."""
    flat = " ".join(re.sub(r"[{}]", " ", text[: 8 * _MAX_DESCRIPTION]).split())
    return flat if len(flat) <= _MAX_DESCRIPTION else flat[:_MAX_DESCRIPTION].rsplit(" ", 1)[0]
