"""Parses a model's answer: text that should be one JSON object of calls, often with other text around it.

The parser is lenient about the form (fences, prose, a missing bracket, labels, OpenAI's tool calls) and strict about
the content: calls and values are read exactly as written or not at all, and the compiler checks them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from services.codecs import nestful
from services.codecs.calls import EXTRAS, RESULT
from services.codecs.text import CodecError, looks_like_reference, read_json
from services.compute import checkpoint
from services.contracts.plan import Plan
from services.contracts.planning import MAX_NEED_CHARS, MAX_NEEDS

MAX_CHARS: Final = 400_000
_MAX_STARTS: Final = 200
_MAX_TRIED: Final = 4 * MAX_CHARS
"""Most characters that are read in vain, over all starts: each may fail only at the end of the text."""
_MAX_CALLS: Final = 200
_MAX_OUTPUTS: Final = 200
_FENCE: Final = re.compile(r"```(?:json)?", re.IGNORECASE)
_THOUGHT_END: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THOUGHT_START: Final = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_LABEL: Final = re.compile(r"^\$?\{?(?P<stem>[A-Za-z]+)_(?P<number>[0-9]{1,4})\}?\$?$")
_SPELT: Final = re.compile(r"^\$\{?(?P<label>@|[A-Za-z_]\w{0,63})\}?(?P<path>(?:[.\[].*?)?)\}?\$?$", re.DOTALL)


class ReplyError(ValueError):
    """The answer holds neither calls nor the statement that there are none. The message is for the model."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed answer.

    Attributes:
        plan: the calls; None if there are none.
        needs: missing operations, in the model's words.
        aside: the text around the answer.
    """

    plan: Plan | None
    needs: tuple[str, ...] = ()
    aside: str = ""


def read_reply(text: str, names: Mapping[str, str], *, cut: bool = False) -> Reply:
    """Parse an answer.

    Args:
        text: the model's text.
        names: the name of each API in the prompt, by its id.
        cut: whether the answer was cut off at the length limit: then it is accepted only if it is complete.

    Raises:
        ReplyError: the answer holds no plan.
    """
    if len(text) > MAX_CHARS:
        raise ReplyError("the answer is far too long")
    thoughts, rest = _apart(text)
    found = _answer(rest, repair=not cut)
    if found is None:
        raise ReplyError("the answer breaks off" if cut else "the answer holds no JSON object with calls")
    value, around = found
    _check(value)
    calls, needs = _parts(value)
    aside = "\n".join(part for part in (*thoughts, around) if part)
    if not calls:
        return Reply(None, needs, aside)
    try:
        return Reply(nestful.decode(_renamed(calls, names)), (), aside)
    except CodecError as error:
        raise ReplyError(str(error)) from None


def json_values(text: str, *, cut: bool = False) -> list[JsonValue]:
    """The JSON objects and lists of an answer in order, without its reasoning and other text.

    Args:
        text: the model's text.
        cut: whether the answer was cut off at the length limit. If not, closing brackets are added to a last value that
            lacks nothing else. If more is missing, complete values inside it are returned.
    """
    if len(text) > MAX_CHARS:
        return []
    _, rest = _apart(text)
    found, unfinished = _scanned(rest)
    repaired = None if cut or unfinished is None else _repaired(rest[unfinished:])
    if repaired is None or unfinished is None:
        return [value for value, _, _ in found]
    return [*(value for value, start, _ in found if start < unfinished), repaired]


def _apart(text: str) -> tuple[list[str], str]:
    """The reasoning in tags, and the remaining text. Some servers send only the closing tag."""
    thoughts, kept, at = list[str](), list[str](), 0
    while (start := _THOUGHT_START.search(text, at)) is not None:
        if (end := _THOUGHT_END.search(text, start.end())) is None:
            break  # nor has any later one an end
        kept.append(text[at : start.start()])
        thoughts.append(text[start.start() : end.end()])
        at = end.end()
    rest = "".join([*kept, text[at:]])
    if (end := _THOUGHT_END.search(rest)) is not None:
        thoughts.append(rest[: end.end()])
        rest = rest[end.end() :]
    if (start := _THOUGHT_START.search(rest)) is not None:  # the reasoning never ended
        thoughts.append(rest[start.start() :])
        rest = rest[: start.start()]
    return thoughts, rest


def _answer(text: str, *, repair: bool) -> tuple[JsonValue, str] | None:
    """The last JSON value that can be an answer, and the text around it. Reasoning comes before the answer.

    A bare call, or list of calls, counts only if no JSON around it is incomplete: it may be a part of that.
    """
    values, unfinished = _scanned(text)
    found = next((one for one in reversed(values) if _is_answer(one[0])), None)
    if found is None and unfinished is None:
        found = next((one for one in reversed(values) if _is_bare(one[0])), None)
    if found is not None or unfinished is None:
        return None if found is None else (found[0], _FENCE.sub("", text[: found[1]] + text[found[2] :]).strip())
    repaired = _repaired(text[unfinished:]) if repair else None
    return (repaired, text[:unfinished].strip()) if _is_answer(repaired) or _is_bare(repaired) else None


def _scanned(text: str) -> tuple[list[tuple[JsonValue, int, int]], int | None]:
    """The JSON values in a text, each with its start and end, and the start of the first incomplete one."""
    found: list[tuple[JsonValue, int, int]] = []
    unfinished: int | None = None
    at = tried = in_vain = 0
    decoder = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)
    while tried < _MAX_STARTS and in_vain < _MAX_TRIED and (start := _next_start(text, at)) is not None:
        checkpoint()
        tried += 1
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            in_vain += (error.pos if isinstance(error, json.JSONDecodeError) else len(text)) - start
            unfinished = start if unfinished is None else unfinished
            at = start + 1
            continue
        found.append((value, start, at))
    return found, unfinished


def _next_start(text: str, at: int) -> int | None:
    starts = [position for bracket in "{[" if (position := text.find(bracket, at)) >= 0]
    return min(starts, default=None)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _integer(digits: str) -> int:
    """The integer. Raises ValueError beyond the range of doubles, as for any request to a service."""
    if math.isinf(float(digits)):
        raise ValueError("an integer beyond the range of doubles")
    return int(digits)


def _is_answer(value: JsonValue) -> bool:
    return isinstance(value, dict) and any(name in value for name in ("calls", "tool_calls", "need", "needs"))


def _is_bare(value: JsonValue) -> bool:
    """Whether the value is a call or a list of calls, without the enclosing object."""
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(_is_call(item) for item in listed)


def _is_call(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return False
    named = isinstance(value.get("name"), str) and ("arguments" in value or "parameters" in value)
    return named or isinstance(value.get("function"), dict)


def _repaired(text: str) -> JsonValue:
    """The JSON with its missing closing brackets added; None if anything else is missing."""
    checkpoint()
    closing: list[str] = []
    quoted = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = character == "\\", character != '"'
        elif character == '"':
            quoted = True
        elif character in "{[":
            closing.append("}" if character == "{" else "]")
        elif character in "}]" and (not closing or closing.pop() != character):
            return None
    body = text.rstrip()
    if quoted or not closing or len(closing) > 64 or body[-1:] not in ('"', "}", "]"):
        return None
    try:
        value: JsonValue = json.loads(
            body + "".join(reversed(closing)), parse_constant=_no_constant, parse_int=_integer
        )
    except (ValueError, RecursionError):
        return None
    return value


def _check(value: JsonValue) -> None:
    """Raises ReplyError for what no plan can hold: a value that is nested too deeply, or a lone surrogate."""
    try:
        read_json(value)
        to_json(value)
    except CodecError as error:
        raise ReplyError(str(error)) from None
    except PydanticSerializationError:
        raise ReplyError("a text holds a lone surrogate, which is no character") from None


def _parts(value: JsonValue) -> tuple[list[JsonValue], tuple[str, ...]]:
    """The calls, and the missing operations."""
    if isinstance(value, list):
        return value, ()
    assert isinstance(value, dict)  # guaranteed by _is_answer and _is_bare
    if _is_call(value):
        return [value], ()
    calls = value.get("calls", value.get("tool_calls"))
    calls = [calls] if isinstance(calls, dict) else calls
    if calls is not None and not isinstance(calls, list):
        raise ReplyError('"calls" must be a list of calls')
    answer = value.get("answer")
    if calls and answer:
        calls = [*calls, {"name": RESULT, "arguments": _named(answer)}]
    return calls or [], _needs(value.get("need", value.get("needs")))


def _needs(value: JsonValue) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    texts = (" ".join(item.split())[:MAX_NEED_CHARS] for item in listed if isinstance(item, str))
    return tuple(dict.fromkeys(text for text in texts if text))[:MAX_NEEDS]


def _named(answer: JsonValue) -> JsonValue:
    """The first references that answer, each named by its field."""
    if isinstance(answer, dict):
        return answer
    named: dict[str, JsonValue] = {}
    for item in answer[:_MAX_OUTPUTS] if isinstance(answer, list) else [answer]:
        words = re.findall(r"[A-Za-z_]\w*", item) if isinstance(item, str) else []
        name = words[-1] if words else "result"
        named[next(n for i in range(1, len(named) + 2) if (n := name if i == 1 else f"{name}_{i}") not in named)] = item
    return named


def _renamed(calls: Sequence[JsonValue], names: Mapping[str, str]) -> list[JsonValue]:
    """The calls in NESTful's notation, with API ids in place of names."""
    if len(calls) > _MAX_CALLS:
        raise ReplyError(f"the answer has more than {_MAX_CALLS} calls")
    known = {name: api for api, name in names.items()} | {api: api for api in names}
    plain = [_plain_call(call, position) for position, call in enumerate(calls, start=1)]
    labels = {label for call in plain if isinstance(label := call.get("label"), str)}
    labels |= {f"var{position}" for position, call in enumerate(plain, start=1) if "label" not in call}
    written: list[JsonValue] = []
    for call in plain:
        name = str(call["name"])
        rest = {key: _respelt(value, labels) for key, value in call.items() if key not in ("name", "label")}
        if name == RESULT:
            rest["arguments"] = _references(rest["arguments"])
            if not rest["arguments"]:
                continue  # the outputs are chosen elsewhere
        label = {"label": call["label"]} if "label" in call else {}
        written.append({"name": known.get(name) or known.get(name.strip(), name), **label, **rest})
    return written


