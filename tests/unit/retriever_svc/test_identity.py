"""Keys of the same operation, and the order of versions."""

from itertools import pairwise

import pytest

from retriever_svc.engine.identity import content_key, operation_key, precedence, revision
from tests.unit.retriever_svc.catalogue import api


@pytest.mark.parametrize(
    ("server", "path"),
    [
        ("https://zoo.example", "/animals/{id}"),
        ("https://ZOO.example/", "/animals/{animalId}"),
        ("https://zoo.example/v2", "/animals/{id}"),
        ("https://zoo.example", "/v1beta1/animals/{id}"),
        ("https://zoo.example/2024-06-01/", "/animals/{id}"),
    ],
)
def test_the_same_operation_of_whatever_provider_and_version(server: str, path: str) -> None:
    own = operation_key(api("a", server="https://zoo.example", path="/animals/{key}"))
    assert own
    assert operation_key(api("b", provider="other", server=server, path=path)) == own


@pytest.mark.parametrize(
    "members",
    [
        {"server": "https://zoo.example:8443"},
        {"server": "https://zoo.other"},
        {"method": "DELETE"},
        {"path": "/animals/{id}/keeper"},
        {"path": "/vets/{id}"},
    ],
)
def test_another_operation(members: dict[str, str]) -> None:
    base = {"server": "https://zoo.example", "path": "/animals/{id}"}
    assert operation_key(api("a", **base)) != operation_key(api("a", **base | members))


@pytest.mark.parametrize(
    "server", ["", "/v1", "http://localhost:8080", "http://127.0.0.1", "http://[::", "http://[::1]"]
)
def test_where_no_host_is_known_nothing_is_the_same(server: str) -> None:
    assert operation_key(api("a", server=server)) == ""


def test_the_same_content_of_another_provider() -> None:
    one = api("op", "Feed the lions", server="https://zoo.example")
    assert content_key(one) == content_key(
        api("op", "Feed the lions", provider="copy", server="https://mirror.example")
    )
    assert content_key(one) != content_key(api("op", "Feed the tigers"))


def test_versions_sort_by_path_then_document() -> None:
    def order(path: str, version: str) -> object:
        return precedence(revision(api("op", server="https://zoo.example", path=path), version))

    oldest_first = [
        ("/animals", "latest"),
        ("/animals", "1.9"),
        ("/animals", "v1.10.0-rc1"),
        ("/animals", "1.10.0"),
        ("/v1beta1/animals", "9"),
        ("/v1/animals", ""),
        ("/v1/animals", "2"),
        ("/v2/animals", "1"),
        ("/2024-06-01/animals", "1"),
    ]
    orders = [order(*pair) for pair in oldest_first]
    assert all(one < other for one, other in pairwise(orders))  # type: ignore[operator]
    assert order("/animals", "9" * 5_000)
    assert order("/animals", "\u0662\u00b2") is not None
