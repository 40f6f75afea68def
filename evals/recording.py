"""Writes a catalogue and solved requests in the format that :mod:`evals.data` reads, to train on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from services.contracts.api import Api
from services.contracts.base import JsonPath
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Plan, Reference, Step, Value

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
    """A request with the calls of the plan that solves it, and the outputs that answer it."""
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
            return reference(numbers[listed.step], (*listed.path, 0, *value.path))
        case ListValue():
            return [_argument(item, step, numbers) for item in value.items]
        case ObjectValue():
            return {name: _argument(field, step, numbers) for name, field in value.fields.items()}
