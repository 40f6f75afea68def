"""Selections among demos with large plans: they are passed on whole, so few bytes of them are."""

from collections.abc import Mapping

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from demo_svc import service as demo_service
from services.contracts.base import MAX_QUERY_CHARS
from services.contracts.demo import Demo
from tests.unit.demo_svc.support import demo, opened

LARGE = "x" * 120_000


async def test_a_selection_has_the_first_demos_that_are_not_too_large_together(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo("rain in oslo", "p.a", argument=[n, LARGE]) for n in range(4)])
        every = [one.id for one, _ in await service.select("rain in oslo", ["p.a"], 2)]
        chosen = [one.id for one, _ in await service.select("rain in oslo", ["p.a"], 4, alike=4)]
        assert chosen == every
        assert len(await service.same("rain in oslo", {"p.a"}, 4)) == 2


async def test_a_demo_as_large_as_it_may_be_is_selected(engine: AsyncEngine) -> None:
    async with opened(engine) as service:
        await service.add([demo("rain in oslo", "p.a", argument="x" * 261_000)])
        assert len(await service.select("rain in oslo", ["p.a"], 1)) == 1


async def test_plans_of_near_demos_are_not_parsed_for_their_requests(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, parse = list[str](), demo_service._parsed

    def spy(documents: Mapping[str, str]) -> dict[str, Demo]:
        parsed.extend(documents)
        return parse(documents)

    monkeypatch.setattr(demo_service, "_parsed", spy)
    async with opened(engine) as service:
        await service.add([demo(f"rain in town {n}", "p.a", argument=n) for n in range(9)])
        found = await service.select("rain in town 3", ["p.a"], 0, alike=2)
        assert len(found) == len(parsed) == 2


async def test_requests_are_read_without_plans(engine: AsyncEngine) -> None:
    longest = "\U0001f600" * MAX_QUERY_CHARS
    queries = [longest, 'nasty \x00 "query":"not this" \\', "rain"]
    async with opened(engine) as service:
        kept, _ = await service.add([demo(query, "p.a", argument=LARGE) for query in queries])
        read = await service._storage.queries([one.id for one in kept])
        assert [read[one.id] for one in kept] == queries
