"""A planner that asks for missing operations gets them from the catalogue and plans once more."""

from services.contracts.run import RunStatus
from services.errors import ServiceUnavailable
from tests.support.gateways import FIND, HOLIDAYS, NESTED, Gateway, ask, world_api

QUERY = "List the public days of Portugal"
NEED = "find country by name"


async def test_what_is_missed_is_looked_up(gateway: Gateway) -> None:
    gateway.fakes.planner.plans[QUERY] = NESTED
    gateway.fakes.planner.needs[QUERY] = (NEED,)
    run = await gateway.client.solve(ask(QUERY, top_k=1, cascade="compact_first"))
    assert run.status is RunStatus.SUCCEEDED
    first, second = gateway.fakes.planner.requests
    assert [candidate.api.id for candidate in first.candidates] == [HOLIDAYS.id]
    assert (first.looked_up, first.cascade) == ((), "compact_first")
    assert [candidate.api.id for candidate in second.candidates] == [HOLIDAYS.id, FIND.id]
    assert second.looked_up == (FIND.id,)
    assert second.candidates[1].score == 0  # it was found with other words than the request's
    assert first.deadline_ms is not None
    assert second.deadline_ms is not None
    assert second.deadline_ms <= first.deadline_ms <= 30_000
    ((lookup,), (trace,)) = run.lookups, run.traces
    assert (lookup.asked, lookup.added) == ((NEED,), (FIND.id,))
    assert trace.model == "scripted"
    assert [candidate.api for candidate in run.candidates] == [HOLIDAYS.id, FIND.id]
    assert await gateway.client.run(run.id) == run


async def test_the_vendor_of_the_request_comes_first_and_its_filters_hold(gateway: Gateway) -> None:
    other = world_api("findCountry", "Find a country by its name").model_copy(
        update={"id": "other.findCountry", "provider": "other"}
    )
    gateway.fakes.retriever.apis |= {other.id: other}
    gateway.fakes.planner.needs[QUERY] = (NEED,)
    run = await gateway.client.solve(ask(QUERY, top_k=1, methods=("GET",)))
    assert run.lookups[0].added == (FIND.id, other.id)
    own, others = gateway.fakes.retriever.asked[1:]
    assert (own.providers, others.providers) == (("world",), ())
    assert {request.methods for request in (own, others)} == {("GET",)}
    assert {request.tenant for request in (own, others)} == {"default"}
    filtered = await gateway.client.solve(ask(QUERY, top_k=1, providers=("world",)))
    assert filtered.lookups[0].added == (FIND.id,)


async def test_it_is_looked_up_as_often_as_the_request_allows(gateway: Gateway) -> None:
    gateway.fakes.planner.needs[QUERY] = (NEED,)
    run = await gateway.client.solve(ask(QUERY, top_k=1, lookups=0))
    assert (run.status, run.lookups) == (RunStatus.NO_PLAN, ())
    assert NEED in run.reason
    assert len(gateway.fakes.planner.requests) == 1


async def test_where_the_catalogue_has_nothing_new_the_planners_word_stands(gateway: Gateway) -> None:
    gateway.fakes.planner.needs[QUERY] = ("launch rockets",)
    run = await gateway.client.solve(ask(QUERY))
    assert run.status is RunStatus.NO_PLAN
    assert "launch rockets" in run.reason
    assert run.lookups[0].added == ()
    assert len(gateway.fakes.planner.requests) == 1


async def test_where_nothing_can_be_looked_up_the_planners_word_stands(gateway: Gateway) -> None:
    gateway.fakes.planner.needs[QUERY] = (NEED,)
    retrieve = gateway.fakes.retriever.retrieve

    async def once(request, timeout_s=1.0):  # type: ignore[no-untyped-def]
        if gateway.fakes.retriever.asked:
            raise ServiceUnavailable("away", service="retriever_svc")
        return await retrieve(request, timeout_s)

    gateway.fakes.retriever.retrieve = once  # type: ignore[method-assign]
    run = await gateway.client.solve(ask(QUERY, top_k=1))
    assert (run.status, run.lookups) == (RunStatus.NO_PLAN, ())
