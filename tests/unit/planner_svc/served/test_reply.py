"""Reading what models write: generous about the form, never about the content."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.backends.served import reply
from planner_svc.backends.served.reply import MAX_CHARS, Reply, ReplyError, json_values, read_reply
from services.codecs import nestful
from services.contracts.plan import ForEach, Plan, Reference
from services.contracts.planning import MAX_NEED_CHARS, MAX_NEEDS
from tests.unit.planner_svc.building import plan, step, value

NAMES = {"t.find": "find", "t.holidays": "holidays"}
FIND = {"name": "find", "label": "var1", "arguments": {"name": "Portugal"}}
HOLIDAYS = {"name": "holidays", "label": "var2", "arguments": {"country": "$var1.code$"}}
WHOLE = json.dumps({"calls": [FIND, HOLIDAYS]})
PLAN = plan(step("var1", "find", name="Portugal"), step("var2", "holidays", country="$var1.code$"), answer=None)


def read(text: str, **options: bool) -> Reply:
    return read_reply(text, NAMES, **options)


def planned(*calls: dict[str, Any], **more: Any) -> Plan:
    found = read(json.dumps({"calls": list(calls), **more})).plan
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"Sure! Here is the plan:\n\n{WHOLE}\n\nLet me know {{if}} it fits.",
        f"<think>First find {{the}} country. {json.dumps({'calls': []})}</think>{WHOLE}",
        f"it needs a country first</think>\n{WHOLE}",
        f"Maybe {json.dumps({'calls': [HOLIDAYS]})}? No: {WHOLE}",
        json.dumps([FIND, HOLIDAYS]),
        WHOLE[:-1],
        WHOLE[:-2],
        json.dumps({"tool_calls": [FIND, HOLIDAYS]}),
        json.dumps({"calls": [FIND, HOLIDAYS], "need": [], "comment": "done"}),
        json.dumps({"calls": [{**FIND, "reason": "find it", "foreach": None}, HOLIDAYS]}),
        json.dumps({"calls": [{**FIND, "label": "$var1$"}, {**HOLIDAYS, "label": "$var2"}]}),
        WHOLE.replace("var1", "var_1").replace("var2", "var_2"),
        WHOLE.replace("$var1.code$", "$var1.code"),
        WHOLE.replace("$var1.code$", "${var1.code}"),
        WHOLE.replace('"find"', '"t.find"'),
        WHOLE.replace('"label": "var1", ', "").replace('"label": "var2", ', ""),
        json.dumps({"calls": [{**FIND, "arguments": json.dumps(FIND["arguments"])}, HOLIDAYS]}),
        json.dumps({"calls": [{"name": "find", "label": "var1", "parameters": FIND["arguments"]}, HOLIDAYS]}),
        json.dumps(
            [
                {
                    "type": "function",
                    "id": f"call_{n}",
                    "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])},
                }
                for n, c in enumerate((FIND, HOLIDAYS))
            ]
        ),
    ],
)
def test_one_plan_in_many_forms(text: str) -> None:
    assert read(text).plan == PLAN


def test_a_single_call() -> None:
    assert planned(FIND) == read(json.dumps(FIND)).plan == read(json.dumps({"calls": FIND})).plan


def test_reasoning_is_kept_apart() -> None:
    reply = read(f"<think>Delete it all.</think> So: {WHOLE} Good?")
    assert reply.plan == PLAN
    assert reply.aside == "<think>Delete it all.</think>\nSo:  Good?"


def test_what_answers() -> None:
    asked = planned(FIND, {"name": "var_result", "arguments": {"code": "$var1.code$", "note": "nothing", "n": 3}})
    assert [(one.name, one.value) for one in asked.answer] == [("code", Reference(step="var1", path=("code",)))]
    listed = planned(FIND, answer=["$var1.code$", "$var1.names[0].code$"])
    assert [one.name for one in listed.answer] == ["code", "code_2"]
    named = planned(FIND, answer={"the code": "$var1.code$"})
    assert [one.name for one in named.answer] == ["the code"]


@pytest.mark.parametrize("answer", [["$var1.code$"] * 5_000, {f"n{number}": "$var1.code$" for number in range(5_000)}])
def test_what_answers_is_bounded(answer: Any) -> None:
    """Names were made unlike one another by looking at all of them for each: 16,000 took eighteen seconds."""
    found = planned(FIND, answer=answer)
    assert len(found.answer) == len({one.name for one in found.answer}) == 200


def test_fences_are_looked_for_around_the_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking around each of two hundred values took two seconds."""
    looked: list[str] = []

    class Noting:
        def sub(self, new: str, text: str) -> str:
            looked.append(text)
            return text.replace("```", new)

    monkeypatch.setattr("planner_svc.backends.served.reply._FENCE", Noting())
    assert read('{"calls": []}' * 100 + "```") == Reply(None, aside='{"calls": []}' * 99)
    assert len(looked) == 1


