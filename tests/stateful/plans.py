"""Plans that Hypothesis draws, and the expected answer of each call, computed without running the plan."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from services.contracts.api import Api, RequestBody
from services.contracts.plan import ForEach, ListValue, Reference, Step, Value, When, content_hash
from services.contracts.planning import CompiledPlan
from tests.support.executing import api, compiled, item, literal, parameter, ref, step

Answer = dict[str, Any]
MAX_TASKS = 5


class Kind(StrEnum):
    """What a call does; the value is also its path at the upstream."""

    READ = "read"
    POST = "post"
    KEYED = "keyed"
    """A POST with an Idempotency-Key."""
    PUT = "put"


class Fate(StrEnum):
    """How the upstream treats a request."""

    ANSWER = "answer"
    HOLD = "hold"
    """It takes effect, and is answered when held answers are released."""
    LOSE = "lose"
    """It takes effect, then the connection is cut."""
    DROP = "drop"
    """The connection is cut before it takes effect."""
    FAIL = "fail"
    BUSY = "busy"
    """503 with Retry-After: 0."""


_DRAWN = (Fate.ANSWER, Fate.HOLD, Fate.HOLD, *Fate)
"""HOLD occurs more often, because a held call can be in flight when its executor dies."""
HARMLESS = frozenset({Fate.ANSWER, Fate.HOLD})


@dataclass(frozen=True, slots=True)
class Task:
    """One step.

    Attributes:
        inputs: the earlier tasks whose values it sends.
        each: the earlier task whose values it maps over.
        unless_n_of: it runs only if the ``n`` of that task's answer is 0 or 1.
        fates: the fates of its requests in the order of arrival; later ones are answered.
    """

    id: str
    kind: Kind
    inputs: tuple[str, ...] = ()
    each: str | None = None
    parallel: int = 1
    unless_n_of: str | None = None
    fates: tuple[Fate, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The tasks whose values it needs."""
        return self.inputs + tuple(name for name in (self.each, self.unless_n_of) if name)


@st.composite
def task_lists(draw: st.DrawFn) -> tuple[Task, ...]:
    """Chains, fans, maps and conditions with at least one mutating call."""
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, MAX_TASKS))):
        earlier = [task.id for task in tasks]
        single = [task.id for task in tasks if task.each is None]
        kinds = st.sampled_from(Kind) if number else st.sampled_from((Kind.POST, Kind.KEYED, Kind.PUT))
        mapped = draw(st.booleans()) if earlier else False
        conditional = draw(st.integers(0, 3)) == 0 if single else False
        tasks.append(
            Task(
                f"s{number}",
                draw(kinds),
                tuple(draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True))) if earlier else (),
                draw(st.sampled_from(earlier)) if mapped else None,
                draw(st.integers(1, 2)),
                draw(st.sampled_from(single)) if conditional else None,
                tuple(draw(st.lists(st.sampled_from(_DRAWN), max_size=2))),
            )
        )
    return tuple(tasks)


def site(run_id: str, task_id: str) -> str:
    """The text by which the upstream knows which step a request belongs to."""
    return f"{run_id}/{task_id}"


def answer_to(at: str, element: str, inputs: list[str]) -> Answer:
    """The upstream's answer. It depends on the request, so an answer in the wrong place is detected."""
    digest = content_hash([at, element, *inputs])[:8]
    return {"value": digest, "n": int(digest, 16) % 3, "many": [{"value": f"{digest}.{n}"} for n in range(2)]}


@dataclass(frozen=True)
class Case:
    """A plan to run under a run id."""

    run_id: str
    tasks: tuple[Task, ...]
    origin: str

    def task(self, task_id: str) -> Task:
        """The task of that id."""
        return next(task for task in self.tasks if task.id == task_id)

    @cached_property
    def calls(self) -> dict[str, dict[str, Answer] | None]:
        """The calls of each task and their answers, by item ('' for a single call), if all earlier tasks succeed.

        None if no call is made because the condition of the task, or of one that it needs, does not hold.
        """
        calls: dict[str, dict[str, Answer] | None] = {}
        for task in self.tasks:
            if any(calls[name] is None for name in task.needs) or self.condition_fails(task, calls):
                calls[task.id] = None
                continue
            inputs = [_only_or_last(calls, name)["value"] for name in task.inputs]
            at = site(self.run_id, task.id)
            calls[task.id] = {element: answer_to(at, element, inputs) for element in self._elements(task, calls)}
        return calls

    def _elements(self, task: Task, calls: dict[str, dict[str, Answer] | None]) -> list[str]:
        if task.each is None:
            return [""]
        if self.task(task.each).each is None:
            return [each["value"] for each in _only_or_last(calls, task.each)["many"]]
        return [answer["value"] for answer in (calls[task.each] or {}).values()]

    def condition_fails(self, task: Task, calls: dict[str, dict[str, Answer] | None] | None = None) -> bool:
        """Whether a task is skipped by its own condition."""
        calls = calls if calls is not None else self.calls
        return bool(task.unless_n_of and _only_or_last(calls, task.unless_n_of)["n"] > 1)

    def output(self, task_id: str) -> Any:
        """The output that a step must have if it succeeded."""
        answers = list((self.calls[task_id] or {}).values())
        return answers if self.task(task_id).each is not None else answers[0]

    def ancestors(self, task_id: str) -> set[str]:
        """All tasks that a task needs, directly or indirectly."""
        found: set[str] = set()
        for name in self.task(task_id).needs:
            found |= {name} | self.ancestors(name)
        return found

    @cached_property
    def plan(self) -> CompiledPlan:
        """The plan; its mutating calls need an approval."""
        apis = apis_of(self.origin)
        steps = [self._step(task, apis[task.kind]) for task in self.tasks]
        mutating = tuple(task.id for task in self.tasks if task.kind is not Kind.READ)
        last = self.tasks[-1].id
        return compiled(list(apis.values()), *steps, answer={"last": ref(last)}, mutating=mutating, approvals=mutating)

    def _step(self, task: Task, called: Api) -> Step:
        arguments: dict[str, Value] = {"site": literal(site(self.run_id, task.id))}
        arguments["inputs"] = ListValue(items=tuple(self._reference(name, "value") for name in task.inputs))
        foreach = when = None
        if task.each is not None:
            arguments["item"] = item("value")
            items = ref(task.each, "many") if self.task(task.each).each is None else ref(task.each)
            foreach = ForEach(items=items, parallel=task.parallel)
        if task.unless_n_of is not None:
            when = When(left=ref(task.unless_n_of, "n"), op="lt", right=literal(2))
        return step(task.id, called, arguments, foreach=foreach, when=when)

    def _reference(self, name: str, field: str) -> Reference:
        """A reference to a task's answer; for a mapped task to its last answer, as it has always two."""
        return ref(name, field) if self.task(name).each is None else ref(name, 1, field)


def _only_or_last(calls: dict[str, dict[str, Answer] | None], name: str) -> Answer:
    return list((calls[name] or {}).values())[-1]


def apis_of(origin: str) -> dict[Kind, Api]:
    """The operations of the upstream."""
    return {kind: _api(origin, kind) for kind in Kind}


def _api(origin: str, kind: Kind) -> Api:
    bodied = kind is not Kind.READ
    return api(
        origin,
        f"/{kind}",
        *(parameter("site"), parameter("item"), parameter("inputs", "body" if bodied else "query")),
        name=kind.value,
        method={Kind.READ: "GET", Kind.PUT: "PUT"}.get(kind, "POST"),
        body=RequestBody() if bodied else None,
        idempotency_header="Idempotency-Key" if kind is Kind.KEYED else None,
    )
