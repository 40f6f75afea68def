"""Random plans in a form of their own, which the judge can evaluate without the executor."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import SecretStr

from services.contracts.api import Api, RequestBody
from services.contracts.execution import ExecuteRequest
from services.contracts.plan import ForEach, ListValue, Reference, Step, Value, When
from services.contracts.planning import CompiledPlan
from services.signing import PlanSigner
from tests.support.executing import api, compiled, item, literal, parameter, ref, step

PROOF_KEY = "chaos" * 8
BLOB_WIDTH = 40
"""The response to a call of this width is larger than what the executor keeps inline."""


class Operation(StrEnum):
    """What a call does at the upstream; the value is also its path there."""

    READ = "read"
    POST = "post"
    KEYED = "keyed"
    """A POST with an Idempotency-Key."""
    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Source:
    """A value from an earlier task; for a mapped task, the value of this item."""

    task: str
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds if the width of the source's output is below the bound."""

    source: Source
    below: int


@dataclass(frozen=True, slots=True)
class Task:
    """One step.

    Attributes:
        sources: the values it sends along.
        width: how many values its answer holds for others to map over; the answer's ``n``.
        each: the task whose values it maps over.
        keep: if set, it maps only over values whose ``n`` is below this.
        count: the number of calls; None if it is not mapped.
    """

    id: str
    operation: Operation
    sources: tuple[Source, ...]
    width: int
    each: str | None = None
    keep: int | None = None
    count: int | None = None
    parallel: int = 1
    condition: Condition | None = None
    after: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """The tasks whose values it needs."""
        conditions = (self.condition.source,) if self.condition else ()
        return frozenset(source.task for source in self.sources + conditions) | ({self.each} if self.each else set())


@dataclass(frozen=True, slots=True)
class Case:
    """A run to make: its tasks in order, and the request for it."""

    run_id: str
    tasks: tuple[Task, ...]
    request: ExecuteRequest

    @property
    def durable(self) -> bool:
        """Whether it has mutating calls."""
        return any(task.operation is not Operation.READ for task in self.tasks)

    def task(self, task_id: str) -> Task:
        """The task of that id."""
        return next(task for task in self.tasks if task.id == task_id)


def site(run_id: str, task_id: str) -> str:
    """The text by which the upstream knows which step a request belongs to."""
    return f"{run_id}/{task_id}"


def random_case(rng: random.Random, run_id: str, origin: str, *, deadline_s: float, step_deadline_s: float) -> Case:
    """A plan of 5 to 30 steps: chains, fans, maps, conditions. One in twenty only reads."""
    reading = rng.random() < 0.05
    tasks: dict[str, Task] = {}
    for number in range(rng.randint(5, 30)):
        task = _task(rng, f"s{number}", tasks, reading)
        tasks[task.id] = task
    return case(run_id, tuple(tasks.values()), origin, deadline_s=deadline_s, step_deadline_s=step_deadline_s)


def _task(rng: random.Random, task_id: str, earlier: Mapping[str, Task], reading: bool) -> Task:
    weights = (1, 0, 0, 0, 0) if reading else (35, 30, 15, 12, 8)
    operation = rng.choices(tuple(Operation), weights)[0]
    # Preferring recent tasks as sources makes chains; allowing all earlier tasks makes fans.
    recent = list(earlier)[-rng.choice((1, 3, 30)) :]
    sources = tuple(_source(rng, earlier[name]) for name in rng.sample(recent, min(len(recent), rng.randint(0, 3))))
    width = BLOB_WIDTH if rng.random() < 0.05 else rng.randint(1, 6)
    each, keep, count = _mapping(rng, earlier) if rng.random() < 0.2 else (None, None, None)
    single = [task.id for task in earlier.values() if task.each is None]
    condition = None
    if single and keep is None and rng.random() < 0.1:
        condition = Condition(Source(rng.choice(single)), below=rng.choice((1, 3, 100)))
    after = tuple(rng.sample(sorted(earlier), 1)) if earlier and rng.random() < 0.1 else ()
    parallel = rng.randint(1, 4)
    return Task(task_id, operation, sources, width, each, keep, count, parallel, condition, after)


def _source(rng: random.Random, task: Task) -> Source:
    return Source(task.id, None if task.count is None else rng.randrange(task.count))


def _mapping(rng: random.Random, earlier: Mapping[str, Task]) -> tuple[str | None, int | None, int | None]:
    narrow = [task for task in earlier.values() if task.width < BLOB_WIDTH]
    if not narrow:
        return None, None, None
    over = rng.choice(narrow)
    if over.count is not None:
        return over.id, None, over.count
    keep = rng.randint(1, 6) if rng.random() < 0.3 else None
    return over.id, keep, over.width if keep is None else min(keep, over.width)


def case(
    run_id: str, tasks: tuple[Task, ...], origin: str, *, deadline_s: float = 60, step_deadline_s: float = 30
) -> Case:
    """The case of these tasks; the last two give the answer."""
    apis = {operation: _api(origin, operation) for operation in Operation}
    by_id = {task.id: task for task in tasks}
    steps = [_step(run_id, task, by_id, apis[task.operation]) for task in tasks]
    answer = {task.id: ref(task.id) for task in tasks[-2:]}
    mutating = tuple(task.id for task in tasks if apis[task.operation].mutating)
    plan: CompiledPlan = compiled(list(apis.values()), *steps, answer=answer, mutating=mutating)
    plan = PlanSigner(SecretStr(PROOF_KEY)).signed(plan, "default")
    request = ExecuteRequest(
        run_id=run_id,
        compiled=plan,
        approved=plan.plan.id,
        deadline_ms=int(deadline_s * 1000),
        step_deadline_ms=int(step_deadline_s * 1000),
    )
    return Case(run_id, tasks, request)


def _api(origin: str, operation: Operation) -> Api:
    bodied = operation in (Operation.POST, Operation.KEYED, Operation.PUT)
    method = {Operation.READ: "GET", Operation.KEYED: "POST"}.get(operation, operation.value.upper())
    return api(
        origin,
        f"/{operation}",
        parameter("site"),
        parameter("item"),
        parameter("width"),
        parameter("inputs", "body" if bodied else "query"),
        name=operation.value,
        method=method,
        body=RequestBody() if bodied else None,
        idempotency_header="Idempotency-Key" if operation is Operation.KEYED else None,
    )


def _step(run_id: str, task: Task, tasks: Mapping[str, Task], called: Api) -> Step:
    arguments: dict[str, Value] = {"site": literal(site(run_id, task.id)), "width": literal(task.width)}
    if task.sources:
        arguments["inputs"] = ListValue(items=tuple(_reference(source) for source in task.sources))
    foreach = None
    if task.each is not None:
        arguments["item"] = item("value")
        items = ref(task.each) if tasks[task.each].each is not None else ref(task.each, "many")
        foreach = ForEach(items=items, parallel=task.parallel)
    return step(task.id, called, arguments, foreach=foreach, when=_when(task), after=task.after)


def _when(task: Task) -> When | None:
    """The step's condition: for each item or for the whole step. A step has at most one."""
    if task.keep is not None:
        return When(left=item("n"), op="lt", right=literal(task.keep))
    if task.condition is None:
        return None
    return When(left=_reference(task.condition.source, "n"), op="lt", right=literal(task.condition.below))


def _reference(source: Source, field: str = "value") -> Reference:
    return ref(source.task, field) if source.item is None else ref(source.task, source.item, field)