def test_a_call_for_each_item() -> None:
    items = value("$var1.items$")
    for foreach in ({"items": "$var1.items$"}, "$var1.items$"):
        looped = planned(FIND, {**HOLIDAYS, "arguments": {"country": "$@.code$"}, "foreach": foreach})
        assert looped.steps[1].foreach == ForEach(items=items)
        assert looped.steps[1].arguments["country"] == value("$@.code$")


def test_literals_that_only_look_like_references_stay() -> None:
    found = planned({**FIND, "arguments": {"name": "$100", "other": "$USD$", "third": "$ave", "list": ["$var9.x"]}})
    assert {
        name: one.model_dump()["value"] for name, one in found.steps[0].arguments.items() if one.kind == "literal"
    } == {
        "name": "$100",
        "third": "$ave",
        "list": ["$var9.x"],
    }


def test_unknown_names_are_for_the_compiler() -> None:
    assert planned({"name": "deleteAll", "arguments": {}}).steps[0].api == "deleteAll"


@pytest.mark.parametrize(
    "text", ['{"calls": []}', '{"calls":[],"need":[]}', '```\n{"calls":[]}\n```', '{"calls": null, "need": null}']
)
def test_nothing_fits(text: str) -> None:
    assert read(text) == Reply(None)


def test_operations_that_are_missed() -> None:
    assert read('{"calls":[],"need":["search a  customer\\nby name", "", 3]}').needs == ("search a customer by name",)
    assert read('{"need":"list rooms"}').needs == ("list rooms",)
    many = read(json.dumps({"calls": [], "need": ["x" * 5_000] + [f"n{n}" for n in range(50)]})).needs
    assert len(many) == MAX_NEEDS
    assert len(many[0]) == MAX_NEED_CHARS
    assert planned(FIND) == read(json.dumps({"calls": [FIND], "need": ["more"]})).plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        "[]",
        "{}",
        '{"answer": 42}',
        '{"calls": "find"}',
        '{"calls": [3]}',
        '{"calls": [{"arguments": {}}]}',
        '{"calls": [{"name": "a name", "arguments": {}}]}',
        '{"calls": [{"name": "find", "arguments": [1]}]}',
        '{"calls": [{"name": "find", "arguments": "x="}]}',
        '{"calls": [{"name": "find", "arguments": {"x": NaN}}]}',
        '{"calls": [{"name": "find", "label": "a"}, {"name": "find", "label": "a"}]}',
        '{"calls": [{"name": "find", "foreach": {"over": 1}}]}',
        '{"calls": [{"name": "var_result", "arguments": {"x": "$var1$"}}, {"name": "find"}]}',
        '{"calls": [{"name": "find", "arguments": {"name": "Portu',
        '{"calls": [{"name": "find", "arguments": {"name": "x"}}, {"name": "holidays", "arguments": {"country":',
        '{"calls": [{"name": "find", "arguments": {"name": "x"}},]}',
        f"<think>{WHOLE}",
        json.dumps({"calls": [FIND] * 201}),
        "[" * 10_000,
        '{"calls":' * 10_000,
        '{"calls": [' + "[" * 300 + "]" * 300 + "]}",
        '[{"name": "find", "arguments": {"x": ' + "[" * 900 + "]" * 900 + "}}]",
        '[{"name": "find", "arguments": {"x": ' + "[" * 900 + "]" * 900 + "}}",
        '{"calls": [{"name": "find", "arguments": {"x": "\\ud800"}}]}',
        '{"calls": [{"name": "find", "arguments": {"x": "\\udC00"}}]',
        '{"need": ["\\ud800"]}',
        "x" * 500_000,
        "{" * 100_000 + "}" * 100_000,
    ],
)
def test_what_holds_no_plan(text: str) -> None:
    with pytest.raises(ReplyError):
        read(text)


