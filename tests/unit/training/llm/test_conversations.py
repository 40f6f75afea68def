"""Conversations hold what they must, and each property can be switched off."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evals.data import read_all
from planner_svc.backends.served.prompt import BRIEF_INSTRUCTION, FULL_INSTRUCTION
from tests.unit.training.llm.data import small
from training.llm.conversations import Catalogue, Conversation, Properties, bare, conversations
from training.llm.turns import Turn, recorded_turns

PLAIN = Properties(off_topic=0, masked=0, reworded=0)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Turn], Catalogue]:
    data = read_all(small(tmp_path_factory.mktemp("data") / "small"))
    catalogue = Catalogue.of(data.apis)
    return list(recorded_turns(data.instances, catalogue.apis, "small")), catalogue


def made(found: tuple[list[Turn], Catalogue], properties: Properties, rounds: int = 2) -> list[Conversation]:
    return list(conversations(*found, properties, rounds))


def shown(one: Conversation) -> list[str]:
    """The names of the APIs in a prompt, in order."""
    lines = one["messages"][0]["content"].split("APIs:\n")[1].split("\n")
    return [line.split("(")[0] for line in lines if "(" in line]


def answers(one: Conversation) -> list[list[dict[str, Any]]]:
    return [json.loads(said["content"])["calls"] for said in one["messages"] if said["role"] == "assistant"]


def requests(one: Conversation) -> list[str]:
    return [said["content"] for said in one["messages"] if said["role"] == "user"]


def test_every_request_is_in_each_round_once_with_its_own_answer(found: tuple[list[Turn], Catalogue]) -> None:
    turns, _ = found
    rows = made(found, PLAIN)
    asked = [query for one in rows for query in requests(one)]
    assert sorted(asked) == sorted([turn.query for turn in turns] * 2)
    by_query = {turn.query: [call["arguments"] for call in turn.calls] for turn in turns}
    for one in rows:
        assert one["messages"][0]["content"].startswith(BRIEF_INSTRUCTION)
        assert len(one["ids"]) == len(requests(one)) == len(answers(one)) <= PLAIN.turns
        for query, calls in zip(requests(one), answers(one), strict=True):
            assert [call["arguments"] for call in calls] == by_query[query]


def test_the_full_form_is_that_of_a_hosted_model(found: tuple[list[Turn], Catalogue]) -> None:
    brief, full = made(found, PLAIN), made(found, PLAIN.model_copy(update={"detail": "full"}))
    for short, long in zip(brief, full, strict=True):
        assert short["messages"][1:] == long["messages"][1:], "the requests and their answers are the same"
        assert shown(short) == shown(long)
        assert long["messages"][0]["content"].startswith(FULL_INSTRUCTION)
        assert '"need":[' in long["messages"][0]["content"]


def test_the_needed_apis_are_always_shown_and_references_are_to_fields_on_their_lines(
    found: tuple[list[Turn], Catalogue],
) -> None:
    for one in made(found, Properties(off_topic=0.3, masked=0.3)):
        names = shown(one)
        assert len(names) == len(set(names)) <= 10
        for calls in answers(one):
            assert {call["name"] for call in calls} <= set(names)
            if "$var1" in str(calls):
                line = next(
                    row for row in one["messages"][0]["content"].split("\n") if row.startswith(calls[0]["name"])
                )
                assert "city_id" in line.split("->")[1]


def test_the_same_seed_gives_the_same_and_another_one_others(found: tuple[list[Turn], Catalogue]) -> None:
    assert made(found, Properties()) == made(found, Properties())
    assert made(found, Properties()) != made(found, Properties(seed=8))


def test_off_topic_requests_are_answered_with_no_call_by_lists_that_do_not_serve_them(
    found: tuple[list[Turn], Catalogue],
) -> None:
    turns, _ = found
    assert all(calls for one in made(found, PLAIN) for calls in answers(one))
    rows = made(found, Properties(off_topic=0.5, masked=0, turns=1, apis=6))
    needed = {turn.query: set(turn.apis) for turn in turns}
    empty = 0
    for one in rows:
        for query, calls in zip(map(bare, requests(one)), answers(one), strict=True):
            if not calls:
                empty += 1
                assert not needed[query] & set(shown(one))
    assert empty > 10


def test_a_share_of_the_conversations_is_apart(found: tuple[list[Turn], Catalogue]) -> None:
    assert all(one["apart"] is True for one in made(found, Properties(apart=1)))
    assert not any(one.get("apart") for one in made(found, Properties(apart=0)))


def test_masked_names_say_nothing_and_answers_use_them(found: tuple[list[Turn], Catalogue]) -> None:
    _, catalogue = found
    rows = made(found, Properties(masked=1, off_topic=0))
    assert rows
    for one in rows:
        assert one["masked"] is True
        assert not set(shown(one)) & set(catalogue.apis)
    assert not any(one.get("masked") for one in made(found, PLAIN))


def test_without_shuffling_the_needed_apis_come_first(found: tuple[list[Turn], Catalogue]) -> None:
    rows = made(found, Properties(shuffle=False, off_topic=0, masked=0, turns=1, reworded=0))
    assert all(shown(one)[: len(calls)] == [call["name"] for call in calls] for one in rows for calls in answers(one))
    mixed = made(found, Properties(off_topic=0, masked=0, turns=1, reworded=0))
    assert any(shown(one)[0] not in {call["name"] for call in calls} for one in mixed for calls in answers(one))


def test_the_order_of_like_apis_does_not_depend_on_how_python_hashes_words(tmp_path: Path) -> None:
    data = small(tmp_path / "small")
    code = (
        "import sys; from pathlib import Path; from evals.data import read_all; "
        "from training.llm.conversations import Catalogue; apis = read_all(Path(sys.argv[1])).apis; "
        "c = Catalogue.of(apis); print([c.like(api.id, 12) for api in apis])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code, str(data)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_siblings_are_the_apis_that_share_words(found: tuple[list[Turn], Catalogue]) -> None:
    _, catalogue = found
    assert catalogue.like("sendMessage", 1) == ["cancelMessage"]
    rows = made(found, Properties(off_topic=0, masked=0, turns=1))
    texting = [one for one in rows if any(call["name"] == "sendMessage" for calls in answers(one) for call in calls)]
    assert texting
    assert all("cancelMessage" in shown(one) for one in texting)


def test_courtesies_leave_the_request_as_it_is(found: tuple[list[Turn], Catalogue]) -> None:
    turns, _ = found
    known = {turn.query for turn in turns}
    rows = made(found, Properties(reworded=1, off_topic=0))
    asked = [query for one in rows for query in requests(one)]
    assert not known & set(asked)
    assert {bare(query) for query in asked} == known
    assert all(query == bare(query) for one in made(found, PLAIN) for query in requests(one))
