"""The second stage: the spans and links that are looked at, what speaks for each, and that its word stands."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer

import services
from planner_svc.backends.compact.calls import CALL_SIGNS, call_evidence
from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.demo_hints import DemoHints
from planner_svc.backends.compact.draft_calls import LiteralArgument, ReferenceArgument
from planner_svc.backends.compact.forms import Form
from planner_svc.backends.compact.inputs import FEATURES, Origin, arrange
from planner_svc.backends.compact.items import Encoded, Kind, items_of
from planner_svc.backends.compact.links import LINK_SIGNS
from planner_svc.backends.compact.reader import Reading
from planner_svc.backends.compact.second_stage import Judge, JudgeError, Judges
from planner_svc.backends.compact.sets import MOST, SET_SIGNS, set_evidence
from planner_svc.backends.compact.spans import SPAN_SIGNS, ParameterTarget, Spans
from planner_svc.backends.compact.task import Task
from planner_svc.reading.profile import read_profile
from services.contracts.api import Api
from services.encoder import DEFAULT_MODEL
from services.trees import Trees
from tests.unit.planner_svc.building import TEXT, WHOLE, api, param, record

POLICY = api(
    "createPolicy",
    param("policy_type", required=True, about="The type of policy (e.g., health, life, auto)"),
    param("holder", required=True, about="Who has it"),
    returns=record(policy_id={"type": "string"}),
)
CLAIM = api("fileClaim", param("policy_id", required=True, about="Of the policy"))
TOKENIZER = Tokenizer.from_file(str(Path(services.__file__).parent / "models" / DEFAULT_MODEL / "tokenizer.json"))


def judge(signs: tuple[str, ...], sign: str, low: float = -4, high: float = 4, split: float = 0.5) -> Judge:
    """A tree with one question."""
    return Judge(
        signs,
        Trees(
            base=np.array(0.0, np.float32),
            feature=np.array([[signs.index(sign), 0, 0]], np.int32),
            split=np.array([[split, 0, 0]], np.float32),
            children=np.array([[[1, 2], [1, 1], [2, 2]]], np.int32),
            value=np.array([[0, low, high]], np.float32),
            depth=np.array(1, np.int16),
        ),
    )


def task(query: str, apis: tuple[Api, ...], pointed: Mapping[str, str], origin: Origin = Origin.SPAN) -> Task:
    """Of a network that calls all APIs and points, for parameters by name, at these words of the request."""
    profiles = [read_profile(one) for one in apis]
    read = [Encoded(one, items_of(one), *unread(len(items_of(one)))) for one in profiles]
    tokens = TOKENIZER.encode(query)
    inputs = arrange(query, tokens.offsets, read, [[0.0] * FEATURES] * len(read))
    count, length = len(inputs.kind), len(tokens.offsets)
    logits: dict[str, Any] = {
        "call": np.full(count, 5.0, np.float32),
        "count": np.tile(np.array([5, 0, 0, 0], np.float32), (count, 1)),
        "source": np.zeros((count, len(Origin)), np.float32),
        "form": np.zeros((count, len(Form)), np.float32),
        "start": np.zeros((count, length), np.float32),
        "end": np.zeros((count, length), np.float32),
        "option": np.zeros(count, np.float32),
        "reference": np.zeros((count, count), np.float32),
        "answer": np.zeros(count, np.float32),
        "size": np.zeros(MOST + 1, np.float32),
    }
    logits["source"][:, origin] = 3
    for one, first in zip(read, inputs.first, strict=True):
        for place, item in enumerate(one.items, first):
            name = one.profile.slots[item.slot].name if item.kind is Kind.PARAMETER else ""
            if name in pointed:
                start = query.index(pointed[name])
                end = start + len(pointed[name])
                logits["start"][place, next(i for i, (a, b) in enumerate(tokens.offsets) if b > a and a == start)] = 5
                logits["end"][place, next(i for i, (a, b) in enumerate(tokens.offsets) if b > a and b == end)] = 5
    return Task(query, read, Reading(tuple(tokens.offsets), inputs, logits), datetime(2026, 11, 20, tzinfo=UTC), {})


def unread(items: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Vectors of an API that says nothing."""
    return np.zeros((items, 4), np.float16), np.zeros((2, 4), np.float16)