def test_an_answer_that_was_too_long_is_not_mended() -> None:
    with pytest.raises(ReplyError, match="breaks off"):
        read(WHOLE[:-2], cut=True)
    assert read(WHOLE + "\n\n\n", cut=True).plan == PLAN


def test_a_part_of_a_broken_answer_is_not_the_answer() -> None:
    broken = json.dumps({"calls": [FIND, HOLIDAYS]})[:-2] + ",]}"
    with pytest.raises(ReplyError):
        read(broken)


@given(st.text(max_size=200) | st.from_regex(r'[{}\[\]",:$a-z\\ ]{0,80}', fullmatch=True))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    for whole in (text, WHOLE + text, WHOLE[:60] + text + WHOLE[60:]):
        try:
            reply = read(whole)
        except ReplyError:
            continue
        assert reply.plan is None or nestful.encode(reply.plan)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('Here: ```json\n["a"]\n``` and {"b": 1}.', [["a"], {"b": 1}]),
        ('<think>[1]</think>["a"]', [["a"]]),
        ('{"note": 1} ["a", {"b": [2', [{"note": 1}]),
        ('{"note": 1} ["a", {"b": [2]', [{"note": 1}, ["a", {"b": [2]}]]),
        ("nothing [here", []),
        ("[NaN]", []),
        ("[" * 5_000, []),
    ],
)
def test_the_values_of_an_answer(text: str, values: list[Any]) -> None:
    assert json_values(text) == values


def test_of_an_answer_that_was_cut_the_whole_values_are_left() -> None:
    cut = '[{"a": 1}, {"a": 2}, {"a": [3]'
    assert json_values(cut, cut=True) == [{"a": 1}, {"a": 2}, [3]]
    assert json_values(cut) == [[{"a": 1}, {"a": 2}, {"a": [3]}]]
    assert json_values("[]" * MAX_CHARS) == []


def test_an_answer_that_breaks_off_is_not_tried_from_each_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 200 starts was read to the end of the text, without a pause for others."""
    pauses, read_chars = list[int](), list[int]()
    decode = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, s: str, idx: int = 0) -> tuple[Any, int]:
        read_chars.append(len(s) - idx)
        return decode(self, s, idx)

    monkeypatch.setattr(reply, "checkpoint", lambda: pauses.append(len(read_chars)))
    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    assert json_values("[" * 199 + "1," * (MAX_CHARS // 2 - 100), cut=True) == []
    assert len(read_chars) < 10
    assert pauses == list(range(len(read_chars)))
    monkeypatch.undo()
    many = f"{'[not JSON] ' * 150}{WHOLE}"
    assert json_values(many) == [json.loads(WHOLE)]


@pytest.mark.parametrize("rest", ["", WHOLE])
def test_reasoning_that_never_ends_is_looked_for_once(rest: str) -> None:
    """The expression was tried from each beginning to the end of the text, which held up the process for minutes."""
    began = time.process_time()
    with pytest.raises(ReplyError, match="no JSON object"):
        read("<think>" * 50_000 + rest)
    assert time.process_time() - began < 2
    assert read("<think>a</think>b<thinking>c</THINK>" + WHOLE).aside == "<think>a</think>\n<thinking>c</THINK>\nb"
