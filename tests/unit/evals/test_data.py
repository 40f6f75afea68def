"""The reader: both forms of a folder, splits, and files that are not what they say."""

import gzip
from pathlib import Path
from typing import Any

import pytest

import evals.data
from evals.data import NO_PROVIDER, DataError, read_dataset
from services.contracts.api import Location
from tests.unit.evals.folders import INSTANCES, TOOLS, folder


def test_tools_become_apis(tmp_path: Path) -> None:
    holidays, sunrise, message = read_dataset(folder(tmp_path)).apis
    assert (holidays.id, holidays.provider, holidays.name) == ("listHolidays", NO_PROVIDER, "listHolidays")
    assert (holidays.description, holidays.tags) == ("Public holidays of a country", ("Calendar",))
    (country,) = holidays.parameters
    assert (country.name, country.required, country.location) == ("country", True, Location.BODY)
    assert country.json_schema == {"type": "string", "enum": ["PT"]}
    assert holidays.response.json_schema["properties"] == {
        "date": {"type": "string", "description": "The day"},
        "kind": {},  # JSON Schema knows no "any"
    }
    assert (sunrise.tags, sunrise.response.json_schema) == ((), {})
    assert message.id == "send_Message"


def test_calls_name_apis_by_id(tmp_path: Path) -> None:
    calls = [{"api": "send Message"}, {"api": "gone"}]
    (one,) = read_dataset(folder(tmp_path, instances=[{"id": "1", "query": " Text Ana ", "calls": calls}])).instances
    assert one.apis == {"send_Message", "gone"}
    assert one.query == "Text Ana"


def test_what_is_sent_anyhow_is_no_part_of_a_solution(tmp_path: Path) -> None:
    def parameter(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "wire_name": name, "location": "query", "json_schema": {"type": "string"}, **more}

    asked: dict[str, Any] = {
        "id": "shop.find",
        "provider": "shop",
        "name": "find",
        "server": "https://shop.example",
        "path": "/find",
    }
    asked |= {"parameters": [parameter("op", constant="find"), parameter("page", constant="1"), parameter("q")]}
    calls: list[dict[str, Any]] = [{"api": "shop.find", "args": {"op": "find", "page": "2", "q": "find"}}]
    instances = [{"id": "1", "query": "Find it, page 2", "calls": calls}]
    (one,) = read_dataset(folder(tmp_path, [{"name": "shop.find", "api": asked}], instances)).instances
    assert one.calls[0].args == {"page": "2", "q": "find"}


@pytest.mark.parametrize(
    ("name", "spec", "provider", "operation"),
    [
        ("adyen.com~Pay.v1.capture", "apis/openapi/adyen.com/Pay/1/openapi.json", "adyen.com~Pay", "v1.capture"),
        ("shop.co.uk.list", "apis/openapi/shop.co.uk/main/1/openapi.json", "shop.co.uk", "list"),
        ("shop.community.list", "apis/openapi/shop.com/main/1/openapi.json", "shop", "community.list"),
        ("Travel_1.Find", None, "Travel_1", "Find"),
        ("plain", None, NO_PROVIDER, "plain"),
        (".odd", None, NO_PROVIDER, ".odd"),
    ],
)  # fmt: skip
def test_operations_of_real_services(
    tmp_path: Path, name: str, spec: str | None, provider: str, operation: str
) -> None:
    tool: dict[str, Any] = {
        "name": name,
        "description": "x",
        "parameters": {"id": {"type": "uuid", "in": "path", "required": True}},
        "http": {"method": "post", "path": "/things/{id}", "host": "https://x.example"},
        "spec": spec,
    }
    instances = [{"id": "1", "split": "template", "query": "Go", "calls": [{"api": name}]}]
    made = folder(tmp_path, [tool], instances, ("tools_dev.jsonl.gz", "workflows_dev.jsonl.gz"))
    dataset = read_dataset(made)
    (api,) = dataset.apis
    assert (api.provider, api.name) == (provider, operation)
    assert (api.method, api.path, api.server) == ("POST", "/things/{id}", "https://x.example")
    assert api.parameters[0].location is Location.PATH
    assert dataset.split == "template"
    assert dataset.instances[0].apis == {api.id}


