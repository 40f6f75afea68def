"""Writes a catalogue and solved requests in the format that :mod:`evals.data` reads, to train on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from evals.data import EACH
from services.contracts.api import Api
from services.contracts.base import JsonPath
from services.contracts.plan import (
    AnswerOutput,
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
    Value,
    dependencies,
)

Row = dict[str, Any]


def write_folder(out: Path, tools: Iterable[Row], instances: Iterable[Row]) -> None:
    """Write ``tools.jsonl`` and ``instances.jsonl``."""
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("tools.jsonl", tools), ("instances.jsonl", instances)):
        lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (out / name).write_text("".join(lines), encoding="utf-8")


def tool_row(api: Api) -> Row:
    """A complete API, including its document's schemas."""
    return {"name": api.id, "api": api.model_dump(mode="json", exclude_defaults=True)}


def instance_row(identifier: str, query: str, plan: Plan) -> Row:
    """A request with the calls of the plan that solves it, and the outputs that answer it.

    A loop over another call's list is one call, whose arguments take :data:`~evals.data.EACH` item of that list. A loop
    over stated values is one call for each of them.
    """
    plan = _unrolled(plan)
    numbers = {step.id: number for number, step in enumerate(plan.steps, 1)}
    calls = [
        {
            "api": step.api,
            "args": {name: _argument(value, step, numbers) for name, value in step.arguments.items()},
            "label": label(numbers[step.id]),
        }
        for step in plan.steps
    ]
    answer = [_argument(output.value, plan.steps[0], numbers) for output in plan.answer]
    return {"id": identifier, "split": "train", "query": query, "calls": calls, "answer": answer}


def label(call: int) -> str:
    """The label of a call in references: ``var_1``."""
    return f"var_{call}"


def reference(call: int, path: JsonPath) -> str:
    """``$var_1.items[0].code$``; calls are counted from 1."""
    steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"${label(call)}{''.join(steps)}$"


def _argument(value: Value, step: Step, numbers: Mapping[str, int]) -> Any:
    match value:
        case LiteralValue():
            return value.value
        case Reference():
            return reference(numbers[value.step], value.path)
        case ItemReference():
            listed = step.foreach.items if step.foreach is not None else None
            if not isinstance(listed, Reference):
                return None
            return reference(numbers[listed.step], (*listed.path, EACH, *value.path))
        case ListValue():
            return [_argument(item, step, numbers) for item in value.items]
        case ObjectValue():
            return {name: _argument(field, step, numbers) for name, field in value.fields.items()}


def _unrolled(plan: Plan) -> Plan:
    """The plan with a step for each item, where the items of a loop are stated in the plan.

    A loop that other steps depend on is kept: what they take is the list of its outputs.
    """
    needed = {name for step in plan.steps for name in dependencies(step)}
    steps: list[Step] = []
    parts: dict[str, list[str]] = {}
    for step in plan.steps:
        listed = step.foreach.items if step.foreach is not None else None
        items = listed.value if isinstance(listed, LiteralValue) else None
        if not isinstance(items, list) or step.id in needed:
            steps.append(step)
            continue
        parts[step.id] = [f"{step.id}_{number}" for number in range(1, len(items) + 1)]
        for name, item in zip(parts[step.id], items, strict=True):
            arguments = {argument: _of(value, item) for argument, value in step.arguments.items()}
            steps.append(step.model_copy(update={"id": name, "foreach": None, "arguments": arguments}))
    answer: list[AnswerOutput] = []
    for output in plan.answer:
        taken = output.value
        names = parts.get(taken.step, ()) if isinstance(taken, Reference) else ()
        answer += [output.model_copy(update={"value": Reference(step=name)}) for name in names] or [output]
    return Plan(steps=tuple(steps), answer=tuple(answer))


def _of(value: Value, item: JsonValue) -> Value:
    """The value for one stated item of a loop."""
    match value:
        case ItemReference():
            found = item
            for part in value.path:
                found = found.get(str(part)) if isinstance(found, dict) else None
            return LiteralValue(value=found)
        case ListValue():
            return ListValue(items=tuple(_of(one, item) for one in value.items))
        case ObjectValue():
            return ObjectValue(fields={name: _of(one, item) for name, one in value.fields.items()})
        case _:
            return value
