"""The plan, the central contract of Nestor.

A :class:`Plan` is a frozen, typed, directed acyclic graph of API calls. A planner backend produces it, the compiler
proves it, the executor runs it, demos store it and evaluations score it. It is never mutated; run state is in
:mod:`services.contracts.run`. It follows NESTful (nested sequences of API calls, section 3): a step's ``id`` is the
label, a :class:`Reference` is ``$var1.field$``.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, model_validator

from services.contracts.base import ApiId, Contract, JsonPath, StepId, before_every

MAX_STEPS = 10_000
MAX_PATH = 32
_PART, _FEW = 10_000, 100
"""Items of a list that are written at a time, and members of each of them: threads are switched only in between."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
Said = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class LiteralValue(Contract):
    """A value known before anything runs, of any JSON type."""

    kind: Literal["literal"] = "literal"
    value: JsonValue
    partial: bool = Field(
        default=False,
        exclude_if=lambda partial: not partial,
        description="An earlier run made it from a list that it did not read to its end.",
    )


class Match(Contract):
    """Chooses the item of a list that best matches words of the request."""

    said: tuple[Said, ...] = Field(
        max_length=8,
        description="The words of the request that were looked up. Without any, all items match equally well, and "
        "only a change has to choose between them.",
    )
    words: tuple[Said, ...] = Field(
        default=(),
        max_length=32,
        description="The request's other words. For a read, they decide between items that match equally well.",
    )
    pick: Literal["any", "extreme"] | None = Field(
        default=None,
        exclude_if=lambda pick: pick is None,
        description="The request means any item (or the first), or an extreme one, such as the cheapest. Then reads "
        "take the item as written. A change takes the first of those that match; of extreme ones, the only one.",
    )
    given: str | int | float | None = Field(
        default=None,
        exclude_if=lambda given: given is None,
        description="The value that the application gives for this argument, such as the answer to a question. An item "
        "with this value counts like one whose field equals what was looked up.",
    )


class Reference(Contract):
    """A value inside the output of an earlier step. An empty path is the whole output.

    With a `match`, the first index of the path is replaced by that of the best matching item, if any matches.
    """

    kind: Literal["reference"] = "reference"
    step: StepId
    path: JsonPath = Field(default=(), max_length=MAX_PATH)
    match: Match | None = Field(default=None, exclude_if=lambda match: match is None)
    """Not serialised if None, so that plans without matches keep their ids from versions without this field."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.match is not None and not any(isinstance(part, int) for part in before_every(self.path)):
            raise ValueError("a match needs a list to choose from: a path with an index")
        return self


class ItemReference(Contract):
    """A value inside the current item of the step's own `foreach`."""

    kind: Literal["item"] = "item"
    path: JsonPath = Field(default=(), max_length=MAX_PATH)


class ListValue(Contract):
    """A list built from values, at least one of which is usually a reference."""

    kind: Literal["list"] = "list"
    items: tuple["Value", ...]


class ObjectValue(Contract):
    """An object built from values."""

    kind: Literal["object"] = "object"
    fields: dict[str, "Value"]


Value = Annotated[
    LiteralValue | Reference | ItemReference | ListValue | ObjectValue,
    Field(discriminator="kind"),
]


class ForEach(Contract):
    """Runs the step once for each element of a list. The step's output is the list of outputs, in order."""

    items: Value
    parallel: int = Field(default=8, ge=1, le=64, description="Number of items that run at the same time.")


class When(Contract):
    """A comparison. The step is skipped if it is false. It is deliberately not an expression language."""

    left: Value
    op: Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "exists"]
    right: Value = LiteralValue(value=None)


class Step(Contract):
    """One API call. Its dependencies are its references and `after`."""

    id: StepId
    api: ApiId
    arguments: dict[str, Value] = Field(default_factory=dict)
    foreach: ForEach | None = None
    when: When | None = None
    after: tuple[StepId, ...] = ()


class AnswerOutput(Contract):
    """One of the values that answer the request (NESTful's ``var_result``)."""

    name: str = Field(min_length=1, max_length=200)
    value: Reference