def texts(of: Task, name: str) -> list[str]:
    """The spans that are looked at for a parameter, likeliest first."""
    spans, target = looked(of, name)
    found = spans.candidates(target)
    return [of.query[of.reading.offsets[first][0] : of.reading.offsets[last][1]] for first, last in found]


def looked(of: Task, name: str) -> tuple[Spans, ParameterTarget]:
    filler = Decoder(of).filler
    return filler.spans, next(one for n in range(len(of.apis)) for one in filler.targets(n) if one.slot.name == name)


def signs(of: Task, name: str) -> dict[str, dict[str, float]]:
    """What speaks for each span, by its text."""
    spans, target = looked(of, name)
    found = spans.candidates(target)
    rows = spans.evidence(target, found)
    said = [of.query[of.reading.offsets[a][0] : of.reading.offsets[b][1]] for a, b in found]
    return {text: dict(zip(SPAN_SIGNS, row, strict=True)) for text, row in zip(said, rows.tolist(), strict=True)}


def values(of: Task, judges: Judges) -> dict[str, Any]:
    """The decoded arguments by name."""
    calls = Decoder(of, judges).calls(list(range(len(of.apis))))
    return {
        name: one.value if isinstance(one, LiteralArgument) else one for c in calls for name, one in c.arguments.items()
    }


def test_looked_at_is_what_the_network_points_at_and_whatever_looks_like_a_value() -> None:
    query = 'Create a new life insurance for Ada Lovelace, number A-7, called "my first one".'
    found = texts(task(query, (POLICY,), {"policy_type": "new life insurance"}), "policy_type")
    assert found[0] == "new life insurance"
    assert {"life", "Ada Lovelace", "my first one"} <= set(found)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("name", "description"), 1),
        (("owner", "approver"), 1),
        (("password", "password_confirmation"), 2),
        (("startDate", "endDate"), 2),
        (("from_day", "to_day"), 2),
    ],
)
def test_the_same_words_say_one_argument_unless_two_are_named_alike(names: tuple[str, str], said: int) -> None:
    one = api("addThing", *(param(name, required=True, about="Text") for name in names))
    of = task('Add the thing "Load test"', (one,), dict.fromkeys(names, "Load test"))
    assert list(values(of, Judges()).values()).count("Load test") == said


def test_a_part_of_another_argument_s_words_is_no_value() -> None:
    one = api("addThing", param("name", required=True), param("description", about="Text"))
    of = task('Add the thing "Load test"', (one,), {"name": "Load test", "description": "test"})
    assert values(of, Judges()) == {"name": "Load test"}


def test_an_option_that_is_a_part_of_a_name_is_not_said() -> None:
    kinds = {"type": "string", "enum": ["bread", "cake"]}
    one = api("findProducts", param("name", required=True), param("category", kinds))
    of = task("Find the walnut bread", (one,), {"name": "walnut bread"}, Origin.OPTION)
    assert values(of, Judges()) == {"name": "walnut bread"}


def test_a_named_option_is_chosen_before_a_likelier_one() -> None:
    formats = {"type": "string", "enum": ["mp3", "wav"]}
    of = task("The mp3 of score A-7", (api("getScore", param("format", formats)),), {}, Origin.OPTION)
    of.reading.logits["option"][:] = np.linspace(-2, 2, len(of.reading.logits["option"]))  # the last is the likeliest
    assert values(of, Judges()) == {"format": "mp3"}


def test_of_several_calls_spans_that_lie_apart_are_looked_at() -> None:
    of = task("one might say any of all these many words here and also others besides", (POLICY,), {})
    spans, target = looked(of, "holder")
    one, several = set(spans.candidates(target)), set(spans.candidates(target, 2))
    assert one < several
    apart = sorted(several - one)
    assert all(before[1] < after[0] for before, after in pairwise(apart))


def test_what_speaks_for_a_span() -> None:
    query = "Create a new health policy, type life, for Ada."
    told = signs(task(query, (POLICY,), {"policy_type": "new health", "holder": "Ada"}), "policy_type")
    assert told["health"]["example"] == told["life"]["example"] == 1
    assert told["new health"]["example"] == 0
    assert told["life"]["named_before"] == 1
    assert told["new health"]["relative"] == pytest.approx(0, abs=1e-3)
    assert told["new health"]["named_after"] == 1
    assert told["Ada"]["wanted_beside"] > 0.2 > told["life"]["wanted_beside"]
    assert told["Ada"]["capital"] == 1


