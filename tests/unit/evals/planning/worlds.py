"""A small folder of nested requests, and backends whose answers are known."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.progress import Progress

from evals.data import Dataset, Instance, read_dataset
from evals.planning.asking import open_planner
from evals.planning.demonstrations import Solved, open_demo_selector, plan_of
from evals.planning.evaluate import Conditions, EvaluatedRequest, Evaluator, PlanReport, report
from evals.planning.offers import Offers, Source
from evals.planning.running import open_plan_runner
from evals.retrieve import build_snapshot
from planner_svc.models import PlanDraft
from retriever_svc.engine.ranking import RankingOptions
from services.contracts.api import Api
from services.contracts.planning import PlanRequest
from services.encoder import load_encoder
from tests.unit.evals.folders import folder

TOOLS: list[dict[str, Any]] = [
    {
        "name": "findHotel",
        "description": "Find a hotel in a city",
        "parameters": {
            "city": {"type": "string", "description": "The city", "required": True},
            "stars": {"type": "integer", "description": "How many stars at least", "required": False},
        },
        "outputs": {"hotel_id": {"type": "string", "description": "The id of the hotel"}},
    },
    {
        "name": "bookHotel",
        "description": "Book a room in a hotel",
        "parameters": {
            "hotel_id": {"type": "string", "description": "The id of the hotel", "required": True},
            "nights": {"type": "integer", "description": "How many nights", "required": True},
        },
        "outputs": {"ticket": {"type": "string", "description": "The ticket of the booking"}},
    },
    {
        "name": "getWeather",
        "description": "The weather of a city",
        "parameters": {"city": {"type": "string", "description": "The city", "required": True}},
        "outputs": {"temperature": {"type": "number", "description": "In degrees"}},
    },
]
ROWS: list[dict[str, Any]] = [
    {
        "id": "weather",
        "query": "What is the weather in Faro?",
        "tools": ["getWeather", "findHotel"],
        "calls": [{"api": "getWeather", "args": {"city": "Faro"}, "label": "var_1"}],
    },
    {
        "id": "both",
        "query": "What is the weather in Beja? Find a hotel in Faro with 4 stars.",
        "tools": ["getWeather", "findHotel", "no such tool"],
        "calls": [
            {"api": "getWeather", "args": {"city": "Beja"}, "label": "var_1"},
            {"api": "findHotel", "args": {"city": "Faro", "stars": 4}, "label": "var_2"},
        ],
    },
    {
        "id": "nested",
        "query": "Find a hotel in Faro and book it for 2 nights.",
        "tools": ["bookHotel", "findHotel"],
        "calls": [
            {"api": "findHotel", "args": {"city": "Faro"}, "label": "var_1"},
            {"api": "bookHotel", "args": {"hotel_id": "$var_1.hotel_id$", "nights": 2}, "label": "var_2"},
        ],
    },
    {
        "id": "gone",
        "query": "Paint my house.",
        "tools": ["getWeather"],
        "calls": [{"api": "paintHouse", "args": {"colour": "blue"}, "label": "var_1"}],
    },
]


class Known:
    """A backend that answers a request as it was told to."""

    name = "known"

    def __init__(self, answer: Callable[[PlanRequest], PlanDraft]) -> None:
        self._answer = answer

    async def read(self, apis: Sequence[Api]) -> int:
        """There is nothing to get ready."""
        return 0

    async def plan(self, request: PlanRequest) -> PlanDraft:
        return self._answer(request)


def oracle(instances: tuple[Instance, ...]) -> Callable[[PlanRequest], PlanDraft]:
    """The reference solution where all its APIs are candidates; otherwise nothing."""
    solutions: Mapping[str, Instance] = {one.query: one for one in instances}

    def answer(request: PlanRequest) -> PlanDraft:
        instance = solutions[request.query]
        there = instance.apis <= {one.api.id for one in request.candidates}
        return PlanDraft(plan_of(instance), 0.9) if there else PlanDraft(None, 0.8, reason="Nothing fits.")

    return answer


def dataset(path: Path, rows: list[dict[str, Any]] = ROWS) -> Dataset:
    return read_dataset(folder(path, TOOLS, rows))


def offers(data: Dataset, source: Source, k: int | None = None, distractors: int = 0) -> Offers:
    encoder = load_encoder()
    snapshot = build_snapshot(data.apis, encoder, Progress(disable=True))
    return Offers(snapshot, {api.id: api for api in data.apis}, encoder, RankingOptions(), source, k, distractors)


def examine(
    path: Path,
    source: Source,
    backend: Known | None = None,
    rows: list[dict[str, Any]] = ROWS,
    solved: Sequence[Solved] = (),
    k: int | None = None,
) -> tuple[list[EvaluatedRequest], PlanReport]:
    """Ask a backend, by default the oracle, all requests of the folder."""
    data = dataset(path / "data", rows)

    async def go() -> list[EvaluatedRequest]:
        known = backend or Known(oracle(data.instances))
        async with AsyncExitStack() as stack:
            planner = await stack.enter_async_context(open_planner("known", {"known": known}))
            runner = await stack.enter_async_context(open_plan_runner(data.apis, path))
            selector = (
                await stack.enter_async_context(open_demo_selector(solved, load_encoder(), path)) if solved else None
            )
            evaluator = Evaluator(data, offers(data, source, k), planner, runner, selector)
            return [await evaluator.ask(one) for one in data.instances]

    asked = asyncio.run(go())
    under = Conditions(data=path / "data", candidates=source.value, planner="known", encoder="x")
    return asked, report(asked, data, under)