class Plan(Contract):
    """A graph of API calls and the outputs that answer the request.

    ``id`` is the SHA-256 of the canonical content. Equal plans have equal ids, so an approval of an id covers every
    argument of the plan. It is computed if missing, and a wrong one is refused.
    """

    id: str = Field(default="", description="Content hash; computed.")
    steps: tuple[Step, ...] = Field(min_length=1, max_length=MAX_STEPS)
    answer: tuple[AnswerOutput, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        ids = [step.id for step in self.steps]
        if len(set(ids)) != len(ids):
            raise ValueError("step ids must be unique")
        expected = content_hash(self.model_dump(mode="json", exclude={"id"}))
        if not self.id:
            object.__setattr__(self, "id", expected)
        elif self.id != expected:
            raise ValueError("id is not the hash of the plan's content")
        return self

    def step(self, step_id: str) -> Step | None:
        """The step of that id, or None."""
        return next((step for step in self.steps if step.id == step_id), None)


def content_hash(content: JsonValue) -> str:
    """SHA-256, in hex, of a JSON value in canonical form (sorted keys, no spaces)."""
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


def content_hash_in_parts(content: JsonValue, between: Callable[[], None] = lambda: None) -> str:
    """:func:`content_hash` of what may be large, for a thread: meanwhile the event loop goes on.

    Calls ``between`` before each part; what that raises ends the work.
    """
    digest = hashlib.sha256()

    def write(value: JsonValue) -> None:
        between()
        if isinstance(value, dict) and not _is_short(value):
            for number, name in enumerate(sorted(value)):
                digest.update(f"{',' if number else '{'}{_CANONICAL.encode(name)}:".encode())
                write(value[name])
            digest.update(b"}")
        elif isinstance(value, list) and not _is_short(value):
            for start in range(0, len(value), _PART):
                write_items(value[start : start + _PART], b"," if start else b"[")
            digest.update(b"]")
        else:
            digest.update(_CANONICAL.encode(value).encode())

    def write_items(items: list[JsonValue], before: bytes) -> None:
        between()
        if _SCALARS.issuperset(map(type, items)) or all(map(_is_short, items)):
            digest.update(before + _CANONICAL.encode(items)[1:-1].encode())
            return
        for item in items:
            digest.update(before)
            write(item)
            before = b","

    write(content)
    return digest.hexdigest()


def _is_short(value: JsonValue) -> bool:
    """Whether a value is no list and no object, or one with few of which none is a list or an object."""
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        return len(value) <= _FEW and _SCALARS.issuperset(map(type, members))
    return True


def scalars(value: Value) -> Iterator[str | int | float | bool | None]:
    """Every string, number, boolean and null in a value, depth first. Values of references are not included."""
    if isinstance(value, LiteralValue):
        yield from _scalars(value.value)
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from scalars(item)
    elif isinstance(value, ObjectValue):
        for field in value.fields.values():
            yield from scalars(field)


def _scalars(value: JsonValue) -> Iterator[str | int | float | bool | None]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _scalars(one)
    else:
        yield value


def references(value: Value) -> Iterator[Reference]:
    """Every reference to another step inside a value, depth first."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from references(item)
    elif isinstance(value, ObjectValue):
        for field in value.fields.values():
            yield from references(field)


def step_values(step: Step) -> Iterator[Value]:
    """Every value a step is given: its arguments, and those of its `foreach` and its `when`."""
    yield from step.arguments.values()
    if step.foreach is not None:
        yield step.foreach.items
    if step.when is not None:
        yield from (step.when.left, step.when.right)


def step_references(step: Step) -> Iterator[Reference]:
    """Every reference a step makes: in its arguments, its `foreach` and its `when`."""
    for value in step_values(step):
        yield from references(value)


def dependencies(step: Step) -> frozenset[str]:
    """The ids of the steps that must finish before this one can start."""
    return frozenset(ref.step for ref in step_references(step)) | frozenset(step.after)
