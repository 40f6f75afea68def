"""The planner is given the catalogue to read, once for each of its versions."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway.warming import Warmer
from services.contracts.api import Api
from services.contracts.planning import ReadApisReport
from services.errors import DeadlineExceeded, ServiceUnavailable
from tests.fakes import FakePlanner, FakeRetriever

APIS = [Api(id=f"shop.{n:03}", provider="shop", name=f"call {n}", method="GET", path=f"/{n}") for n in range(230)]


async def test_every_api_is_read_once() -> None:
    retriever, planner = FakeRetriever(*APIS), FakePlanner()
    warmer = Warmer(retriever, planner, most=1_000)
    await warmer.warm()
    assert planner.known == [api.id for api in APIS]
    assert "get" not in retriever.calls  # not one by one
    await warmer.warm()
    assert len(planner.known) == len(APIS)


async def test_a_catalogue_that_changed_is_read_again() -> None:
    retriever, planner = FakeRetriever(APIS[0]), FakePlanner()
    warmer = Warmer(retriever, planner, most=1_000)
    await warmer.warm()
    await retriever.create(APIS[1])
    await warmer.warm()
    assert set(planner.known) == {APIS[0].id, APIS[1].id}


async def test_no_more_than_allowed() -> None:
    planner = FakePlanner()
    await Warmer(FakeRetriever(*APIS), planner, most=120).warm()
    assert planner.known == [api.id for api in APIS[:120]]


async def test_nothing_where_it_is_off() -> None:
    retriever = FakeRetriever(*APIS)
    async with Warmer(retriever, FakePlanner(), most=0).working():
        await asyncio.sleep(0)
    assert retriever.calls == []


async def test_a_planner_that_is_down_is_asked_again() -> None:
    retriever, planner = FakeRetriever(*APIS[:3]), FakePlanner()
    warmer = Warmer(retriever, planner, most=10)
    planner.down = True
    with pytest.raises(ServiceUnavailable):
        await warmer.warm()
    planner.down = False
    await warmer.warm()
    assert len(planner.known) == 3


async def test_a_planner_that_gains_nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    retriever, planner = FakeRetriever(*APIS), FakePlanner()

    async def read(apis: Sequence[Api]) -> ReadApisReport:
        planner.known += [api.id for api in apis]
        return ReadApisReport(read=0)

    monkeypatch.setattr(planner, "read", read)
    warmer = Warmer(retriever, planner, most=1_000)
    await warmer.warm()
    await warmer.warm()
    assert 0 < len(planner.known) < 20


async def test_apis_that_take_too_long_do_not_keep_the_others_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = FakePlanner()

    async def read(apis: Sequence[Api]) -> ReadApisReport:
        planner.known += [api.id for api in apis]
        if APIS[0].id in planner.known[-len(apis) :]:
            raise DeadlineExceeded("It takes more than 3 s of processor time.")
        return ReadApisReport(read=len(apis))

    monkeypatch.setattr(planner, "read", read)
    warmer = Warmer(FakeRetriever(*APIS), planner, most=1_000)
    await warmer.warm()
    await warmer.warm()
    assert planner.known == [api.id for api in APIS]