def test_the_judge_of_spans_overrules_the_network() -> None:
    query = "Create a new health insurance for Ada."
    of = task(query, (POLICY,), {"policy_type": "new health insurance", "holder": "Ada"})
    assert values(of, Judges())["policy_type"] == "new health insurance"
    assert values(of, Judges(spans=judge(SPAN_SIGNS, "example")))["policy_type"] == "health"


def test_an_example_is_written_as_the_schema_writes_it() -> None:
    of = task("Create Autos for Ada.", (POLICY,), {"policy_type": "Autos", "holder": "Ada"})
    assert values(of, Judges())["policy_type"] == "auto"


def test_values_of_demos_are_examples() -> None:
    query = "Create a new dental insurance for Ada."
    of = task(query, (POLICY,), {"policy_type": "new dental insurance", "holder": "Ada"})
    judges = Judges(spans=judge(SPAN_SIGNS, "example"))
    assert "policy_type" not in values(of, judges)
    hints = DemoHints(values={(POLICY.id, "policy_type"): ("Dental",)})
    assert values(replace(of, hints=hints), judges)["policy_type"] == "Dental"


def test_the_judge_of_calls_decides_what_is_called() -> None:
    of = task("Create a health policy for Ada.", (POLICY, CLAIM), {"policy_type": "health", "holder": "Ada"})
    assert Decoder(of).chosen() == [0, 1]
    of.reading.logits["call"][of.reading.inputs.first[1]] = 1.0  # likely, and behind the likeliest
    assert Decoder(of).chosen() == [0, 1]
    assert Decoder(of, Judges(judge(CALL_SIGNS, "behind", low=4, high=-4))).chosen() == [0]
    assert Decoder(of, Judges(judge(CALL_SIGNS, "behind", low=80, high=-80))).called.tolist() == pytest.approx(
        [1, 0], abs=1e-5
    )


def test_what_speaks_for_a_call_is_told_beside_the_others() -> None:
    of = task("Create a health policy for Ada.", (POLICY, CLAIM), {})
    vectors = np.array([[1, 0, 0, 0], [0.6, 0.8, 0, 0]], np.float32)
    inputs = of.reading.inputs
    inputs.units[inputs.place[list(inputs.first)]] = vectors
    of.reading.logits["call"][of.reading.inputs.first[1]] = -1.0
    evidence = call_evidence(of.query, [one.profile for one in of.apis], of.reading.inputs, of.reading.logits)
    policy, claim = (dict(zip(CALL_SIGNS, row, strict=True)) for row in evidence.tolist())
    assert (policy["rank"], claim["rank"]) == (0, 1)
    assert (policy["behind"], claim["behind"]) == (0, 6)
    assert (policy["likelier_twin"], claim["likelier_twin"]) == (-1, pytest.approx(0.6))
    assert claim["twin_called"] == pytest.approx(1 / (1 + np.exp(-5)))
    assert (policy["parameters"], claim["parameters"], policy["words"]) == (2, 1, 6)
    alone = task("Create it.", (CLAIM,), {})
    assert np.isfinite(
        call_evidence(alone.query, [one.profile for one in alone.apis], alone.reading.inputs, alone.reading.logits)
    ).all()


def called_signs(of: Task) -> list[dict[str, float]]:
    """What speaks for calling each candidate."""
    rows = call_evidence(of.query, [one.profile for one in of.apis], of.reading.inputs, of.reading.logits)
    return [dict(zip(CALL_SIGNS, row, strict=True)) for row in rows.tolist()]


def test_a_chain_speaks_for_both_of_its_calls() -> None:
    of = task("Create a health policy for Ada, and file a claim.", (POLICY, CLAIM), {})
    (target,) = Decoder(of).filler.targets(1)
    policy, claim = called_signs(of)
    assert policy["feeds"] == pytest.approx(claim["fed"])
    assert policy["feeds"] < 0.1
    of.reading.logits["source"][target.place, Origin.REFERENCE] = 9.0
    policy, claim = called_signs(of)
    assert policy["feeds"] > 0.95 < claim["fed"]
    assert claim["feeds"] < 0.1 > policy["fed"]
    of.reading.logits["call"][of.reading.inputs.first[1]] = -5.0
    policy, claim = called_signs(of)
    assert policy["feeds"] < 0.05 < claim["fed"]


