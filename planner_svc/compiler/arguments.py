"""Checks every value of every step against the parameter of its API."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from planner_svc.compiler.assign import Mismatch, mismatch
from planner_svc.compiler.findings import Findings
from planner_svc.compiler.nodes import ANYTHING, Node, listed, shown
from planner_svc.compiler.schemas import Schemas, schema_of
from services.contracts.api import Api, Location, Parameter
from services.contracts.base import EVERY, JsonPath
from services.contracts.evidence import written_path
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
)
from services.contracts.planning import DiagnosticCode, Fix

MAX_FIXES = 3
MAX_NAME = 200
"""Longest place that a question can be about, and longest field that a fix names, in characters."""
_MAX_PLACE = 400
"""Longest place that messages name in full, in characters; longer than any that a question is about (`MAX_NAME`)."""
_MAX_ITEM_TYPES = 100
"""Most types of a loop's items that are checked; each use of the item is checked against each."""
_TEMPLATE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]{0,63})[.$\[]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value goes; used in messages and to select the rule that applies."""

    step: str | None
    """None for the answer, which belongs to no step."""
    argument: str
    as_text: bool = False

    def inside(self, part: str | int) -> "Place":
        """The place of an item or a field inside this value."""
        inner = f"{self.argument}[{part}]" if isinstance(part, int) else f"{self.argument}.{part}"
        return Place(self.step, _cut(inner), self.as_text)


class ArgumentChecker:
    """Checks steps one by one. Holds shared state: APIs, types of outputs, findings."""

    def __init__(self, plan: Plan, apis: Mapping[str, Api], schemas: Schemas, findings: Findings) -> None:
        self._plan = plan
        self._apis = apis
        self._schemas = schemas
        self._findings = findings
        self._steps = {step.id: step for step in plan.steps}
        self._outputs: dict[str, Node] = {}
        self._responses: dict[str, Node] = {}
        self._parameters: dict[str, dict[str, tuple[Parameter, Node]]] = {}
        self.lacking: list[tuple[str, str, Node]] = []
        """Required fields that objects built in a plan lack: the step, the place in it, the type."""

    def check_step(self, step: Step) -> None:
        """Check a step's API, arguments, loop and condition. ``find_missing`` reports missing arguments."""
        self._findings.checks += 1
        api = self._apis.get(step.api)
        if api is None:
            similar = self._findings.similar(step.api, self._apis)
            fixes = [Fix(message=f"Did you mean {name!r}?", api=name) for name in similar]
            self._findings.error(DiagnosticCode.UNKNOWN_API, f"there is no API {step.api!r}", step.id, fixes=fixes)
        elif api.deprecated:
            self._findings.warning(DiagnosticCode.DEPRECATED_API, f"{api.id} is deprecated by its provider", step.id)
        items = self._items(step)
        parameters = self.parameters(api) if api is not None else None
        for name, value in step.arguments.items():
            self._check_argument(step, name, value, parameters, items)
        if step.when is not None:
            for side in (step.when.left, step.when.right):
                self._check(Place(step.id, "when"), side, ANYTHING, items)

    def check_answer(self) -> None:
        """Check that there is an answer and that each of its references resolves."""
        if not self._plan.answer:
            last = self._plan.steps[-1].id
            fix = Fix(message=f"Answer with the output of the last step, {last!r}.", value=last)
            self._findings.error(
                DiagnosticCode.MISSING_ANSWER, "the plan does not say what answers the request", fixes=[fix]
            )
        for output in self._plan.answer:
            self._resolve(Place(None, place_of(output)), output.value)

    def parameters(self, api: Api) -> dict[str, tuple[Parameter, Node]]:
        """An API's parameters by name, each with its type."""
        found = self._parameters.get(api.id)
        if found is None:
            found = self._parameters[api.id] = {
                p.name: (p, Node(p.json_schema, api.definitions)) for p in reversed(api.parameters)
            }
        return found

    def output(self, step: Step) -> Node:
        """The type of a step's output: the response, or a list of responses for a loop."""
        found = self._outputs.get(step.id)
        if found is None:
            api = self._apis.get(step.api)
            found = self.response(api) if api is not None else ANYTHING
            if step.foreach is not None:
                found = listed(found)
            self._outputs[step.id] = found
        return found

    def response(self, api: Api) -> Node:
        """The type of an API's response."""
        found = self._responses.get(api.id)
        if found is None:
            found = self._responses[api.id] = Node(api.response.json_schema, api.definitions)
        return found

    def _check_argument(
        self,
        step: Step,
        name: str,
        value: Value,
        parameters: Mapping[str, tuple[Parameter, Node]] | None,
        items: tuple[Node, ...] | None,
    ) -> None:
        if parameters is None:
            self._check(Place(step.id, _cut(name)), value, ANYTHING, items)
        elif name in parameters:
            parameter, node = parameters[name]
            self._check(Place(step.id, name, parameter.location is not Location.BODY), value, node, items)
        else:
            similar = self._findings.similar(name, parameters)
            fixes = [Fix(message=f"Did you mean {other!r}?", value=other) for other in similar]
            message = f"{step.api} takes no argument {name!r}"
            self._findings.error(DiagnosticCode.UNKNOWN_ARGUMENT, message, step.id, name, fixes)

    def _items(self, step: Step) -> tuple[Node, ...] | None:
        """The types that an item of the step's loop may have; None if it has no loop."""
        if step.foreach is None:
            return None
        place, value = Place(step.id, "foreach"), step.foreach.items
        self._findings.checks += 1
        if isinstance(value, Reference):
            node = self._resolve(place, value)
            if node is None or self._schemas.is_anything(node):
                return (ANYTHING,)
            item = self._schemas.child(node, 0, strict=True)
            if "array" in self._schemas.kinds(node):
                return (item if isinstance(item, Node) else ANYTHING,)
            problem = f"its items are {self._schemas.describe(node)}, not a list"
        elif isinstance(value, ListValue):
            self._check(place, value, ANYTHING, None)
            types = {id(found.schema): found for found in map(self._type_of, value.items)}
            return tuple(types.values())[:_MAX_ITEM_TYPES]
        elif isinstance(value, LiteralValue) and isinstance(value.value, list):
            return tuple(Node(schema_of(item)) for item in value.value[:_MAX_ITEM_TYPES])
        elif isinstance(value, ItemReference):
            problem = "a loop cannot run over its own item"
        else:
            problem = "its items are not a list"
        fix = Fix(message="Give the loop a list, or call the API once, without a loop.")
        self._findings.error(DiagnosticCode.INVALID_FOREACH, problem, step.id, "foreach", [fix])
        return (ANYTHING,)

    def _type_of(self, value: Value) -> Node:
        """The type of a value that was already checked."""
        if isinstance(value, LiteralValue):
            return Node(schema_of(value.value))
        if isinstance(value, Reference) and value.step in self._steps:
            return self._schemas.at(self.output(self._steps[value.step]), value.path)
        return ANYTHING

    def _check(self, place: Place, value: Value, wanted: Node, items: tuple[Node, ...] | None) -> None:
        self._findings.checks += 1
        if isinstance(value, LiteralValue):
            self._check_literal(place, value.value, wanted)
        elif isinstance(value, Reference):
            given = self._resolve(place, value)
            if given is not None:
                self._fits(place, value, given, wanted)
        elif isinstance(value, ItemReference):
            self._check_item(place, value, wanted, items)
        elif isinstance(value, ListValue):
            self._check_list(place, value, wanted, items)
        else:
            self._check_object(place, value, wanted, items)

    def _check_literal(self, place: Place, value: JsonValue, wanted: Node) -> None:
        if isinstance(value, str):
            self._warn_of_template(place, value)
        problem = self._schemas.problem(wanted, value)
        if problem is not None and not self._has_wrong_parts(place, value, wanted):
            fixes = [
                Fix(message=f"Use {json.dumps(other)[:100]}.", value=other)
                for other in _conversions(value, self._schemas.enumeration(wanted) or [])
                if self._schemas.problem(wanted, other) is None
            ]
            message = f"the value does not fit: {problem}"
            self._findings.error(DiagnosticCode.INVALID_LITERAL, message, place.step, place.argument, fixes[:MAX_FIXES])

    def _has_wrong_parts(self, place: Place, value: JsonValue, wanted: Node) -> bool:
        """Whether a part of an object or a list is wrong or missing. Each such part is reported by itself."""
        before, kinds = self._findings.errors, self._schemas.kinds(wanted)
        if isinstance(value, dict) and value and "object" in kinds:
            fields = {name: LiteralValue(value=part) for name, part in value.items()}
            self._check_object(place, ObjectValue(fields=fields), wanted, None)
        elif isinstance(value, list) and value and "array" in kinds:
            parts = tuple(LiteralValue(value=part) for part in value)
            self._check_list(place, ListValue(items=parts), wanted, None)
        return self._findings.errors > before

    def _warn_of_template(self, place: Place, text: str) -> None:
        """Warn about ``"Meeting $var1.id$"``: plans have no string templates, so it would be sent unchanged."""
        step = next((name for name in _TEMPLATE.findall(text) if name in self._steps), None)
        if step is not None:
            message = f"the text mentions the output of {step!r}, but is sent as it stands"
            fix = Fix(message="Make the whole value a reference, or leave the mention out.")
            self._findings.warning(DiagnosticCode.INVALID_LITERAL, message, place.step, place.argument, [fix])

    def _check_item(self, place: Place, value: ItemReference, wanted: Node, items: tuple[Node, ...] | None) -> None:
        if items is None:
            message = "it refers to the item of a loop, and the step has none"
            fix = Fix(message="Add `foreach` with the list to run over.")
            self._findings.error(DiagnosticCode.INVALID_FOREACH, message, place.step, place.argument, [fix])
            return
        errors = self._findings.errors
        for item in items:
            given = self._walk(place, item, "the item", value.path)
            if given is not None:
                self._fits(place, value, given, wanted)
            if self._findings.errors > errors:
                return

    def _check_list(self, place: Place, value: ListValue, wanted: Node, items: tuple[Node, ...] | None) -> None:
        if "array" not in self._schemas.kinds(wanted):
            message = f"it is a list, and {self._schemas.describe(wanted)} is asked for"
            fix = Fix(message="Give one value, or run the step once for each with `foreach`.")
            self._findings.error(DiagnosticCode.LIST_FOR_SINGLE, message, place.step, place.argument, [fix])
            return
        for index, item in enumerate(value.items):
            inner = self._schemas.child(wanted, index, strict=False)
            if isinstance(inner, Node):
                self._check(place.inside(index), item, inner, items)
            else:
                message = f"no more than {index} items are allowed"
                self._findings.error(DiagnosticCode.INVALID_LITERAL, message, place.step, place.argument)
                return

    def _check_object(self, place: Place, value: ObjectValue, wanted: Node, items: tuple[Node, ...] | None) -> None:
        if "object" not in self._schemas.kinds(wanted):
            message = f"it is an object, and {self._schemas.describe(wanted)} is asked for"
            self._findings.error(DiagnosticCode.TYPE_MISMATCH, message, place.step, place.argument)
            return
        for name, item in value.fields.items():
            inner = self._schemas.child(wanted, name, strict=False)
            if isinstance(inner, Node):
                self._check(place.inside(name), item, inner, items)
            else:
                message = f"{place.argument} has no field {name!r}"
                self._findings.error(DiagnosticCode.UNKNOWN_ARGUMENT, message, place.step, place.inside(name).argument)
        for name in sorted(self._schemas.required(wanted) - value.fields.keys()):
            message = f"{place.argument} needs a field {shown(name)!r}"
            inside = place.inside(name)
            self._findings.error(DiagnosticCode.MISSING_ARGUMENT, message, inside.step, inside.argument)
            inner = self._schemas.child(wanted, name, strict=False)
            if inside.step is not None:
                self.lacking.append((inside.step, inside.argument, inner if isinstance(inner, Node) else ANYTHING))

    def _resolve(self, place: Place, reference: Reference) -> Node | None:
        """The type a reference leads to; None if it leads nowhere, which is reported."""
        self._findings.checks += 1
        step = self._steps.get(reference.step)
        if step is None:
            fixes = [
                Fix(message=f"Did you mean {n!r}?", value=n)
                for n in self._findings.similar(reference.step, self._steps)
            ]
            message = f"it refers to a step {reference.step!r}, which the plan does not have"
            self._findings.error(DiagnosticCode.UNKNOWN_STEP, message, place.step, place.argument, fixes)
            return None
        return self._walk(place, self.output(step), f"the output of {step.id!r}", reference.path)

    def _walk(self, place: Place, node: Node, whole: str, path: JsonPath, at: int = 0) -> Node | None:
        """The type that the rest of a path leads to, from its part ``at`` on; None if it leads nowhere."""
        for depth in range(at, len(path)):
            if path[depth] == EVERY and (item := self._schemas.every(node)) is not None:
                taken = self._walk(place, item, whole, path, depth + 1)
                return None if taken is None else listed(taken)
            child = self._schemas.child(node, path[depth], strict=True)
            if not isinstance(child, Node):
                self._report_absent(place, node, f"{whole}{written_path(path[:depth])}", path, depth)
                return None
            node = child
        return node

    def _report_absent(self, place: Place, node: Node, where: str, path: JsonPath, depth: int) -> None:
        if self._findings.full:  # an answer may have a hundred thousand fields, and a plan as many wrong references
            self._findings.error(DiagnosticCode.UNKNOWN_FIELD, "", place.step, place.argument)
            return
        part, kinds = path[depth], self._schemas.kinds(node) - {"null"}
        if isinstance(part, str) and kinds == {"array"}:
            first: list[JsonValue] = [*path[:depth], 0, *path[depth:]]
            every: list[JsonValue] = [*path[:depth], EVERY, *path[depth:]]
            fixes = [
                *_loop(place),
                Fix(message="Take one item, for example the first.", value=first),
                Fix(message="Take it of every item.", value=every),
            ]
            message = f"{where} is a list, so it has no field {part!r}; its items may"
            self._findings.error(DiagnosticCode.LIST_FOR_SINGLE, message, place.step, place.argument, fixes)
        elif isinstance(part, int):
            message = f"{where} is {self._schemas.describe(node)} without an item {part}"
            code = DiagnosticCode.UNKNOWN_FIELD if "array" in kinds else DiagnosticCode.TYPE_MISMATCH
            self._findings.error(code, message, place.step, place.argument)
        else:
            known = self._schemas.properties(node)
            fixes = [
                Fix(message=f"Did you mean {name!r}?", value=[*path[:depth], name, *path[depth + 1 :]])
                for name in self._findings.similar(part, known)
            ]
            listed = f"; it has {', '.join(map(shown, list(known)[:10]))}" if known else ""
            message = f"{where} has no field {part!r}{listed}"
            self._findings.error(DiagnosticCode.UNKNOWN_FIELD, message, place.step, place.argument, fixes)

    def _fits(self, place: Place, value: Reference | ItemReference, given: Node, wanted: Node) -> None:
        self._findings.checks += 1
        wrong = mismatch(self._schemas, given, wanted, as_text=place.as_text)
        if wrong is None:
            return
        name = f"{value.step!r}" if isinstance(value, Reference) else "the item"
        record = self._findings.error if wrong.certain else self._findings.warning
        fixes = [] if self._findings.full else self._fixes(place, wrong, value.path, given, wanted)
        message = f"{name}{written_path(value.path)} does not fit: {wrong.message}"
        record(wrong.code, message, place.step, place.argument, fixes)

    def _fixes(self, place: Place, wrong: Mismatch, path: JsonPath, given: Node, wanted: Node) -> list[Fix]:
        if wrong.code is DiagnosticCode.LIST_FOR_SINGLE:
            first: list[JsonValue] = [0 if part == EVERY else part for part in path] if EVERY in path else [*path, 0]
            return [*_loop(place), Fix(message="Take one item, for example the first.", value=first)]
        if wrong.code is DiagnosticCode.SINGLE_FOR_LIST:
            return [Fix(message="Put the value into a list of one.")]
        fitting: Iterable[str] = (
            name
            for name, field in self._schemas.properties(given).items()
            if len(name) <= MAX_NAME and mismatch(self._schemas, field, wanted, as_text=place.as_text) is None
        )
        named = sorted(fitting, key=lambda name: name.lower() != place.argument.lower())
        return [Fix(message=f"Use its field {name!r}.", value=[*path, name]) for name in named[:MAX_FIXES]]


def place_of(output: AnswerOutput) -> str:
    """An output of the answer as diagnostics name it in place of an argument."""
    return f"answer {output.name!r}"


def _loop(place: Place) -> list[Fix]:
    return [] if place.step is None else [Fix(message=f"Run {place.step!r} once for each item with `foreach`.")]


def _cut(place: str) -> str:
    """A place as messages name it. A plan may have a thousand mistakes inside one member with a name of a megabyte."""
    return place if len(place) <= _MAX_PLACE else f"{place[:_MAX_PLACE]}…"


def _conversions(value: JsonValue, choices: list[JsonValue]) -> list[JsonValue]:
    """The same value in other JSON types, and the listed values that differ only in case."""
    found: list[JsonValue] = []
    if isinstance(value, str):
        found += [choice for choice in choices if isinstance(choice, str) and choice.lower() == value.strip().lower()]
        try:
            parsed = orjson.loads(value.strip().lower())
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            parsed = None
        if isinstance(parsed, bool | int | float) and math.isfinite(parsed):
            found.append(parsed)
    elif isinstance(value, bool | int | float):
        found.append(json.dumps(value))
    if isinstance(value, float) and value.is_integer():
        found.append(int(value))
    return [*found, [value]] if not isinstance(value, list) else [*found, *(value if len(value) == 1 else ())]
