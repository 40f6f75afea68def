"""Seal-Tools' notation (Seal-Tools, section 3.3): ``[{"api", "parameters", "responses": ["API_call_0", ...]}]``.

Every field of every call's response gets a slot, ``API_call_N``, numbered from 0 over the whole plan. A parameter with
the text ``API_call_N`` takes the value of that slot. So encoding and decoding both need each API's response fields in
order (``outputs``, see :func:`response_fields`). An API without known fields has one slot: its whole response.

The notation has no names for steps (they become ``var1``, ``var2``, ...) and no answer: ``encode`` leaves the answer
out.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue, ValidationError

from services.codecs.calls import build_plan, explain, text_member
from services.codecs.text import CodecError, decode_value, encode_value, read_json
from services.contracts.api import Api
from services.contracts.base import JsonPath
from services.contracts.plan import ItemReference, Plan, Reference, Step

_SLOT = re.compile(r"API_call_[0-9]{1,9}")
Outputs = Mapping[str, Sequence[str]]


def response_fields(api: Api) -> tuple[str, ...]:
    """The response fields of an API in the order of its schema. Each gets a slot."""
    properties = api.response.json_schema.get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()


def encode(plan: Plan, outputs: Outputs) -> list[JsonValue]:
    """Encode the plan's calls; ``outputs`` maps API ids to response fields. The answer is left out.

    Raises:
        CodecError: the plan has something that the notation cannot express (loops, conditions, explicit order, a
            reference that is not one response field of an earlier call).
    """
    slots: dict[tuple[str, JsonPath], str] = {}
    calls: list[JsonValue] = []
    for step in plan.steps:
        if step.foreach is not None or step.when is not None or step.after:
            raise CodecError(f"step {step.id!r}: foreach, when and after cannot be written in this notation")
        parameters: dict[str, JsonValue] = {
            name: encode_value(value, lambda ref: _slot_of(ref, slots), _is_slot)
            for name, value in step.arguments.items()
        }
        labels: list[JsonValue] = []
        for path in _paths(outputs.get(step.api, ())):
            slots[step.id, path] = label = f"API_call_{len(slots)}"
            labels.append(label)
        calls.append({"api": step.api, "parameters": parameters, "responses": labels})
    return calls


def decode(data: str | bytes | JsonValue, outputs: Outputs) -> Plan:
    """Decode Seal-Tools' list of calls. The plan has no answer.

    Raises:
        CodecError: the data is not JSON, not this notation, or refers to a slot that no earlier call has.
    """
    calls = read_json(data)
    if not isinstance(calls, list):
        raise CodecError("a plan is a list of calls")
    slots: dict[str, Reference] = {}
    steps: list[Step] = []
    for position, call in enumerate(calls, start=1):
        where = f"call {position}"
        api = text_member(call, "api", where)
        assert isinstance(call, dict)  # text_member has checked it
        parameters = call.get("parameters", {})
        if not isinstance(parameters, dict):
            raise CodecError(f"{where}: the parameters must be an object")
        read = _slot_reader(slots, where)
        try:
            arguments = {name: decode_value(value, read, _is_slot) for name, value in parameters.items()}
            steps.append(Step(id=f"var{position}", api=api, arguments=arguments))
        except ValidationError as error:
            raise CodecError(f"{where}: {explain(error)}") from error
        paths = _paths(outputs.get(api, ()))
        for label, path in zip(_responses(call, len(paths), len(slots), where), paths, strict=False):
            if label in slots:
                raise CodecError(f"{where}: the slot {label} is taken already")
            slots[label] = Reference(step=f"var{position}", path=path)
    return build_plan(steps, ())


def _paths(fields: Sequence[str]) -> list[JsonPath]:
    return [(field,) for field in fields] or [()]


def _slot_of(reference: Reference | ItemReference, slots: Mapping[tuple[str, JsonPath], str]) -> str:
    if isinstance(reference, ItemReference):
        raise CodecError("the item of a loop cannot be written in this notation")
    try:
        return slots[reference.step, reference.path]
    except KeyError:
        place = "/".join(map(str, reference.path)) or "the whole response"
        raise CodecError(f"{place} of step {reference.step!r} is no response slot of an earlier call") from None


def _is_slot(text: str) -> bool:
    return _SLOT.fullmatch(text) is not None


def _slot_reader(slots: Mapping[str, Reference], where: str) -> Callable[[str], Reference]:
    def read(text: str) -> Reference:
        if text not in slots:
            raise CodecError(f"{where}: no earlier call has the slot {text}")
        return slots[text]

    return read


def _responses(call: Mapping[str, JsonValue], known: int, used: int, where: str) -> list[str]:
    """The call's slot labels; if it has none, the next ones in order."""
    labels = call.get("responses")
    if labels is None:
        return [f"API_call_{used + index}" for index in range(known)]
    if not isinstance(labels, list):
        raise CodecError(f"{where}: the responses must be a list")
    texts = [label for label in labels if isinstance(label, str) and _is_slot(label)]
    if len(texts) != len(labels):
        raise CodecError(f'{where}: the responses must be slots such as "API_call_0"')
    return texts
