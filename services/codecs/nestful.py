"""NESTful's notation (NESTFUL: nested sequences of API calls, section 3), which most tuned models speak.

A plan is a list of ``{"name", "arguments", "label"}``; a reference is ``"$label.field$"``; the last call, named
``var_result``, holds the answer. Read more generously than written: labels may carry NESTFUL v2's leading ``$``, a
missing label (the commonest error of function-calling models) becomes ``varN`` by position, and ``var_result`` may be
absent.
"""

from pydantic import JsonValue

from services.codecs.calls import (
    EXTRAS,
    RESULT,
    Labels,
    build_answer,
    build_plan,
    build_step,
    encode_answer,
    encode_argument,
    encode_extras,
    member,
    text_member,
)
from services.codecs.text import CodecError, read_json
from services.contracts.plan import AnswerOutput, Plan, Step

_KNOWN = EXTRAS | {"name", "arguments", "label"}


def encode(plan: Plan) -> list[JsonValue]:
    """The plan as NESTful's list of calls.

    Raises:
        CodecError: see :func:`services.codecs.calls.encode_answer`.
    """
    answer = encode_answer(plan)
    calls: list[JsonValue] = [
        {
            "name": step.api,
            "arguments": {name: encode_argument(value) for name, value in step.arguments.items()},
            "label": step.id,
            **encode_extras(step),
        }
        for step in plan.steps
    ]
    if answer:
        calls.append({"name": RESULT, "arguments": answer})
    return calls


def decode(data: str | bytes | JsonValue) -> Plan:
    """The plan that NESTful's list of calls (as text or parsed JSON) stands for.

    Raises:
        CodecError: it is not JSON, or not this notation.
    """
    calls = read_json(data)
    if not isinstance(calls, list):
        raise CodecError("a plan is a list of calls")
    labels = Labels(label for call in calls if (label := _label(call)) is not None)
    steps: list[Step] = []
    answer: tuple[AnswerOutput, ...] = ()
    for position, call in enumerate(calls, start=1):
        where = f"call {position}"
        name = text_member(call, "name", where)
        if name == RESULT:
            if position != len(calls):
                raise CodecError(f"{RESULT} must be the last call")
            answer = build_answer(member(call, "arguments", where))
            continue
        assert isinstance(call, dict)  # text_member has checked it
        if unknown := sorted(call.keys() - _KNOWN):
            raise CodecError(f"{where} has an unknown member {unknown[0][:100]!r}")
        label = _label(call)
        if label is None:
            label = labels.free(position)
        steps.append(build_step(label, name, call.get("arguments", {}), call))
    return build_plan(steps, answer)


def _label(call: JsonValue) -> str | None:
    label = call.get("label") if isinstance(call, dict) else None
    if label is None or label == "":
        return None
    if not isinstance(label, str):
        raise CodecError("a label must be text")
    return label.removeprefix("$").removesuffix("$")
