"""Missing arguments: their possible producers, implicit calls, and questions for the rest.

NESTful calls a call *implicit* if the request does not mention it but a later call needs its output. The compiler adds
one only if it is unambiguous: the argument is an identifier (known to systems, rarely said by people), exactly one of
the given APIs produces it, both calls only read, and the plan has all arguments that the added call needs, at least
one. A call without arguments (``latest()``) finds the same thing for every request, so nothing shows that it is the
thing meant: it is only offered as a fix, like an item of a list.
Each value filled in this way is reported as a warning, and the proof lists the added steps.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pydantic_core import to_json

from planner_svc.compiler.access import decision_of, secrets_for
from planner_svc.compiler.arguments import MAX_NAME, ArgumentChecker
from planner_svc.compiler.assign import mismatch
from planner_svc.compiler.findings import Findings
from planner_svc.compiler.nodes import Node, shown
from planner_svc.compiler.schemas import Schemas
from services.compute import checkpoint
from services.contracts.api import Api, Location, Parameter
from services.contracts.base import JsonPath
from services.contracts.evidence import written_path
from services.contracts.plan import LiteralValue, Plan, Reference, Step, Value
from services.contracts.planning import DiagnosticCode, Fix, Policy, Question
from services.supply import WRAPPERS, Input, Operation, full_name, is_circular, roots, shipped, signs

MAX_COMPLETED = 100
MAX_MISSING = 1_000
"""Most missing arguments that are filled or reported; a single one already keeps a plan from being proved."""
MAX_INSERTED = 16
MAX_PRODUCERS = 50
"""Most fields tried for one name; with more of them, the choice is ambiguous anyway."""
MAX_FIELDS = 200
MAX_QUESTIONS = 50
MAX_FIXES = 3
_MAX_SCHEMA = 64_000
"""Largest schema, in bytes of JSON, that a question includes. The questions of many steps may be about one argument."""
_MAX_NESTING = 3
_MAX_TOLD = 300
"""Longest part of a description, in characters, that a question quotes."""
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,100}>")

_SPECIFIC = frozenset({"iata", "icao", "lat", "latitude", "lon", "lng", "longitude", "sku", "timezone", "token"})
"""Words that are an identifier's name by themselves."""
_IDENTIFIERS = _SPECIFIC | {"code", "guid", "handle", "id", "ids", "iso", "key", "ref", "reference", "slug"}
"""Last words of longer names that are identifiers."""
_BARE = (_IDENTIFIERS - _SPECIFIC) | {"name"}
"""Names of arguments that mean another thing in another operation: the ``id`` of a customer is not that of an order."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_Index = dict[str, list[tuple[Api, JsonPath, Node]]]


@dataclass(frozen=True, slots=True)
class Missing:
    """A required argument that a step lacks."""

    step: Step
    api: Api
    parameter: Parameter
    node: Node


@dataclass(frozen=True, slots=True)
class Producer:
    """A field of an API's response that may hold a missing argument."""

    api: Api
    path: JsonPath
    """The path to the field; it takes the first item of each list."""
    certain: bool
    """Whether the argument is an identifier and the field, outside lists, is surely that of the same thing."""


def find_missing(plan: Plan, apis: Mapping[str, Api], checker: ArgumentChecker) -> list[Missing]:
    """Required arguments that steps of known APIs lack, in the plan's order; the first :data:`MAX_MISSING`."""
    required = {
        api_id: [entry for entry in reversed(checker.parameters(apis[api_id]).values()) if entry[0].needed]
        for api_id in {step.api for step in plan.steps} & apis.keys()
    }
    found = (
        Missing(step, apis[step.api], parameter, node)
        for step in plan.steps
        for parameter, node in required.get(step.api, ())
        if parameter.name not in step.arguments
    )
    return list(islice(found, MAX_MISSING))


