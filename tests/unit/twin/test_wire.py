"""What the executor writes the twin reads, in every style; what is wrong is refused."""

from typing import Any

import pytest

from executor_svc.adapters.http.request import Credentials, build_request
from services.contracts.api import Api
from tests.unit.twin.conftest import Apis
from twin.problems import Refused
from twin.received import Received
from twin.routes import Routes
from twin.wire import Reader


def read_back(api: Api, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments after a way over the wire."""
    request = build_request(api, arguments, "key")
    url = request.url(Credentials())
    headers = {name.lower(): value for name, value in request.all_headers(Credentials()).items()}
    match = Routes([api]).find(api.method, url.raw_path, url.raw_query_string)
    body = request.body.content if request.body is not None else b""
    received = Received(api.method, url.raw_path, url.raw_query_string, headers, body)
    return Reader(api).arguments(received, match.values)


@pytest.mark.parametrize(
    ("document", "operation", "arguments"),
    [
        ("depot", "findPallets", {"colours": ["red", "sea green", "a&b"]}),
        ("depot", "findPallets", {"rows": [1, 2, 30]}),
        ("depot", "findPallets", {"labels": ["a", "ü/x"], "doors": [4, 5]}),
        ("depot", "findPallets", {"doors": [4]}),
        ("depot", "findPallets", {"weight": {"min": 1.5, "max": 20}}),
        ("depot", "findPallets", {"place": {"hall": 3}, "X-Shift": 2, "depot": "north"}),
        ("depot", "locatePallet", {"hall": 3, "rows": [7, 8], "code": "P/1 é"}),
        ("clinic", "CreatePatient", {"Surname": "D'Ávila & Sons", "Allergies": ["nuts", "1"], "Insured": False}),
        ("library", "addBook", {"title": "5", "author": "", "shelf": {"room": "B", "row": 2}}),
        (
            "press",
            "uploadPhoto",
            {"file": {"media_type": "image/png", "base64": "AAECAw=="}, "caption": "x\r\ny", "width": 3},
        ),
        ("press", "writeNotes", {"body": "Rain, later\nsun"}),
    ],
)
def test_arguments_come_back_as_they_went(
    apis_of: Apis, document: str, operation: str, arguments: dict[str, Any]
) -> None:
    assert read_back(apis_of(document)[operation], arguments) == arguments


@pytest.mark.parametrize(
    ("document", "operation", "arguments", "status", "place"),
    [
        ("library", "listBooks", {"genre": "cooking"}, 400, "query.genre"),
        ("library", "listBooks", {"limit": 0}, 400, "query.limit"),
        ("library", "listBooks", {"limit": "many"}, 400, "query.limit"),
        ("library", "getBook", {"bookId": "first"}, 400, "path.bookId"),
        ("library", "addBook", {"title": 5, "author": "x"}, 422, "body.title"),
        ("library", "addBook", {"title": "x", "author": "x", "shelf": {"row": 1}}, 422, "body.shelf"),
        ("library", "lendBook", {"bookId": 1, "reader": "Ana", "due": "tomorrow"}, 422, "body.due"),
        ("clinic", "CreatePatient", {"Surname": "x", "BirthYear": 1800}, 422, "body.BirthYear"),
        ("clinic", "CreatePatient", {"Surname": "x", "Insured": "maybe"}, 422, "body.Insured"),
        ("clinic", "FetchPatient", {"Sid": "PA12"}, 400, "path.Sid"),
        ("depot", "findPallets", {"place": {"hall": "x"}}, 400, "query.place"),
        ("depot", "findPallets", {"rows": ["x"]}, 400, "query.rows"),
        ("depot", "findPallets", {"X-Shift": "late"}, 400, "header.X-Shift"),
        (
            "press",
            "uploadPhoto",
            {"file": {"media_type": "image/png", "base64": ""}, "caption": "x", "width": "wide"},
            422,
            "body.width",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    apis_of: Apis, document: str, operation: str, arguments: dict[str, Any], status: int, place: str
) -> None:
    with pytest.raises(Refused) as refused:
        read_back(apis_of(document)[operation], arguments)
    assert refused.value.status == status
    assert [where for where, _ in refused.value.errors] == [place]
