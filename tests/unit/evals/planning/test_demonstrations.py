"""Demos of a measurement: read, chosen by the real selector, and never the request's own."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.data import DataError, Instance, read_dataset
from evals.planning.demonstrations import Solved, open_demo_selector, plan_of, read_demos, read_shots
from services.contracts.demo import Demo, SelectedDemo
from services.contracts.retrieval import Candidate
from services.encoder import load_encoder
from tests.unit.evals.folders import TOOLS, folder

ROWS: list[dict[str, Any]] = [
    {"id": "1", "query": "Public holidays in Portugal", "calls": [{"api": "listHolidays", "args": {"country": "PT"}}]},
    {"id": "2", "query": "Public holidays in Spain", "calls": [{"api": "listHolidays", "args": {"country": "ES"}}]},
    {
        "id": "3",
        "query": "Public holidays in Portugal, and text them to Ana",
        "calls": [
            {"api": "listHolidays", "args": {"country": "PT"}},
            {"api": "send Message", "args": {"text": "$var_1.date$"}},
        ],
    },
    {"id": "4", "query": "Tell me a joke", "calls": []},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return folder(tmp_path / "data", TOOLS, ROWS)


def test_a_folder_of_solved_requests(data: Path) -> None:
    solved = read_demos(data)
    assert [(one.instance, one.demo.level, len(one.demo.plan.steps)) for one in solved] == [
        ("1", "api", 1), ("2", "api", 1), ("3", "task", 2), ("3", "api", 1)
    ]  # fmt: skip
    value = solved[2].demo.plan.steps[1].arguments["text"]
    assert (value.kind, getattr(value, "path", None)) == ("reference", ("date",))


def test_a_file_of_demos(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "demos.jsonl"
    file.write_text("\n".join(one.demo.model_dump_json() for one in read_demos(data)), encoding="utf-8")
    assert [one.instance for one in read_demos(file)] == [None] * 4
    file.write_text('{"query": "x"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"demos\.jsonl, line 1: plan: Field required"):
        read_demos(file)
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="no solved request"):
        read_demos(file)
    with pytest.raises(DataError, match="cannot be read"):
        read_demos(tmp_path / "nowhere.jsonl")


def test_what_is_no_plan_is_no_demo() -> None:
    odd = Instance.model_validate({"id": "1", "query": "Go", "calls": [{"api": "a name with blanks"}]})
    assert plan_of(odd) is None
    assert plan_of(Instance(id="2", query="Go")) is None


def chosen(data: Path, tmp_path: Path, solved: Sequence[Solved], *asked: Instance) -> list[tuple[SelectedDemo, ...]]:
    apis = read_dataset(data).apis
    candidates = [Candidate(api=api, score=0.5) for api in apis]

    async def go() -> list[tuple[SelectedDemo, ...]]:
        async with open_demo_selector(solved, load_encoder(), tmp_path) as selector:
            return [await selector.select(one, candidates) for one in asked]

    return asyncio.run(go())


def test_no_request_is_shown_its_own_solution(data: Path, tmp_path: Path) -> None:
    instances = {one.id: one for one in read_dataset(data).instances}
    again = instances["3"].model_copy(
        update={"id": "new", "query": "PUBLIC holidays in  Portugal, and text them to Ana"}
    )
    other = instances["3"].model_copy(
        update={"id": "newer", "query": "Public holidays in Portugal and text them to Rui"}
    )
    same_id = other.model_copy(update={"id": "3"})
    asked = [instances["1"], again, other, same_id]
    found = [[demo.demo.query for demo in one] for one in chosen(data, tmp_path, read_demos(data), *asked)]
    assert ROWS[0]["query"] not in found[0]
    assert ROWS[1]["query"] in found[0]
    assert ROWS[2]["query"] not in found[1]
    assert found[2][0] == ROWS[2]["query"]  # it is near enough to be shown to others
    assert ROWS[2]["query"] not in found[3]
    assert len(found[3]) == 2  # the places of what is passed over are filled


def test_shots_are_of_the_training_splits_and_never_of_what_is_asked(tmp_path: Path) -> None:
    rows = [
        row | {"split": split, "id": f"{split}-{row['id']}", "query": f"{row['query']} {number}"}
        for number, split in enumerate(("train", "dev", "test"))
        for row in ROWS
    ]
    rows += [rows[-2] | {"id": "train-same", "split": "train"}]  # a request of the test, word for word
    data = folder(tmp_path / "data", TOOLS, rows)
    asked = read_dataset(data, "test").instances
    found = {one.instance for one in read_shots(data, asked)}
    assert found == {f"{split}-{number}" for split in ("train", "dev") for number in (1, 2, 3)}
    # Of a training split that is asked in part, the rest is shown.
    assert {one.instance for one in read_shots(data, read_dataset(data, "dev").instances[:1])} == found - {"dev-1"} | {
        "train-same"
    }
    with pytest.raises(DataError, match="none can be shown"):
        read_shots(data, [Instance.model_validate({"id": row["id"], "query": row["query"]}) for row in rows])


@pytest.mark.parametrize("shots", [1, 2, 20])
def test_so_many_are_shown_at_most(data: Path, tmp_path: Path, shots: int) -> None:
    async def go() -> tuple[SelectedDemo, ...]:
        async with open_demo_selector(read_demos(data), load_encoder(), tmp_path, shots) as selector:
            candidates = [Candidate(api=api, score=0.5) for api in read_dataset(data).apis]
            return await selector.select(Instance(id="9", query="Public holidays in France"), candidates)

    assert len(asyncio.run(go())) == min(shots, 3)  # the one of several calls is not near enough


def test_nothing_is_selected_without_candidates(data: Path, tmp_path: Path) -> None:
    async def go() -> tuple[SelectedDemo, ...]:
        async with open_demo_selector(read_demos(data), load_encoder(), tmp_path) as selector:
            return await selector.select(Instance(id="9", query="Public holidays in Spain"), [])

    assert asyncio.run(go()) == ()


def test_demos_that_the_selector_refuses(data: Path, tmp_path: Path) -> None:
    whole = read_demos(data)[2].demo
    wrong = Demo.model_validate(json.loads(whole.model_dump_json()) | {"level": "api"})
    with pytest.raises(DataError, match="the demos cannot be used: Demo 0"):
        chosen(data, tmp_path, [Solved(wrong)], Instance(id="9", query="Go"))
