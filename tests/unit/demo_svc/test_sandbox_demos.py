"""The demos that ship: enough of them, sound, provable, and none of them a question of the evaluation."""

import importlib.resources
import json
from collections import Counter

import numpy as np
import pytest

from planner_svc.compile import compile_plan
from retriever_svc.importers import import_document
from sandbox.main import create_app
from sandbox.openapi import build_document, with_server
from services.contracts.api import Api
from services.contracts.demo import Demo, demo_id
from services.contracts.planning import Decision, Policy
from services.encoder import load_encoder
from tests.e2e.questions import read_questions

LINES = (importlib.resources.files("demo_svc") / "data" / "sandbox_demos.jsonl").read_text("utf-8").splitlines()
DEMOS = [Demo.model_validate_json(line) for line in LINES]
TOO_NEAR = 0.97


@pytest.fixture(scope="module")
def apis() -> dict[str, Api]:
    document = with_server(build_document(create_app()), "http://sandbox.example")
    return {api.id: api for api in import_document(json.dumps(document), provider="sandbox").apis}


def test_there_are_enough_of_both_levels() -> None:
    levels = Counter(demo.level for demo in DEMOS)
    assert levels["task"] >= 25
    assert levels["api"] >= 15
    assert len({demo_id(demo) for demo in DEMOS}) == len(DEMOS)
    assert all(len(demo.apis) == 1 for demo in DEMOS if demo.level == "api")


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.query[:40])
def test_a_demo_can_be_proved(demo: Demo, apis: dict[str, Api]) -> None:
    used = [apis[api] for api in demo.apis]
    proved = compile_plan(demo.plan, used, Policy(mutating=Decision.ALLOW))
    assert proved.compiled is not None, proved.diagnostics
    assert proved.compiled.plan.steps == demo.plan.steps
    assert [d.message for d in proved.diagnostics] == []


def test_no_demo_is_a_question_of_the_evaluation() -> None:
    questions = {q["id"]: q["query"] for half in ("dev", "heldout") for q in read_questions(half)}
    asked = {_plain(demo.query) for demo in DEMOS}
    assert [key for key, query in questions.items() if _plain(query) in asked] == []
    encoder = load_encoder()
    near = encoder.encode([demo.query for demo in DEMOS]) @ encoder.encode(list(questions.values())).T
    row, column = np.unravel_index(int(near.argmax()), near.shape)
    nearest = f"{near.max():.3f}: demo {DEMOS[int(row)].query!r}, question {list(questions)[int(column)]}"
    assert near.max() < TOO_NEAR, nearest


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
