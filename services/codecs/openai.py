"""Plans as the ``tool_calls`` of an OpenAI-style chat message.

Each step is ``{"id", "type": "function", "function": {"name", "arguments"}}`` with the arguments as JSON *text*. The
call's id is the step's name, and a reference is the string ``$id.field$``. A model cannot choose the ids of its calls,
so ``$varN...$`` also refers to the N-th call if no call has that id. An id that is not a valid step id
(``chatcmpl-tool-1``) becomes ``varN`` too. The answer is a final call of ``var_result``.

Function names may contain only ``[A-Za-z0-9_-]``. API ids may contain more characters, so ``names`` maps API ids to
function names.
"""

import re
from collections.abc import Mapping

import orjson
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
from services.codecs.text import CodecError, looks_like_reference, parse_reference, read_json
from services.contracts.plan import AnswerOutput, Plan, Reference, Step

_STEP_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KNOWN = EXTRAS | {"id", "type", "index", "function"}


def encode(plan: Plan, names: Mapping[str, str] | None = None) -> list[JsonValue]:
    """Encode a plan as a list of tool calls; ``names`` maps API ids to function names.

    Raises:
        CodecError: an argument holds text or a number that cannot be written as portable JSON; or as for
            :func:`services.codecs.calls.encode_answer`.
    """
    answer = encode_answer(plan)
    calls = [
        _call(
            step.id,
            (names or {}).get(step.api, step.api),
            {name: encode_argument(value) for name, value in step.arguments.items()},
            encode_extras(step),
        )
        for step in plan.steps
    ]
    if answer:
        calls.append(_call(Labels(step.id for step in plan.steps).free(len(calls) + 1), RESULT, answer, {}))
    return calls


def decode(data: str | bytes | JsonValue, names: Mapping[str, str] | None = None) -> Plan:
    """Decode a list of tool calls; ``names`` maps API ids to function names, as for :func:`encode`.

    Raises:
        CodecError: it is not JSON, or not this notation.
    """
    calls = read_json(data)
    if not isinstance(calls, list):
        raise CodecError("tool calls are a list")
    apis = {function: api for api, function in (names or {}).items()}
    ids = _step_ids(calls)
    aliases = {f"var{n}": step_id for n, step_id in enumerate(ids, start=1) if f"var{n}" not in ids}
    steps: list[Step] = []
    answer: tuple[AnswerOutput, ...] = ()
    for position, (call, step_id) in enumerate(zip(calls, ids, strict=True), start=1):
        where = f"tool call {position}"
        function = member(call, "function", where)
        name = text_member(function, "name", where)
        arguments = _rename(_arguments(function, where), aliases)
        if name == RESULT:
            if position != len(calls):
                raise CodecError(f"{RESULT} must be the last call")
            answer = build_answer(arguments)
            continue
        assert isinstance(call, dict)  # member has checked it
        if unknown := sorted(call.keys() - _KNOWN):
            raise CodecError(f"{where} has an unknown member {unknown[0][:100]!r}")
        extras = {key: _rename(value, aliases) for key, value in call.items() if key in EXTRAS}
        steps.append(build_step(step_id, apis.get(name, name), arguments, extras))
    return build_plan(steps, answer)


def _call(step_id: str, name: str, arguments: dict[str, JsonValue], extras: dict[str, JsonValue]) -> JsonValue:
    try:
        text = orjson.dumps(arguments).decode()
    except TypeError as error:  # orjson's error for lone surrogates and integers beyond 64 bits
        raise CodecError(f"call {step_id!r}: the arguments are not portable JSON: {error}") from error
    return {"id": step_id, "type": "function", "function": {"name": name, "arguments": text}, **extras}


def _step_ids(calls: list[JsonValue]) -> list[str]:
    given = [call.get("id") if isinstance(call, dict) else None for call in calls]
    usable = [i if isinstance(i, str) and _STEP_ID.fullmatch(i) else None for i in given]
    labels = Labels(i for i in usable if i is not None)
    return [labels.free(position) if i is None else i for position, i in enumerate(usable, start=1)]


def _arguments(function: JsonValue, where: str) -> JsonValue:
    arguments = member(function, "arguments", where)
    try:
        return read_json(arguments or "{}") if isinstance(arguments, str) else arguments
    except CodecError as error:
        raise CodecError(f"{where}: the arguments are {error}") from error


def _rename(data: JsonValue, aliases: Mapping[str, str]) -> JsonValue:
    """Replace aliases in references by the ids of their steps."""
    if isinstance(data, dict):
        return {name: _rename(item, aliases) for name, item in data.items()}
    if isinstance(data, list):
        return [_rename(item, aliases) for item in data]
    if isinstance(data, str) and looks_like_reference(data):
        reference = parse_reference(data)
        if isinstance(reference, Reference) and reference.step in aliases:
            return "$" + aliases[reference.step] + data[1 + len(reference.step) :]
    return data
