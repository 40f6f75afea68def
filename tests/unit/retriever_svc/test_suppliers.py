"""APIs that answer with what another one requires are found by the words of the input."""

import json
from collections.abc import Sequence

from retriever_svc.engine.filters import NO_FILTERS, Filters
from retriever_svc.engine.ranking import RankingOptions, find
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.texts import record
from retriever_svc.importers import Limits, import_document
from retriever_svc.models import Entry, Hit, Listing
from services.contracts.api import Api
from services.encoder import Encoder


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


def snapshot_of(apis: Sequence[Api], encoder: Encoder) -> Snapshot:
    records = [record(api) for api in apis]
    entries = [
        Entry(
            number,
            *(new.api.id, new.api.provider, new.api.name, new.api.method, new.api.path, new.api.summary),
            *(new.api.content_hash, new.text_hash, new.lexical, new.inputs, new.outputs, new.open),
            tenants=new.api.tenants,
        )
        for number, new in enumerate(records, start=1)
    ]
    vectors = dict(zip([r.text_hash for r in records], encoder.encode([r.embedded for r in records]), strict=True))
    listing = Listing(1, tuple(sorted(entries, key=lambda entry: entry.id)))
    return Snapshot.empty(encoder.dimension).advance(listing, vectors)


def search(encoder: Encoder, query: str, k: int, suppliers: int) -> list[Hit]:
    paths = {
        "/departures": {"get": DEPARTURES},
        "/delays": {"get": DELAYS},
        "/lookup": {"get": LOOKUP},
        "/weather": {"get": WEATHER},
    }
    document = {"openapi": "3.1.0", "info": {"title": "Rail", "version": "1"}, "paths": paths | {"/open": OPENING}}
    apis = import_document(json.dumps(document), "rail", "http://rail.example", Limits()).apis
    snapshot = snapshot_of(apis, encoder)
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


USER_ID: dict[str, object] = {"type": "string"}


def club(*operations: tuple[str, str, dict[str, dict[str, object]]]) -> dict[str, object]:
    """Paths with an operation each: path, summary, parameters."""
    return {
        path: {"get": operation(summary, parameters, {}, f"op{number}")}
        for number, (path, summary, parameters) in enumerate(operations)
    }


def find_in(encoder: Encoder, documents: dict[str, dict[str, object]], query: str, k: int, suppliers: int) -> list[Hit]:
    apis: list[Api] = []
    for provider, paths in documents.items():
        document = {"openapi": "3.1.0", "info": {"title": provider, "version": "1"}, "paths": paths}
        apis += import_document(json.dumps(document), provider, "http://one.example", Limits()).apis
    snapshot = snapshot_of(tuple(apis), encoder)
    return find(snapshot, encoder, query, k, suppliers, NO_FILTERS, RankingOptions())[1]


def test_the_list_above_a_path_is_found_in_the_hits_own_provider(encoder: Encoder) -> None:
    people = club(
        ("/people/{userId}/badges", "Badges that somebody has earned", {"userId": dict(USER_ID)}),
        ("/people", "Directory", {}),
        ("/weather", "Weather", {}),
    )
    others = club(("/people", "Directory", {}))
    hits = find_in(encoder, {"club": people, "other": others}, "badges earned by Ines", k=1, suppliers=1)
    assert [(hit.entry.provider, hit.entry.path) for hit in hits] == [
        ("club", "/people/{userId}/badges"),
        ("club", "/people"),
    ]
    assert hits[1].found_by == "supplier"


def test_an_optional_id_is_supplied_too(encoder: Encoder) -> None:
    invoices = club(("/invoices", "Invoices sent to customers", {"customerId": {**USER_ID}}), ("/customers", "All", {}))
    invoices["/invoices"]["get"]["parameters"][0]["required"] = False  # type: ignore[index]
    hits = find_in(encoder, {"books": invoices}, "invoices sent", k=1, suppliers=1)
    assert [hit.entry.path for hit in hits] == ["/invoices", "/customers"]