def test_splits(tmp_path: Path) -> None:
    made = folder(tmp_path)
    assert [one.id for one in read_dataset(made).instances] == ["1", "2"]
    assert [one.id for one in read_dataset(made, "test").instances] == ["3"]
    with pytest.raises(DataError, match="no split 'train'; it has dev, test"):
        read_dataset(made, "train")


def test_among_several_splits_none_is_guessed(tmp_path: Path) -> None:
    made = folder(tmp_path, instances=[INSTANCES[2], INSTANCES[2] | {"split": "train"}])
    with pytest.raises(DataError, match="choose one of test, train"):
        read_dataset(made)


def test_a_sample_is_the_same_every_time(tmp_path: Path) -> None:
    rows = [INSTANCES[0] | {"id": str(number)} for number in range(50)]
    made = folder(tmp_path, instances=rows)
    first = [one.id for one in read_dataset(made, limit=10).instances]
    assert first == [one.id for one in read_dataset(made, limit=10).instances]
    assert len(set(first)) == 10
    assert first != [str(number) for number in range(10)]
    assert len(read_dataset(made, limit=99).instances) == 50


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"id": "4", "query": "x"', "Invalid JSON"),
        (b'{"id": "4", "query": "\xff"}', "Invalid JSON"),
        (b'["a list"]', "object"),
        (b'{"id": "4"}', "query: Field required"),
        (b'{"id": "4", "query": "  "}', "query: "),
        (b'{"id": "4", "query": "' + b"x" * 10_001 + b'"}', "query: "),
        (b'{"id": "4", "query": "x", "calls": [{"api": 1}]}', "calls.0.api"),
        (b'{"id": "4", "query": "x", "calls": ' + b"[" * 100_000, "Invalid JSON"),
        (b'{"id": "4", "query": "x", "calls": [{"api": "a", "args": {"x": NaN}}]}', "Invalid JSON"),
        (b'{"id": "4", "query": "x", "calls": [{"api": "a", "args": {"x": 1e400}}]}', "Invalid JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, says: str) -> None:
    file = folder(tmp_path) / "instances.jsonl"
    file.write_bytes(file.read_bytes() + b"\n" + line + b"\n")
    with pytest.raises(DataError, match=rf"^instances\.jsonl, line 5: .*{says}"):
        read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "id: "),
        ({"name": "getSunrise"}, "a tool 'getSunrise' already"),
        ({"name": "send\tMessage"}, "already"),
        ({"http": {"path": "no-slash"}}, "path: "),
        ({"parameters": {"x": {"in": "nowhere"}}}, "location: "),
        ({"parameters": {"x": "text"}}, "parameters.x"),
        ({"parameters": {"": {}}}, "name: "),
        ({"parameters": {"x": {"required": "perhaps"}}}, "required: "),
    ],
)
def test_a_bad_tool_is_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    made = folder(tmp_path, [*TOOLS, {"name": "new", "description": "x"} | change])
    with pytest.raises(DataError, match=rf"^tools\.jsonl, line 4: .*{says}"):
        read_dataset(made)


def test_files_that_are_missing_cut_off_or_no_gzip(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has none of tools\.jsonl, tools\.jsonl\.gz, tools_dev"):
        read_dataset(tmp_path)
    folder(tmp_path)
    whole = gzip.compress((tmp_path / "tools.jsonl").read_bytes())
    (tmp_path / "tools.jsonl").unlink()
    damaged = whole[:14] + bytes([whole[14] ^ 255]) + whole[15:]
    for content in (whole[:-12], damaged, b"not gzip"):
        (tmp_path / "tools.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"^tools\.jsonl\.gz"):
            read_dataset(tmp_path)


def test_an_endless_line_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evals.data, "_MAX_LINE", 1_000)
    file = folder(tmp_path) / "tools.jsonl"
    file.write_bytes(file.read_bytes() + b" " * 1_001)
    with pytest.raises(DataError, match="line 4: longer than 1000 bytes"):
        read_dataset(tmp_path)
