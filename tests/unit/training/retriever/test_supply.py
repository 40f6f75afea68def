"""The trees that tell which output feeds which parameter are fitted to recorded plans."""

import json
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs requirements/train.txt")

import numpy as np
from typer.testing import CliRunner

from evals.data import Call, Instance
from services.contracts.api import Api, ApiResponse, Location, Parameter
from services.supply import SIGNS, Input, Operation, Scorer, likely_signs
from training.retriever.supply import cases

pytestmark = pytest.mark.training

THINGS = (
    "song",
    *(one + two for one in ("red", "big", "old", "new", "hot") for two in ("bird", "fish", "tree", "car")),
)


def listing(thing: str) -> Api:
    item = {"type": "object", "properties": {"id": {"type": "string"}, "mood": {"type": "string"}}}
    return Api(
        id=f"shop.list_{thing}s",
        provider="shop",
        name=f"list_{thing}s",
        path=f"/{thing}s",
        response=ApiResponse(json_schema={"type": "array", "items": item}),
    )


def reading(thing: str) -> Api:
    one = Parameter(name="id", wire_name="id", location=Location.PATH, required=True)
    return Api(
        id=f"shop.get_{thing}", provider="shop", name=f"get_{thing}", path=f"/{thing}s/{{id}}", parameters=(one,)
    )


def plan(number: int, thing: str, value: str) -> Instance:
    calls = (
        Call(api=f"shop.list_{thing}s", label="var_1"),
        Call(api=f"shop.get_{thing}", args={"id": value}, label="var_2"),
    )
    return Instance(id=str(number), split="train", query=f"show the first {thing}", calls=calls)


APIS = [make(thing) for thing in THINGS for make in (listing, reading)]


def test_the_field_that_a_plan_refers_to_is_right_and_all_others_are_wrong() -> None:
    (case,) = cases([plan(1, "song", "$var_1[0].id$")], APIS)
    assert case.right.tolist() == [True] + [False] * (len(case.right) - 1)
    assert case.rows[0, SIGNS.index("lists_it")] == 1
    assert len(set(case.sources.tolist())) > 1
    assert case.weights.min() >= 1
    (each,) = cases([plan(1, "song", "$var_1.*.id$")], APIS)
    assert each.rows[0].tolist() == case.rows[0].tolist()


def test_a_source_is_learnt_a_few_times_and_one_that_is_unknown_never() -> None:
    same = [plan(number, "song", "$var_1[0].id$") for number in range(9)]
    assert len(list(cases(same, APIS))) == 3
    assert not list(cases(same, [api for api in APIS if api.id != "shop.list_songs"]))


def test_the_command_fits_writes_and_prints(tmp_path: Path) -> None:
    from deploy.cli import app

    instances = [plan(n, thing, "$var_1[0].id$") for n, thing in enumerate(THINGS * 3)]
    (tmp_path / "tools.jsonl").write_text(
        "".join(json.dumps({"name": api.id, "api": api.model_dump(mode="json")}) + "\n" for api in APIS)
    )
    (tmp_path / "instances.jsonl").write_text("".join(f"{one.model_dump_json()}\n" for one in instances))
    out = tmp_path / "supply.npz"
    ran = CliRunner().invoke(app, ["train", "supply", "--data", str(tmp_path), "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "of the first two" in ran.stdout
    need = Input.of(Operation("shop", "getTree", "/trees/{id}"), "id")
    sources = (Operation("shop", f"list{name}", f"/{name}", outputs=("id",)) for name in ("trees", "cars"))
    trees, cars = (float(np.max(Scorer.load(out).scores(list(likely_signs(need, one))))) for one in sources)
    assert trees > cars
    nothing = CliRunner().invoke(app, ["train", "supply", "--data", str(tmp_path / "none"), "--out", str(out)])
    assert nothing.exit_code == 1
