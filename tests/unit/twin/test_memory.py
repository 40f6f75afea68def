"""What is created can be read, listed, changed and deleted, whatever the form of the paths and bodies."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from retriever_svc.importers import import_document
from services.clients import InProcessTransport, open_http
from services.contracts.api import Api
from tests.unit.twin.conftest import Apis
from tests.vendors.operations import TOKEN, send
from twin.main import create_app
from twin.service import Twin


class Caller:
    """Calls operations by name."""

    def __init__(self, apis: Mapping[str, Api], seed: int = 0) -> None:
        self._apis, self.twin = apis, Twin(apis.values(), TOKEN, seed)

    def __call__(self, name: str, status: int = 200, /, **arguments: Any) -> Any:
        answer = send(self._apis[name], self.twin, arguments)
        assert answer.status == status, answer.body
        return json.loads(answer.body) if answer.body else None


@pytest.fixture
def library(apis_of: Apis) -> Caller:
    return Caller(apis_of("library"))


def test_what_is_created_can_be_read_listed_changed_and_deleted(library: Caller) -> None:
    made = library("addBook", 201, title="Fog", author="Ines Prado", shelf={"room": "B"})
    assert (made["title"], made["author"], made["shelf"]["room"]) == ("Fog", "Ines Prado", "B")
    book = made["id"]
    assert library("getBook", bookId=book) == made
    assert made in library("listBooks")["data"]
    assert library("changeBook", bookId=book, copies=4)["copies"] == 4
    assert library("getBook", bookId=book) == made | {"copies": 4}
    assert library("removeBook", 204, bookId=book) is None
    library("getBook", 404, bookId=book)
    library("changeBook", 404, bookId=book, copies=1)
    library("removeBook", 404, bookId=book)
    assert book not in [one["id"] for one in library("listBooks")["data"]]


def test_what_belongs_to_an_item_comes_and_goes_with_it(library: Caller) -> None:
    book = library("addBook", 201, title="Fog", author="Ines Prado")["id"]
    assert library("listLoans", bookId=book) == []
    loan = library("lendBook", 201, bookId=book, reader="Ana", due="2026-12-01")
    assert (loan["bookId"], loan["reader"], loan["due"]) == (book, "Ana", "2026-12-01")
    other = library("listBooks")["data"][0]["id"]
    assert loan not in library("listLoans", bookId=other)
    library("lendBook", 404, bookId=99, reader="Ana")
    library("endLoan", 204, bookId=book, loanId=loan["id"])
    library("endLoan", 404, bookId=book, loanId=loan["id"])
    library("removeBook", 204, bookId=book)
    library("listLoans", 404, bookId=book)


def test_lists_are_filtered_searched_and_cut(library: Caller) -> None:
    library("addBook", 201, title="Fog over Faro", author="Ines Prado", genre="travel")
    found = library("listBooks", query="fog FARO")
    assert [one["title"] for one in found["data"]] == ["Fog over Faro"]
    assert (found["total"], found.get("next")) == (1, None)
    assert {one["genre"] for one in library("listBooks", genre="travel")["data"]} == {"travel"}
    every = library("listBooks")
    assert every["total"] == len(every["data"]) == 4
    assert [len(library("listBooks", limit=2, offset=start)["data"]) for start in (0, 2, 4)] == [2, 2, 0]
    assert library("listBooks", limit=2)["total"] == 4


def test_a_seed_gives_the_same_ids_and_another_one_others(apis_of: Apis) -> None:
    lists = [Caller(apis_of("library"), seed)("listBooks") for seed in (1, 1, 2)]
    assert lists[0] == lists[1]
    assert [one["id"] for one in lists[0]["data"]] != [one["id"] for one in lists[2]["data"]]


def test_items_that_it_is_told_of_have_been_there_all_the_time(library: Caller) -> None:
    assert library.twin.preset("/books/31", {"title": "Salt"})
    assert library("getBook", bookId=31)["title"] == "Salt"
    assert len(library("listLoans", bookId=31)) == 3
    assert not library.twin.preset("/nothing/31", {})
    library.twin.reset()
    library("getBook", 404, bookId=31)


def test_ids_have_the_form_that_is_declared_and_forms_change_items_by_post(apis_of: Apis) -> None:
    clinic = Caller(apis_of("clinic"))
    made = clinic("CreatePatient", 201, Surname="Costa", BirthYear=1971, Allergies=["nuts", "dust"], Insured=True)
    assert made | {"sid": ""} == {
        "sid": "",
        "Surname": "Costa",
        "BirthYear": 1971,
        "Allergies": ["nuts", "dust"],
        "Insured": True,
    }
    assert made["sid"].startswith("PA")
    assert clinic("UpdatePatient", Sid=made["sid"], Insured=False) == made | {"Insured": False}
    page = clinic("ListPatients", Surname="costa")
    assert page["patients"] == [made | {"Insured": False}]
    assert "next_page_url" not in page["meta"]
    clinic("DeletePatient", 204, Sid=made["sid"])
    clinic("FetchPatient", 404, Sid=made["sid"])


def test_what_is_sent_in_another_spelling_is_shown_as_the_item_has_it() -> None:
    text = {"type": "string"}
    shown = {"type": "object", "properties": {"sid": text, "friendly_name": text, "sink_type": text}}
    sent = {"type": "object", "properties": {"FriendlyName": text, "SinkType": text}}
    answer = {"content": {"application/json": {"schema": shown}}, "description": "ok"}
    form = {"content": {"application/x-www-form-urlencoded": {"schema": sent}}}
    paths = {
        "/sinks": {"post": {"operationId": "make", "requestBody": form, "responses": {"201": answer}}},
        "/sinks/{sid}": {"get": {"operationId": "read", "responses": {"200": answer}}},
    }
    root = {"openapi": "3.0.3", "info": {"title": "Sinks", "version": "1"}, "paths": paths}
    sinks = Caller({api.name: api for api in import_document(json.dumps(root), "sinks", "http://127.0.0.1:1").apis})
    made = sinks("make", 201, FriendlyName="Orders", SinkType="webhook")
    assert made | {"sid": ""} == {"sid": "", "friendly_name": "Orders", "sink_type": "webhook"}
    assert sinks("read", sid=made["sid"]) == made


def test_verbs_in_paths_and_wrapped_bodies(apis_of: Apis) -> None:
    desk = Caller(apis_of("desk"))
    made = desk("tickets.create", ticket={"subject": "Printer", "priority": 2})["ticket"]
    assert (made["subject"], made["priority"]) == ("Printer", 2)
    assert desk("tickets.update", ticket_id=made["id"], status="closed")["ticket"]["status"] == "closed"
    assert desk("tickets.info", ticket_id=made["id"])["ticket"]["status"] == "closed"
    assert made["id"] in [one["id"] for one in desk("tickets.list", status="closed")["tickets"]]
    desk("tickets.delete", ticket_id=made["id"])
    desk("tickets.info", 404, ticket_id=made["id"])


def test_files_settings_and_answers_that_are_no_json(apis_of: Apis) -> None:
    apis = apis_of("press")
    press = Caller(apis)
    file = {"media_type": "image/png", "base64": "aGk="}
    made = press("uploadPhoto", 201, file=file, caption="Dawn", credits={"name": "Ana"}, width=640)
    assert (made["caption"], made["credits"], made["width"]) == ("Dawn", {"name": "Ana"}, 640)
    assert press("replacePhoto", photoId=made["id"], caption="Dusk")["caption"] == "Dusk"
    assert press("getPhoto", photoId=made["id"])["caption"] == "Dusk"
    assert press("changeSettings", language="pt")["language"] == "pt"
    assert press("getSettings")["language"] == "pt"
    assert press("writeNotes", 204, body="Rain") is None
    calendar = send(apis["exportCalendar"], press.twin, {})
    assert (calendar.status, calendar.media_type, calendar.body != b"") == (200, "text/csv", True)


@pytest.mark.parametrize(
    ("media_type", "shown"),
    [
        ("application/json", "application/json"),
        ("text/plain", "text/plain"),
        ("text/\u2603", "application/octet-stream"),
        ("a/b\r\nX: y", "application/octet-stream"),
    ],
)
async def test_whatever_a_document_declares_can_be_answered(media_type: str, shown: str) -> None:
    """Media types that no header can hold, and integers of any size."""
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "size": {"type": "integer", "maximum": -1e30}}}
    response = {"description": "ok", "content": {media_type: {"schema": schema}}}
    paths = {path: {"get": {"operationId": path, "responses": {"200": response}}} for path in ("/one", "/shelves/{id}")}
    document = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": paths}
    twin = Twin(import_document(json.dumps(document), "t", "http://127.0.0.1:1").apis, TOKEN)
    async with open_http("http://twin", InProcessTransport(create_app(twin))) as http:
        for path in ("/one", "/shelves/7"):
            answer = await http.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, shown)
            assert answer.json()["size"] == int(-1e30)
