"""Solved requests to show to the planner, chosen by the Demo Selector itself (TPTU-v2, section 3.4).

They come from a folder in the data's format, or from a file in the format of ``nestor demos import``. As in the papers'
few-shot setting, they can also come from the training splits of the measured folder, without the requests that are
asked. From a folder, a request solved by several calls is shown as a whole (task level). Each call that takes no value
from another also shows the use of its API (API level).

No request is shown its own solution: a demo of the same request, or from data with the same id, is skipped. For that,
the selector is asked for as many additional demos as could be skipped, and the first of the remaining ones are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from demo_svc.service import DemoService
from demo_svc.settings import DemoSettings
from demo_svc.storage import DemoStorage
from evals.data import DataError, Instance, read_all, read_lines, training_splits
from evals.planning.calls import graph_of_calls, links_of, step_id
from services.compute import ComputePool
from services.contracts.demo import Demo, SelectedDemo, demo_id
from services.contracts.plan import MAX_STEPS, AnswerOutput, Plan, Reference, Step
from services.contracts.retrieval import Candidate
from services.contracts.solve import SolveOptions
from services.encoder import Encoder
from services.errors import ServiceError
from services.storage.engine import create_engine
from services.storage.migrate import migrate

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Solved:
    """A demo, and the id of the request that it was made from; None if it comes from a file of demos."""

    demo: Demo
    instance: str | None = None


def read_demos(source: Path) -> list[Solved]:
    """The demos of a folder (of all its splits) or of a file.

    Raises:
        DataError: the source cannot be read, a line is not a demo, or there are none.
    """
    found = list(_of_folder(source) if source.is_dir() else map(Solved, _of_file(source)))
    if not found:
        raise DataError(f"{source} holds no solved request that could be shown")
    return found


def read_shots(folder: Path, asked: Sequence[Instance]) -> list[Solved]:
    """The demos of a folder's training splits (see :func:`training_splits`), without the requests that are asked.

    Raises:
        DataError: the folder cannot be read, or has no other solved request.
    """
    whole = read_all(folder).instances
    splits = training_splits({one.split or "" for one in whole})
    ids, queries = {one.id for one in asked}, {_plain(one.query) for one in asked}
    others = [one for one in whole if one.id not in ids and _plain(one.query) not in queries]
    found = [solved for one in others if (one.split or "") in splits for solved in _of_instance(one)]
    if not found:
        raise DataError(f"{folder} holds no solved request for training that is not asked itself: none can be shown")
    return found


def plan_of(instance: Instance) -> Plan | None:
    """The reference solution as a plan; None if it calls nothing or is not a valid plan (an odd name, too many steps).

    Its answer is the outputs of the calls that no other call uses: the data states no more.
    """
    graph = graph_of_calls(instance.calls)
    if not 0 < len(graph.nodes) <= MAX_STEPS:
        return None
    used = {link.place for node in graph.nodes for _, link in links_of(node)}
    last = [place for place in range(len(graph.nodes)) if place not in used]
    try:
        steps = tuple(Step(id=step_id(n), api=one.api, arguments=one.arguments) for n, one in enumerate(graph.nodes))
        answer = tuple(AnswerOutput(name=f"result{n}", value=Reference(step=step_id(n))) for n in last)
        return Plan(steps=steps, answer=answer)
    except ValidationError:
        return None


class DemoSelector:
    """The demos of one measurement.

    Args:
        service: stores the demos and selects among them.
        solved: the stored demos.
        shots: the most demos shown per request; None: as many as the gateway asks for.
    """

    def __init__(self, service: DemoService, solved: Sequence[Solved], shots: int | None = None) -> None:
        self._service = service
        self._shots = SolveOptions().demos if shots is None else shots
        self._of_query: dict[str, set[str]] = defaultdict(set)
        self._of_instance: dict[str, set[str]] = defaultdict(set)
        for one in solved:
            key = demo_id(one.demo)
            self._of_query[_plain(one.demo.query)].add(key)
            if one.instance is not None:
                self._of_instance[one.instance].add(key)

    async def select(self, instance: Instance, candidates: Sequence[Candidate]) -> tuple[SelectedDemo, ...]:
        """The demos for a request with these candidates, selected as the gateway does, without the request's own."""
        k = self._shots
        own = self._of_query.get(_plain(instance.query), set()) | self._of_instance.get(instance.id, set())
        if not candidates:
            return ()
        chosen = await self._service.select(instance.query, [one.api.id for one in candidates], k + len(own))
        others = [(demo, match) for demo, match in chosen if demo.id not in own]
        return tuple(SelectedDemo(demo=d, similarity=m.similarity, level=m.level) for d, m in others[:k])


@asynccontextmanager
async def open_demo_selector(
    solved: Sequence[Solved], encoder: Encoder, folder: Path, shots: int | None = None
) -> AsyncIterator[DemoSelector]:
    """Open a store of these demos, with its database in a folder. It shows at most ``shots`` demos per request.

    Raises:
        DataError: a demo is refused.
    """
    settings = DemoSettings()
    engine = create_engine(f"sqlite+aiosqlite:///{folder / 'demos.db'}")
    storage = DemoStorage(engine)
    pool = ComputePool(settings.compute_workers, settings.compute_waiting, name="demo-encoder")
    try:
        await migrate(engine, "demo_svc")
        service = DemoService(storage, encoder, pool, settings.similarity_threshold)
        await _fill(service, [one.demo for one in solved])
        yield DemoSelector(service, solved, shots)
    finally:
        await pool.close()
        storage.close()
        await engine.dispose()


async def _fill(service: DemoService, demos: Sequence[Demo]) -> None:
    try:
        for start in range(0, len(demos), _BATCH):
            await service.add(demos[start : start + _BATCH])
    except ServiceError as error:
        raise DataError(f"the demos cannot be used: {error.detail}") from None


def _of_folder(folder: Path) -> Iterator[Solved]:
    for instance in read_all(folder).instances:
        yield from _of_instance(instance)


def _of_instance(instance: Instance) -> Iterator[Solved]:
    plan = plan_of(instance)
    if plan is None:
        return
    if len(plan.steps) > 1:
        yield Solved(Demo(level="task", query=instance.query, plan=plan), instance.id)
    for call, node in zip(instance.calls, graph_of_calls(instance.calls).nodes, strict=True):
        alone = None if any(links_of(node)) else plan_of(instance.model_copy(update={"calls": (call,)}))
        if alone is not None:
            yield Solved(Demo(level="api", query=instance.query, plan=alone), instance.id)


def _of_file(file: Path) -> Iterator[Demo]:
    return (demo for _, demo in read_lines(file, Demo))


def _plain(query: str) -> str:
    return " ".join(query.casefold().split())
