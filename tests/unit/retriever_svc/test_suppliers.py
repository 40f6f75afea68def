"""APIs that answer with what another one requires are found by the words of the input."""

import json

import pytest

from retriever_svc.engine.filters import NO_FILTERS
from retriever_svc.engine.ranking import RankingOptions, find
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.texts import record
from retriever_svc.importers import Limits, import_document
from retriever_svc.models import Entry, Hit, Listing
from services.encoder import Encoder, load_encoder


def operation(
    summary: str, parameters: dict[str, dict[str, object]], answers: dict[str, str], name: str
) -> dict[str, object]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [
            {
                "name": key,
                "in": "query",
                "required": True,
                "description": schema.pop("description", ""),
                "schema": schema,
            }
            for key, schema in parameters.items()
        ],
        "responses": {
            "200": {
                "description": "ok",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {k: {"type": "string", "description": v} for k, v in answers.items()},
                        }
                    }
                },
            }
        },
    }


STATION_CODE: dict[str, object] = {"type": "string", "pattern": "^[A-Z]{4}$", "description": "Code of the station."}
DEPARTURES = operation(
    "Departures of trains", {"station_code": dict(STATION_CODE)}, {"station_code": "", "time": "Time."}, "departures"
)
DELAYS = operation(
    "Delays of trains",
    {"station_code": dict(STATION_CODE)},
    {"station_code": "Code of the station.", "delay": ""},
    "delays",
)
LOOKUP = operation(
    "Look up a place",
    {"name": {"type": "string", "description": "Words."}},
    {"station_code": "Code of the station."},
    "lookup",
)
WEATHER = operation("Weather", {"city": {"type": "string"}}, {"sky": "Cloudy or clear."}, "weather")
OPENING = {"post": operation("Open a station", {}, {"station_code": "Code of the station."}, "open_station")}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


def search(encoder: Encoder, query: str, k: int, suppliers: int) -> list[Hit]:
    paths = {
        "/departures": {"get": DEPARTURES},
        "/delays": {"get": DELAYS},
        "/lookup": {"get": LOOKUP},
        "/weather": {"get": WEATHER},
    }
    document = {"openapi": "3.1.0", "info": {"title": "Rail", "version": "1"}, "paths": paths | {"/open": OPENING}}
    records = [
        record(api) for api in import_document(json.dumps(document), "rail", "http://rail.example", Limits()).apis
    ]
    entries = [
        Entry(
            number,
            *(new.api.id, new.api.provider, new.api.name, new.api.method, new.api.path, new.api.summary),
            *(new.api.content_hash, new.text_hash, new.lexical, new.inputs, new.outputs, new.open),
        )
        for number, new in enumerate(records, start=1)
    ]
    vectors = dict(zip([r.text_hash for r in records], encoder.encode([r.embedded for r in records]), strict=True))
    listing = Listing(1, tuple(sorted(entries, key=lambda entry: entry.id)))
    snapshot = Snapshot.empty(encoder.dimension).advance(listing, vectors)
    return find(snapshot, encoder, query, k, suppliers, NO_FILTERS, RankingOptions())[1]


def test_the_api_that_knows_the_code_is_found_though_the_request_does_not_ask_for_it(encoder: Encoder) -> None:
    hits = search(encoder, "train departures from Lisbon", k=1, suppliers=3)
    assert [hit.entry.name for hit in hits] == ["departures", "lookup"]
    assert [hit.role for hit in hits] == ["match", "supplier"]
    assert hits[1].clause_scores == (0.0,)


def test_what_needs_the_same_code_or_changes_state_supplies_nothing(encoder: Encoder) -> None:
    names = {hit.entry.name for hit in search(encoder, "train departures from Lisbon", k=1, suppliers=10)}
    assert names.isdisjoint({"delays", "open_station", "weather"})


def test_a_budget_of_none_finds_none(encoder: Encoder) -> None:
    assert all(hit.role == "match" for hit in search(encoder, "train departures from Lisbon", k=5, suppliers=0))