def test_a_small_providers_other_operations_take_the_places_of_the_least_likely_hits(encoder: Encoder) -> None:
    small = club(("/mirror", "Turn a picture upside down", {}), ("/zzz", "Qqq", {}))
    large = club(*((f"/pictures/{n}", f"Picture number {n} of a hall", {}) for n in range(20)))
    hits = find_in(encoder, {"small": small, "large": large}, "turn a picture upside down", k=10, suppliers=1)
    assert len(hits) <= 11
    assert hits[0].entry.path == "/mirror"
    assert [hit.found_by for hit in hits if hit.entry.path == "/zzz"] == ["provider"]
    assert len({hit.entry.id for hit in hits}) == len(hits)
    alone = find_in(encoder, {"small": small, "large": large}, "turn a picture upside down", k=10, suppliers=0)
    assert "/zzz" not in [hit.entry.path for hit in alone]


def test_what_several_hits_need_comes_before_what_one_needs(encoder: Encoder) -> None:
    zoo = club(
        ("/keepers/{keeperId}/animals/feeding", "Feeding of animals, by keeper", {"keeperId": dict(USER_ID)}),
        ("/houses/{houseId}/animals/feeding", "Feeding of animals, by house", {"houseId": dict(USER_ID)}),
        ("/houses/{houseId}/animals/feeding/today", "Feeding of animals today, by house", {"houseId": dict(USER_ID)}),
        ("/keepers", "Staff", {}),
        ("/houses", "Buildings", {}),
    )
    for place in ("keepers", "houses"):
        zoo[f"/{place}"]["get"]["operationId"] = place  # type: ignore[index]
    hits = find_in(encoder, {"zoo": zoo}, "feeding of animals by keeper and by house", k=3, suppliers=2)
    assert [hit.entry.path for hit in hits[3:]] == ["/houses", "/keepers"]


def test_another_tenants_operations_are_offered_neither_as_suppliers_nor_for_a_small_provider(encoder: Encoder) -> None:
    def apis(tenants: tuple[str, ...]) -> list[Api]:
        paths = club(
            ("/people/{userId}/badges", "Badges that somebody has earned", {"userId": dict(USER_ID)}),
            ("/people", "Directory", {}),
            ("/zzz", "Qqq", {}),
        )
        document = {"openapi": "3.1.0", "info": {"title": "Club", "version": "1"}, "paths": paths}
        read = import_document(json.dumps(document), "club", "http://one.example", Limits()).apis
        return [one if "badges" in one.path else one.model_copy(update={"tenants": tenants}) for one in read]

    def offered(tenants: tuple[str, ...], tenant: str) -> set[tuple[str, str]]:
        snapshot = snapshot_of(apis(tenants), encoder)
        filters = Filters(tenant=tenant)
        hits = find(snapshot, encoder, "badges earned by Ines", 6, 6, filters, RankingOptions())[1]
        return {(hit.entry.path, hit.found_by) for hit in hits}

    assert {path for path, _ in offered(("red",), "red")} == {"/people/{userId}/badges", "/people", "/zzz"}
    assert {path for path, _ in offered(("red",), "blue")} == {"/people/{userId}/badges"}


def test_pinned_apis_make_no_room_for_the_rest_of_a_small_provider(encoder: Encoder) -> None:
    small = club(("/mirror", "Turn a picture upside down", {}), ("/zzz", "Qqq", {}))
    large = club(*((f"/pictures/{n}", f"Picture number {n} of a hall", {}) for n in range(20)))
    apis: list[Api] = []
    for provider, paths in {"small": small, "large": large}.items():
        document = {"openapi": "3.1.0", "info": {"title": provider, "version": "1"}, "paths": paths}
        apis += import_document(json.dumps(document), provider, "http://one.example", Limits()).apis
    pinned = (*[one.id for one in apis if one.provider == "large"][:9], "small.op0")
    found = find(snapshot_of(apis, encoder), encoder, "a picture", 10, 1, Filters(pinned=pinned), RankingOptions())[1]
    assert [hit.entry.id for hit in found[:10]] == list(pinned)
    assert len(found) <= 11
