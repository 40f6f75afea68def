"""What is written to train on is read back as it was."""

from pathlib import Path

from evals.data import read_all
from evals.recording import instance_row, tool_row, write_folder
from services.contracts.plan import (
    AnswerOutput,
    ForEach,
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Plan,
    Reference,
    Step,
)
from tests.unit.planner_svc.worlds import CANCEL_ORDER, FIND_CUSTOMER
from training.planner.align import Aligner
from training.planner.examples import Output, Ref, Span

PLAN = Plan(
    steps=(
        Step(id="a", api=FIND_CUSTOMER.id, arguments={"customer_name": LiteralValue(value="Ann")}),
        Step(id="b", api=CANCEL_ORDER.id, arguments={"order_id": Reference(step="a", path=("customer_id",))}),
    ),
    answer=(AnswerOutput(name="id", value=Reference(step="a", path=("customer_id",))),),
)


def test_apis_are_read_back_whole_and_plans_as_examples(tmp_path: Path) -> None:
    apis = (FIND_CUSTOMER, CANCEL_ORDER)
    write_folder(tmp_path, map(tool_row, apis), [instance_row("one", "Find Ann and cancel her order", PLAN)])
    found = read_all(tmp_path)
    assert found.apis == apis
    (instance,) = found.instances
    example = Aligner({api.id: api for api in found.apis}, "own").align(instance)
    assert example is not None
    assert example.calls[0].arguments["customer_name"] == Span(5, 8, "Ann")
    assert example.calls[1].arguments["order_id"] == Ref(0, ("customer_id",))
    assert example.answer == (Output(0, ("customer_id",)),)


def test_values_of_every_kind_are_written() -> None:
    steps = (
        Step(id="a", api="x.list"),
        Step(
            id="b",
            api="x.each",
            foreach=ForEach(items=Reference(step="a", path=("rows",))),
            arguments={
                "one": ItemReference(path=("id",)),
                "many": ListValue(items=(LiteralValue(value=1), Reference(step="a", path=("rows", 0)))),
                "more": ObjectValue(fields={"deep": LiteralValue(value=None)}),
            },
        ),
    )
    row = instance_row("one", "q", Plan(steps=steps))
    assert row["calls"][1]["args"] == {
        "one": "$var_1.rows.*.id$",
        "many": [1, "$var_1.rows[0]$"],
        "more": {"deep": None},
    }


def test_a_loop_over_stated_values_is_one_call_for_each() -> None:
    loop = Step(
        id="a",
        api="x.swatch",
        foreach=ForEach(items=LiteralValue(value=["red", {"hex": "00f"}])),
        arguments={"colour": ItemReference(path=()), "size": LiteralValue(value=2), "all": ListValue(items=())},
    )
    answer = (AnswerOutput(name="swatches", value=Reference(step="a")),)
    row = instance_row("one", "q", Plan(steps=(loop,), answer=answer))
    assert [call["args"]["colour"] for call in row["calls"]] == ["red", {"hex": "00f"}]
    assert row["answer"] == ["$var_1$", "$var_2$"]
    more = Step(id="b", api="x.join", arguments={"swatches": Reference(step="a")})
    kept = instance_row("two", "q", Plan(steps=(loop, more), answer=answer))
    assert [call["args"].get("swatches") for call in kept["calls"]] == [None, "$var_1$"]