def test_what_is_required_and_not_said_speaks_against_a_call() -> None:
    of = task("Create a health policy for Ada.", (POLICY, CLAIM), {})
    of.reading.logits["source"][Decoder(of).filler.targets(1)[0].place, Origin.ABSENT] = 9.0
    policy, claim = called_signs(of)
    assert (policy["required"], claim["required"]) == (2, 1)
    assert policy["most_unsaid"] < policy["unsaid"] < 0.1
    assert claim["most_unsaid"] == claim["unsaid"] > 0.9
    assert policy["said"] > 1.5 > policy["most_said"] > 0.9 > claim["said"]


def test_who_answers_what_is_asked_for_is_told_from_the_others() -> None:
    of = task("Which id has the new policy for Ada?", (POLICY, CLAIM), {})
    of.reading.logits["answer"][:] = -9.0
    [(place, _)] = of.items(0, Kind.OUTPUT)
    of.reading.logits["answer"][place] = 4.0
    policy, claim = called_signs(of)
    assert policy["asked"] == policy["most_asked"] > 0.95
    assert policy["asked_behind"] == 0
    assert claim["asked_behind"] > 0.95 > 0.05 > claim["most_asked"]


def test_the_judge_of_sets_decides_how_many_are_called() -> None:
    of = task("Create a health policy for Ada, and file a claim.", (POLICY, CLAIM), {})
    of.reading.logits["call"][list(of.reading.inputs.first)] = [0.5, 0.2]
    assert Decoder(of).chosen() == [0, 1]

    assert Decoder(of, Judges(sets=judge(SET_SIGNS, "last", split=0.7))).chosen() == []  # none is surest to be needed
    sure = Decoder(of, Judges(sets=judge(SET_SIGNS, "size", low=-4, high=4)))
    assert sure.chosen() == [0]
    assert sure.probability_of_set == pytest.approx(1 / (1 + np.exp(-4)))
    assert Decoder(of).probability_of_set == pytest.approx(1 / (1 + np.exp(0.5)))
    assert Decoder(of, Judges(sets=judge(SET_SIGNS, "next", low=4, high=-4))).chosen() == [0, 1]


def test_what_speaks_for_a_set_is_told_of_its_edges() -> None:
    of = task("Create a health policy for Ada, and file a claim.", (POLICY, CLAIM), {})
    of.reading.logits["call"][list(of.reading.inputs.first)] = [-1.0, 2.0]
    order, evidence = Decoder(of).sets()
    nobody, one, both = (dict(zip(SET_SIGNS, row, strict=True)) for row in evidence.tolist())
    assert order == [1, 0]
    assert [said["size"] for said in (nobody, one, both)] == [0, 1, 2]
    assert (nobody["last"], both["next"]) == (1, 0)
    assert one["last"] == nobody["next"] == pytest.approx(1 / (1 + np.exp(-2)))
    assert one["next"] == both["last"] == pytest.approx(1 / (1 + np.exp(1)))
    assert (one["last_odds"], one["next_odds"]) == (2, -1)
    assert one["inside"] + one["outside"] > nobody["inside"] + nobody["outside"]
    assert both["most_most_unsaid"] >= one["most_most_unsaid"]


def test_no_candidate_is_a_set_too() -> None:
    rows, nobody = np.zeros((0, len(CALL_SIGNS)), np.float32), np.zeros((0, 0), np.float32)
    assert set_evidence(rows, rows[:, 0], nobody, [], np.zeros(MOST + 1, np.float32)).shape == (1, len(SET_SIGNS))


def test_an_api_is_called_for_what_surely_comes_from_another_call() -> None:
    of = task("File a claim.", (POLICY, CLAIM), {}, Origin.ABSENT)
    of.reading.logits["call"][of.reading.inputs.first[0]] = -3.0
    filler = Decoder(of).filler
    (target,) = filler.targets(1)
    assert filler.link_candidates(target, [1]) == []
    of.reading.logits["source"][target.place, Origin.REFERENCE] = 9.0
    assert [one.output.path for one in Decoder(of).filler.link_candidates(target, [1])] == [("policy_id",)]