class Completer:
    """Fills missing arguments of one plan if there is exactly one way to do so."""

    def __init__(
        self,
        plan: Plan,
        apis: Mapping[str, Api],
        policy: Policy,
        configured: frozenset[str] | None,
        checker: ArgumentChecker,
        schemas: Schemas,
    ) -> None:
        self._steps = list(plan.steps)
        self._answer = plan.answer
        self._checker = checker
        self._schemas = schemas
        self._callable = {
            api.id
            for api in apis.values()
            if not api.mutating
            and not api.deprecated
            and secrets_for(api, configured) is not None
            and decision_of(policy, api).allows
        }
        self._fields, self._listed = self._index(apis.values())
        self._literals = self._known_literals()
        self._operations: dict[str, Operation] = {}
        self.inserted: list[str] = []

    def complete(self, missing: list[Missing], findings: Findings) -> Plan:
        """The plan with all values that could be filled; each is reported as a warning."""
        for gap in missing[:MAX_COMPLETED]:
            if gap.api.mutating:
                continue  # a wrong guess is harmless in a read, but not in a change
            value = self._from_plan(gap) or self._from_call(gap)
            if value is None:
                continue
            index = self._index_of(gap.step.id)
            step = self._steps[index]
            self._steps[index] = step.model_copy(update={"arguments": {**step.arguments, gap.parameter.name: value}})
            source = f"{_written(value.path)} of the output of {value.step!r}"
            message = f"{gap.parameter.name!r} was missing and is taken from {source}"
            findings.warning(DiagnosticCode.MISSING_ARGUMENT, message, gap.step.id, gap.parameter.name)
        return Plan(steps=tuple(self._steps), answer=self._answer)

    def fixes(self, gap: Missing) -> list[Fix]:
        """Earlier steps and APIs that may supply a missing argument, best match first."""
        found: dict[str, Producer] = {}
        for producer in self._ranked(gap):
            found.setdefault(producer.api.id, producer)
        here = [
            Fix(message=f"Take {_written(found[step.api].path)} of the output of {step.id!r}.", api=step.api)
            for step in self._steps[: self._index_of(gap.step.id)]
            if step.api in found
        ]
        return here[:MAX_FIXES] + [
            Fix(message=f"Call {producer.api.id}, whose output has {_written(producer.path)}.", api=producer.api.id)
            for producer in list(found.values())[:MAX_FIXES]
            if producer.api.id in self._callable and producer.api.id != gap.api.id
        ]

    def _ranked(self, gap: Missing) -> list[Producer]:
        """The producers, the likeliest first. Those that need the value themselves are last.

        What is filled in without asking is decided by :meth:`_certain`: its rule is right more often than the
        likeliest producer, which is only a better guess.
        """
        found = list(islice(self._producers(gap), MAX_PRODUCERS))
        need = Input.of_parameter(self._operation(gap.api), gap.parameter)
        sources = [self._operation(producer.api) for producer in found]
        rows = []
        for source, producer in zip(sources, found, strict=True):
            checkpoint()
            name = full_name([part for part in producer.path if isinstance(part, str)])
            rows.append(signs(need, source, roots(name)))
        likely = shipped().scores(rows).tolist()
        order = sorted(range(len(found)), key=lambda place: (is_circular(need, sources[place]), -likely[place]))
        return [found[place] for place in order]

    def _operation(self, api: Api) -> Operation:
        """What an API's names tell. Many arguments of a plan may have the same producers."""
        if api.id not in self._operations:
            self._operations[api.id] = Operation.of(api)
        return self._operations[api.id]

    def _from_plan(self, gap: Missing) -> Reference | None:
        """A reference to the one earlier step whose output holds the argument."""
        producers = self._certain(gap)
        found = [
            Reference(step=step.id, path=producers[step.api].path)
            for step in self._steps[: self._index_of(gap.step.id)]
            if step.foreach is None and step.api in producers
        ]
        return found[0] if len(found) == 1 else None

    def _from_call(self, gap: Missing) -> Reference | None:
        """A reference to a new step: the call of the one API that can produce the argument from known values."""
        calls = {}
        for producer in self._certain(gap).values():
            if producer.api.id in self._callable and producer.api.id != gap.api.id:
                arguments = self._arguments_for(producer.api, gap)
                if arguments is not None:
                    calls[producer.api.id] = (producer, arguments)
        if len(calls) != 1 or len(self.inserted) >= MAX_INSERTED:
            return None
        producer, arguments = next(iter(calls.values()))
        taken = {step.id for step in self._steps}
        step_id = next(name for n in range(1, len(taken) + 2) if (name := f"implicit{n}") not in taken)
        step = Step(id=step_id, api=producer.api.id, arguments=arguments)
        self._steps.insert(self._index_of(gap.step.id), step)
        self.inserted.append(step_id)
        return Reference(step=step_id, path=producer.path)

    def _arguments_for(self, api: Api, gap: Missing) -> dict[str, Value] | None:
        """An API's required arguments, from literals of the same name in the plan; None if one is not known or needed.

        A name such as ``id`` says too little: the literal may identify something else.
        """
        arguments: dict[str, Value] = {}
        for name, (parameter, node) in self._checker.parameters(api).items():
            if parameter.needed:
                if _fold(name) in _BARE:
                    return None
                own = gap.step.arguments.get(name)
                known = own if isinstance(own, LiteralValue) else self._literals.get(_fold(name))
                if known is None or self._schemas.problem(node, known.value) is not None:
                    return None
                arguments[name] = known
        return arguments or None

    def _certain(self, gap: Missing) -> dict[str, Producer]:
        """The best certain producer of each API, by the API's id."""
        found: dict[str, Producer] = {}
        for producer in self._producers(gap):
            if producer.certain:
                found.setdefault(producer.api.id, producer)
        return found

    def _producers(self, gap: Missing) -> Iterator[Producer]:
        """Fields with the argument's name first, then fields whose API or object has the rest of the name.

        ``countryCode`` comes from a field ``countryCode``, or from a field ``code`` of an API named ``findCountry``.
        Of each, fields inside lists are last.
        """
        wanted, specific = _fold(gap.parameter.name), _is_identifier(gap.parameter.name)
        as_text = gap.parameter.location is not Location.BODY
        for start in range(max(len(wanted) - 1, 1)):
            rest = wanted[:start]
            for index in (self._fields, self._listed):
                entries = index.get(wanted[start:], [])
                clear = specific and index is self._fields and len(entries) <= MAX_PRODUCERS
                for api, path, node in entries[:MAX_PRODUCERS]:
                    named = not rest or (len(rest) >= 3 and rest in _fold(api.name + "".join(map(str, path[:-1]))))
                    if named and mismatch(self._schemas, node, gap.node, as_text=as_text) is None:
                        certain = clear and (not rest or _belongs(gap.parameter.name, rest, api, path))
                        yield Producer(api, path, certain)

    def _index(self, apis: Iterable[Api]) -> tuple[_Index, _Index]:
        """Response fields by their last name, normalized: those outside lists, and those inside."""
        outside: _Index = {}
        inside: _Index = {}
        for api in apis:
            for path, node in self._fields_of(self._checker.response(api)):
                index = inside if any(isinstance(part, int) for part in path) else outside
                index.setdefault(_fold(str(path[-1])), []).append((api, path, node))
        return outside, inside

    def _fields_of(self, root: Node) -> Iterator[tuple[JsonPath, Node]]:
        """The named fields of an answer, breadth first, those inside lists last. Of a list, the first item is read."""
        waiting: list[tuple[JsonPath, Node]] = [((), root)]
        lists: list[tuple[JsonPath, Node]] = []
        for _ in range(MAX_FIELDS):
            if not waiting:
                waiting, lists = lists, []
            if not waiting:
                return
            path, node = waiting.pop(0)
            if path and isinstance(path[-1], str):
                yield path, node
            if sum(isinstance(part, str) for part in path) >= _MAX_NESTING:
                continue
            kinds = self._schemas.kinds(node) - {"null"}
            if kinds == {"object"}:
                waiting += [((*path, name), child) for name, child in self._schemas.properties(node).items()]
            elif kinds == {"array"} and isinstance(item := self._schemas.child(node, 0, strict=False), Node):
                lists.append(((*path, 0), item))

    def _known_literals(self) -> dict[str, LiteralValue]:
        """Literals of the plan by argument name, if all with that name are equal."""
        found: dict[str, LiteralValue | None] = {}
        for step in self._steps:
            for name, value in step.arguments.items():
                if isinstance(value, LiteralValue):
                    key = _fold(name)
                    found[key] = value if found.get(key, value) == value else None
        return {key: value for key, value in found.items() if value is not None}

    def _index_of(self, step_id: str) -> int:
        return next(index for index, step in enumerate(self._steps) if step.id == step_id)


