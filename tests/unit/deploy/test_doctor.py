"""What ``nestor apis doctor`` says of constants: which are set, and which parameters may be such."""

from datetime import UTC, datetime

from deploy.cli.doctor import constant_lines
from deploy.drawing import counted
from services.contracts.api import Api, ImportedDocument, Location, Parameter


def test_what_is_set_and_what_most_operations_ask_for() -> None:
    own = Parameter(name="account", wire_name="account", location=Location.PATH, required=True)
    sent = Parameter(name="V", wire_name="V", location=Location.HEADER, required=True, constant="2")
    title = Parameter(name="title", wire_name="title", location=Location.BODY, required=True)
    apis = [
        Api(id=f"zoo.op{n}", provider="zoo", name=f"op{n}", parameters=(title, sent, own)[: 3 if n < 4 else 2])
        for n in range(6)
    ]
    document = ImportedDocument(
        provider="zoo",
        document_hash="0",
        format="openapi-3.1",
        imported_at=datetime(2026, 1, 1, tzinfo=UTC),
        current=True,
        constants={"v": "2"},
    )
    assert constant_lines("zoo", apis, document) == [
        "v=2 is set, sent by 6 operations",
        "nestor apis set zoo account=VALUE  # if it is always the same; needed by 4 operations",
    ]
    assert constant_lines("zoo", apis[3:], None) == []


def test_what_tells_the_very_thing_is_no_constant() -> None:
    farm, cow = (
        Parameter(name=name, wire_name=name, location=Location.PATH, required=True) for name in ("farm", "cow")
    )
    apis = [
        Api(id=f"zoo.op{n}", provider="zoo", name=f"op{n}", path="/farms/{farm}/cows/{cow}", parameters=(farm, cow))
        for n in range(4)
    ]
    assert constant_lines("zoo", apis, None) == [
        "nestor apis set zoo farm=VALUE  # if it is always the same; needed by 4 operations"
    ]


def test_one_operation_is_no_plural() -> None:
    assert [counted(number) for number in (0, 1, 2, 1_200)] == [
        "0 operations", "1 operation", "2 operations", "1,200 operations",
    ]  # fmt: skip