PRICED = api("setPrice", param("price", {"type": "number"}, required=True), param("pieces", WHOLE, required=True))


@pytest.mark.parametrize(("odds", "price"), [(2.0, 300.0), (-2.0, 300)])
def test_a_number_is_written_with_a_decimal_point_where_it_need_not_be_whole(odds: float, price: float) -> None:
    of = task("The price is 300 for 12 pieces.", (PRICED,), {"price": "300", "pieces": "12"})
    of.reading.logits["form"][:, Form.DECIMAL] = odds
    said = values(of, Judges())
    assert repr(said) == repr({"price": price, "pieces": 12})
    of.reading.logits["form"][:, Form.DECIMAL] = 9.0
    assert repr(values(of, Judges())["pieces"]) == "12"


def test_the_judge_of_links_decides_whether_another_call_answers() -> None:
    query = "Create a health policy for Ada, then file a claim for number 12."
    of = task(query, (POLICY, CLAIM), {"policy_type": "health", "holder": "Ada", "policy_id": "12"})
    assert values(of, Judges(links=judge(LINK_SIGNS, "namesake", high=-4)))["policy_id"] == "12"
    fed = values(of, Judges(spans=judge(SPAN_SIGNS, "example"), links=judge(LINK_SIGNS, "namesake")))["policy_id"]
    assert isinstance(fed, ReferenceArgument)
    assert fed.field.path == ("policy_id",)


@given(st.text(max_size=120), st.integers(0, 2**32 - 1))
def test_evidence_is_finite_whatever_is_asked(query: str, seed: int) -> None:
    of = task(query, (POLICY, CLAIM), {})
    rng = np.random.default_rng(seed)
    for name in ("start", "end", "source", "reference"):
        of.reading.logits[name][:] = rng.normal(0, 4, of.reading.logits[name].shape)
    filler = Decoder(of).filler
    for number in range(2):
        for target in filler.targets(number):
            found = filler.spans.candidates(target, 1 + seed % 2)
            rows = filler.spans.evidence(target, found)
            assert rows.shape == (len(found), len(SPAN_SIGNS))
            candidates = filler.link_candidates(target, [0, 1])
            links = filler.link_evidence(target, 1, candidates)
            assert links.shape == (len(candidates), len(LINK_SIGNS))
            assert np.isfinite(rows).all()
            assert np.isfinite(links).all()
            assert all(of.reading.offsets[a][1] > of.reading.offsets[a][0] for span in found for a in span)


def test_judges_are_kept_beside_the_network(tmp_path: Path) -> None:
    assert Judges.load(tmp_path) == Judges()
    stages = (
        judge(CALL_SIGNS, "odds"),
        judge(SPAN_SIGNS, "example"),
        judge(LINK_SIGNS, "share"),
        judge(SET_SIGNS, "size"),
    )
    Judges(*stages).save(tmp_path)
    read = Judges.load(tmp_path)
    rows = np.zeros((2, len(SPAN_SIGNS)), np.float32)
    rows[1, SPAN_SIGNS.index("example")] = 1
    assert read.spans is not None
    assert read.links is not None
    assert read.spans(rows).tolist() == pytest.approx([0.018, 0.982], abs=1e-3)


def test_judges_of_another_version_are_refused(tmp_path: Path) -> None:
    Judges(spans=judge(LINK_SIGNS, "share")).save(tmp_path)
    with pytest.raises(JudgeError, match="other signs"):
        Judges.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no more", b"\x93NUMPY"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "links.npz").write_bytes(content)
    with pytest.raises(JudgeError, match=r"links\.npz"):
        Judges.load(tmp_path)


def test_a_single_value_is_taken_from_a_list_of_values_and_a_list_as_a_whole() -> None:
    names = {"type": "array", "items": TEXT}
    listing = api("getAccounts", returns=record(accounts=names))
    one = api("getOne", param("accounts", TEXT, required=True))
    all_of = api("getAll", param("accounts", names, required=True))
    of = task("What do they owe?", (listing, one, all_of), {}, Origin.REFERENCE)
    filler = Decoder(of).filler
    found = [filler.link_candidates(filler.targets(number)[0], [0])[0].output.path for number in (1, 2)]
    assert found == [("accounts", 0), ("accounts",)]
