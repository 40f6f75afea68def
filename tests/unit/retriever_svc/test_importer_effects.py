"""What a call does, where method and wording differ."""

import pytest

from retriever_svc.importers import Limits
from services.contracts.api import Effect
from tests.unit.retriever_svc.documents import document, imported, operation


@pytest.mark.parametrize(
    ("method", "path", "members", "mutating", "told"),
    [
        ("get", "/accounts", {"operationId": "listAccounts"}, False, ""),
        ("get", "/accounts/delete", {"operationId": "a"}, True, "counts as a change"),
        ("get", "/accounts/{id}:cancel", {"operationId": "a"}, True, "counts as a change"),
        ("get", "/deleteAccount/{id}", {"operationId": "a"}, True, "counts as a change"),
        ("get", "/delete-account", {"operationId": "deleteAccount"}, True, "counts as a change"),
        ("get", "/accounts/{id}", {"operationId": "deleteAccount", "summary": "Deletes it"}, True, "as a change"),
        ("get", "/accounts/{id}", {"operationId": "deleteAccount"}, False, "counts as a read"),
        ("get", "/add-ons", {"operationId": "listAddOns"}, False, "counts as a read"),
        ("get", "/accounts/deleted", {"operationId": "a"}, False, ""),
        ("get", "/updates", {"operationId": "getUpdates"}, False, ""),
        ("get", "/addresses", {"operationId": "a", "summary": "Addresses of an account"}, False, ""),
        ("post", "/accounts", {"operationId": "a"}, True, ""),
        ("post", "/accounts/search", {"operationId": "a"}, True, "only reads"),
        ("delete", "/accounts/{id}", {"operationId": "a"}, True, ""),
    ],
)  # fmt: skip
def test_wording_counts_beside_the_method(
    method: str, path: str, members: dict[str, str], mutating: bool, told: str
) -> None:
    result = imported(document({path: {method: operation(**members)}}))
    (api,) = result.apis
    assert api.mutating == mutating
    doubts = [warning for warning in result.warnings if "counts as" in warning]
    assert (told in doubts[0]) if told else doubts == []


def test_a_get_that_changes_is_not_sent_twice() -> None:
    (api,) = imported(document({"/accounts/delete": {"get": operation()}})).apis
    assert not api.resendable


def test_the_operator_has_the_last_word_and_leaves_no_doubt() -> None:
    paths = {
        "/accounts/delete": {"get": operation(operationId="getDeletions")},
        "/accounts/search": {"post": operation(operationId="searchAccounts")},
        "/touch": {"get": operation(operationId="touch")},
    }
    effects: dict[str, Effect] = {"zoo.get*": "read", "zoo.search*": "read", "zoo.touch": "change", "zoo.*": "change"}
    result = imported(document(paths), provider="zoo", limits=Limits(effects=effects))
    assert [api.mutating for api in result.apis] == [False, False, True]
    assert not any("counts as" in warning for warning in result.warnings)


def test_an_effect_that_the_method_says_is_no_part_of_the_content() -> None:
    (plain,) = imported(document({"/x": {"get": operation()}})).apis
    (said,) = imported(document({"/x": {"get": operation()}}), limits=Limits(effects={"*": "read"})).apis
    assert said == plain
    assert "effect" not in plain.model_dump()
