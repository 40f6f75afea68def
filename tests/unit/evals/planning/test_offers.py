"""Candidates: the same as the retriever service hands on, or those that the request names."""

import dataclasses
from pathlib import Path

import pytest
from rich.progress import Progress

from evals.data import DataError, read_dataset
from evals.planning.offers import Offer, Offers, Source, check_lists
from evals.retrieve import build_snapshot
from retriever_svc.engine.ranking import shipped_options
from retriever_svc.main import create_app
from retriever_svc.settings import RetrieverSettings
from services.clients import InProcessTransport, RetrieverClient, open_http
from services.contracts.api import Api
from services.contracts.retrieval import RetrieveRequest
from services.contracts.solve import SolveOptions
from services.encoder import load_encoder
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.worlds import ROWS, TOOLS, dataset, offers


async def test_own_candidates_are_what_the_service_answers(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data")
    settings = RetrieverSettings(database_url=f"sqlite+aiosqlite:///{tmp_path / 'catalogue.db'}")
    encoder = load_encoder(settings.encoder)
    snapshot = build_snapshot(data.apis, encoder, Progress(disable=True))
    options = shipped_options(settings, encoder.name)
    made = Offers(snapshot, {api.id: api for api in data.apis}, encoder, options, Source.OWN)
    app = create_app(settings, encoder=encoder)
    async with app.router.lifespan_context(app), open_http("http://retriever", InProcessTransport(app)) as http:
        service = RetrieverClient(http)
        for api in data.apis:
            await service.create(api)
        for instance in data.instances:
            answer = await service.retrieve(RetrieveRequest(query=instance.query, k=SolveOptions().top_k))
            plain = [one.model_copy(update={"api": _unsealed(one.api)}) for one in answer.candidates]
            assert made.offer(instance) == Offer(answer.clauses, tuple(plain))
    assert made.offer(data.instances[2]).candidates


def _unsealed(api: Api) -> Api:
    """As the data has it: without the hash that the catalogue adds."""
    return api.model_copy(update={"content_hash": ""})


def test_own_candidates_are_the_retrievers(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    found = offers(data, Source.OWN).offer(data.instances[1])
    assert {one.api.id for one in found.candidates} == {"findHotel", "bookHotel", "getWeather"}
    assert found.clauses[-1].text == ROWS[1]["query"]
    assert len(found.clauses) == 3
    assert all(len(one.clause_scores) == 3 for one in found.candidates)
    first = found.candidates[0]
    assert first.score == max(first.clause_scores)
    assert first.signals.dense is not None


def test_the_vendors_candidates_are_found_among_its_apis(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    hotels = ("findHotel", "bookHotel")
    apis = tuple(
        api.model_copy(update={"provider": "hotels" if api.name in hotels else "weather"}) for api in data.apis
    )
    made = offers(dataclasses.replace(data, apis=apis), Source.VENDOR)
    weather, both, nested, gone = ({one.api.id for one in made.offer(each).candidates} for each in data.instances)
    assert weather == {"getWeather"}
    assert both == {"getWeather", *hotels}
    assert nested == {*hotels}
    refused = data.instances[0].model_copy(update={"calls": (), "tools": ("findHotel",)})
    assert {one.api.id for one in made.offer(refused).candidates} <= {*hotels}
    assert gone == {"getWeather", *hotels}  # the vendor is not known


def test_given_and_gold_candidates_are_those_and_no_others(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    given = [offers(data, Source.GIVEN).offer(one) for one in data.instances]
    assert [sorted(one.api.id for one in offer.candidates) for offer in given] == [
        ["findHotel", "getWeather"], ["findHotel", "getWeather"], ["bookHotel", "findHotel"], ["getWeather"]
    ]  # fmt: skip
    assert given[0].candidates[0].api.id == "getWeather"
    assert given[0].candidates[0].score > given[0].candidates[1].score
    gold = [offers(data, Source.GOLD).offer(one) for one in data.instances]
    assert [sorted(one.api.id for one in offer.candidates) for offer in gold] == [
        ["getWeather"], ["findHotel", "getWeather"], ["bookHotel", "findHotel"], []
    ]  # fmt: skip


def test_as_many_own_candidates_as_are_asked_for(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    both = data.instances[1]  # of two clauses, each of which finds its own
    few = [one for one in offers(data, Source.OWN, k=1).offer(both).candidates if one.signals.dense is not None]
    assert len(few) == 1
    assert len(offers(data, Source.OWN).offer(both).candidates) == 3


def test_distractors_stand_among_the_gold_ones(tmp_path: Path) -> None:
    more = [tool | {"name": f"{tool['name']}{n}"} for n in range(4) for tool in TOOLS]
    data = read_dataset(folder(tmp_path, [*TOOLS, *more], ROWS))
    made = offers(data, Source.GOLD, distractors=5)
    found = {one.id: [candidate.api.id for candidate in made.offer(one).candidates] for one in data.instances}
    needed = {one.id: one.apis & made.apis.keys() for one in data.instances}
    assert {name: len(ids) for name, ids in found.items()} == {"weather": 6, "both": 7, "nested": 7, "gone": 5}
    assert all(needed[name] < set(ids) == set(dict.fromkeys(ids)) for name, ids in found.items())
    # The nearest of those that are wrong: all of the weather's twins before any hotel's.
    assert {name for name in found["weather"] if name.startswith("getWeather")} == {
        "getWeather", "getWeather0", "getWeather1", "getWeather2", "getWeather3"
    }  # fmt: skip
    again = offers(data, Source.GOLD, distractors=5)
    assert [[one.api.id for one in again.offer(row).candidates] for row in data.instances] == list(found.values())
    places = [found[name].index(api) for name in found for api in sorted(needed[name])]
    assert set(places) > {0}  # a needed one is not always the first
    scores = [one.score for one in made.offer(data.instances[0]).candidates]
    assert scores != sorted(scores, reverse=True)
    # There are no more than there are.
    all_of_them = offers(data, Source.GOLD, distractors=150).offer(data.instances[0]).candidates
    assert len(all_of_them) == len(data.apis)


def test_lists_are_asked_for_only_where_there_are_any(tmp_path: Path) -> None:
    rows = [ROWS[0], ROWS[1] | {"tools": None}]
    with pytest.raises(DataError, match=r"1 of 2 requests have no `tools` of their own \(both is the first\)"):
        check_lists(dataset(tmp_path, rows).instances)
