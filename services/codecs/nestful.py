"""NESTful's notation (NESTFUL: nested sequences of API calls, section 3), which most fine-tuned models use.

A plan is a list of ``{"name", "arguments", "label"}``; a reference is ``"$label.field$"``; the last call, named
``var_result``, holds the answer. Decoding accepts more than encoding produces: labels may have NESTFUL v2's leading
``$``, a missing label (the most common error of function-calling models) becomes ``varN`` by position, and
``var_result`` may be absent.
"""

from collections.abc import Mapping

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
from services.codecs.matches import MATCHES, encode_matches, matched, matched_step, read_matches
from services.codecs.text import CodecError, read_json
from services.contracts.plan import AnswerOutput, Match, Plan, Step, step_references

_KNOWN = EXTRAS | {"name", "arguments", "label"}


def encode(plan: Plan, *, matches: bool = False) -> list[JsonValue]:
    """Encode a plan as NESTful's list of calls; with ``matches``, also which items are chosen by words.

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
            **(encode_matches(step_references(step)) if matches else {}),
        }
        for step in plan.steps
    ]
    if answer:
        chosen = encode_matches(output.value for output in plan.answer) if matches else {}
        calls.append({"name": RESULT, "arguments": answer, **chosen})
    return calls


def decode(data: str | bytes | JsonValue, *, matches: bool = False) -> Plan:
    """Decode NESTful's list of calls, given as text or parsed JSON.

    With ``matches``, a call may have the member ``matches``. Otherwise that is an unknown member, and an error.

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
            if matches and isinstance(call, dict) and MATCHES in call:
                answer = _matched_answer(answer, read_matches(call[MATCHES], where), where)
            continue
        assert isinstance(call, dict)  # text_member has checked it
        if unknown := sorted(call.keys() - _KNOWN - ({MATCHES} if matches else set())):
            raise CodecError(f"{where} has an unknown member {unknown[0][:100]!r}")
        label = _label(call)
        if label is None:
            label = labels.free(position)
        step = build_step(label, name, call.get("arguments", {}), call)
        if matches and MATCHES in call:
            step = matched_step(step, read_matches(call[MATCHES], where), where)
        steps.append(step)
    return build_plan(steps, answer)


def _matched_answer(
    answer: tuple[AnswerOutput, ...], matches: Mapping[str, Match], where: str
) -> tuple[AnswerOutput, ...]:
    return tuple(one.model_copy(update={"value": matched(one.value, matches, where)}) for one in answer)


def _label(call: JsonValue) -> str | None:
    label = call.get("label") if isinstance(call, dict) else None
    if label is None or label == "":
        return None
    if not isinstance(label, str):
        raise CodecError("a label must be text")
    return label.removeprefix("$").removesuffix("$")