def report_missing(missing: list[Missing], completer: Completer | None, findings: Findings) -> tuple[Question, ...]:
    """An error and a question for each argument that is still missing."""
    questions = []
    for number, gap in enumerate(missing):
        fixes = completer.fixes(gap) if completer is not None and number < MAX_QUESTIONS else []
        message = f"{gap.api.id} needs {gap.parameter.name!r}" + _detail(gap.parameter)
        findings.error(DiagnosticCode.MISSING_ARGUMENT, message, gap.step.id, gap.parameter.name, fixes)
        if number < MAX_QUESTIONS:
            questions.append(_question(gap))
    return tuple(questions)


def questions_inside(
    lacking: Iterable[tuple[str, str, Node]], plan: Plan, apis: Mapping[str, Api]
) -> tuple[Question, ...]:
    """A question for each required field that an object of a step does not have."""
    found = []
    for step_id, argument, node in islice(lacking, MAX_QUESTIONS):
        step = plan.step(step_id)
        api = apis.get(step.api) if step is not None else None
        if step is not None and api is not None and len(argument) <= MAX_NAME:
            schema = node.schema if isinstance(node.schema, dict) else {}
            told = schema.get("description")
            parameter = Parameter(
                name=argument,
                wire_name=argument,
                location=Location.BODY,
                required=True,
                description=told if isinstance(told, str) else "",
                json_schema=schema,
            )
            found.append(_question(Missing(step, api, parameter, node)))
    return tuple(found)