def _references(arguments: JsonValue) -> dict[str, JsonValue]:
    """The first members that are references; the pseudo-call that answers can hold nothing else."""
    members = islice(arguments.items(), _MAX_OUTPUTS) if isinstance(arguments, dict) else ()
    return {name[:200]: value for name, value in members if isinstance(value, str) and looks_like_reference(value)}


def _plain_call(call: JsonValue, position: int) -> dict[str, JsonValue]:
    """One call with the members that are used; others are dropped."""
    if not isinstance(call, dict):
        raise ReplyError(f"call {position} is not an object")
    function = call.get("function")
    if isinstance(function, dict):  # OpenAI's form
        call = {**call, **function}
    name = call.get("name")
    if not isinstance(name, str) or not name:
        raise ReplyError(f"call {position} has no name")
    arguments = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments or "{}")
        except CodecError:
            raise ReplyError(f"the arguments of call {position} are no JSON object") from None
    found: dict[str, JsonValue] = {"name": name, "arguments": {} if arguments is None else arguments}
    label = _label(call.get("label"))
    if label is not None:
        found["label"] = label
    found |= {key: value for key, value in call.items() if key in EXTRAS and value not in (None, [], {})}
    if isinstance(found.get("foreach"), str):
        found["foreach"] = {"items": found["foreach"]}
    return found


def _label(label: JsonValue) -> str | None:
    """The label as a valid step id: ``var_1`` becomes ``var1``; None for the ids of tool calls."""
    if not isinstance(label, str):
        return None
    if (match := _LABEL.match(label)) is not None:
        return match["stem"] + match["number"]
    plain = label.strip("${}")
    return plain if re.fullmatch(r"[A-Za-z_]\w{0,63}", plain, re.ASCII) else None


def _respelt(value: JsonValue, labels: set[str]) -> JsonValue:
    """The value with references to known labels in normal form: ``$var_1.id`` becomes ``$var1.id$``."""
    if isinstance(value, dict):
        return {name: _respelt(item, labels) for name, item in value.items()}
    if isinstance(value, list):
        return [_respelt(item, labels) for item in value]
    if not isinstance(value, str) or not value.startswith("$") or (match := _SPELT.match(value)) is None:
        return value
    label = match["label"] if match["label"] == "@" else _label(match["label"])
    spelt = f"${label}{match['path']}$"
    return spelt if (label == "@" or label in labels) and looks_like_reference(spelt) else value