def _question(gap: Missing) -> Question:
    *holders, last = [part for part in re.sub(r"\[\d+\]", "", gap.parameter.name).split(".") if part] or [""]
    label = " of the ".join(" ".join(_words(part)) for part in (last, *holders[-1:])) or gap.parameter.name
    purpose = gap.api.summary or gap.api.name
    schema = gap.parameter.json_schema
    choices = schema.get("enum")
    listed = ", ".join(shown(str(choice)) for choice in choices[:20]) if isinstance(choices, list) else ""
    text = f"What should “{label}” be for “{purpose.rstrip('.')}”?{_detail(gap.parameter)}"
    if listed:
        text += f" Choose one of: {listed}."
    return Question(
        step=gap.step.id,
        api=gap.api.id,
        argument=gap.parameter.name,
        text=text,
        json_schema=schema if len(to_json(schema)) <= _MAX_SCHEMA else {},
    )


def _detail(parameter: Parameter) -> str:
    description = " ".join(_TAG.sub(" ", parameter.description[: 4 * _MAX_TOLD]).split())[:_MAX_TOLD].rstrip(".")
    return f" ({description})" if description else ""


def _is_identifier(name: str) -> bool:
    """Whether the last word of a name is that of an identifier."""
    words = _words(name)
    return bool(words) and words[-1] in (_IDENTIFIERS if len(words) > 1 else _SPECIFIC)


def _belongs(name: str, rest: str, api: Api, path: JsonPath) -> bool:
    """Whether the field at a path is one of the thing that the first words of a name say.

    The ``id`` in ``order.customer.id`` is the customer's, and that of ``getCompetition`` is no ``petId``.
    """
    words = _words(name)
    first = next((words[:n] for n in range(1, len(words)) if "".join(words[:n]) == rest), None)
    holders = (part for part in reversed(path[:-1]) if isinstance(part, str) and part.lower() not in WRAPPERS)
    held = {word.removesuffix("s") for word in _words(next(holders, api.name))}
    return first is not None and held.issuperset(word.removesuffix("s") for word in first)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _written(path: JsonPath) -> str:
    return written_path(path).removeprefix(".")


def _fold(name: str) -> str:
    return "".join(character for character in name if character.isalnum()).lower()
