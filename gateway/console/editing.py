"""A plan as an editable list of calls: fields for the arguments, and the JSON of the whole list."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from gateway.console.arguments import ArgumentField, argument_fields
from gateway.console.forms import read_json
from gateway.console.pages import visible
from services.codecs import nestful
from services.codecs.calls import EXTRAS, RESULT, Labels
from services.codecs.matches import MATCHES
from services.codecs.text import CodecError
from services.contracts.api import Api
from services.contracts.plan import Plan
from services.contracts.planning import Diagnostic, DiagnosticCode
from services.errors import ValidationFailed

Call = dict[str, Any]
"""A call in NESTful's format, as :mod:`services.codecs.nestful` writes it: name, arguments, label, Nestor's extras."""
ARGUMENT: Final = "arg."
ANSWER: Final = "answer."
_MOST_CHARS, _MOST_CALLS = 9_000, 40
"""Maximum size of a plan that can be edited on a page: characters of its JSON, and calls."""
_FIELDS_CHARS: Final = 24_000
"""Approximate maximum number of characters of all fields on a page. It keeps pages under 100 kB."""
_FIELD_CHARS: Final = 260
_OTHERS: Final = 20
"""Maximum number of fields per call for arguments that it does not give."""


@dataclass
class Row:
    """A call on the page.

    Attributes:
        label: the name by which later calls refer to it.
        api: the API's id.
        fields: its arguments.
        texts: the texts in their fields, by argument.
        extras: the call's other members, as JSON, by name.
        chosen: by reference, the words by which its item is chosen.
        findings: the diagnostics by argument; under the empty text those of the call itself.
    """

    label: str
    api: str
    fields: list[ArgumentField] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    extras: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    findings: dict[str, list[Diagnostic]] = field(default_factory=dict)

    def found(self) -> list[Diagnostic]:
        """The diagnostics of the call itself and of arguments that have no field."""
        shown = {one.name for one in self.fields}
        return [one for name, several in self.findings.items() if name not in shown for one in several]


@dataclass
class Draft:
    """The calls with the entered changes.

    Attributes:
        calls: the list of calls.
        errors: the fields that could not be read.
        entered: the texts of those fields, by field name.
    """

    calls: list[Call]
    errors: list[Diagnostic] = field(default_factory=list)
    entered: dict[str, str] = field(default_factory=dict)


def calls_of(plan: Plan) -> list[Call] | None:
    """A plan's calls; None if they cannot represent all of it, for example if two answers have the same name."""
    try:
        calls: Any = nestful.encode(plan, matches=True)
        return calls if nestful.decode(calls, matches=True).id == plan.id else None
    except CodecError:
        return None


def written(calls: Sequence[Call]) -> str:
    """The calls as JSON that a form sends back unchanged."""
    text = json.dumps(calls, ensure_ascii=False, indent=1)
    return text if visible(text) == text else json.dumps(calls, indent=1)


def is_small(calls: Sequence[Call], text: str) -> bool:
    """Whether these calls fit on a page. ``text`` is their JSON."""
    return len(calls) <= _MOST_CALLS and len(text) <= _MOST_CHARS


def stamp(text: str) -> str:
    """A digest that shows whether a text was changed since it was shown."""
    return hashlib.sha256(text.strip().encode(errors="surrogatepass")).hexdigest()[:32]


def read_calls(text: str) -> list[Call]:
    """The calls that were entered as JSON. Their content is not checked. Raises ValidationFailed."""
    calls = read_json("The list of calls", text)
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise ValidationFailed("The list of calls must be a JSON list of objects.")
    return calls  # type: ignore[return-value]


def with_entered(calls: Sequence[Call], apis: Mapping[str, Api], form: Mapping[str, str]) -> Draft:
    """The calls with the values entered in their fields, without the removed call, and with the added one."""
    draft = Draft([])
    labels = Labels(str(call.get("label", "")) for call in calls)
    for call in calls:
        if call["name"] == RESULT:
            taken = {name: form.get(f"{ANSWER}{name}", text).strip() for name, text in call["arguments"].items()}
            draft.calls.append({**call, "arguments": {name: text for name, text in taken.items() if text}})
        elif form.get("remove") != call["label"]:
            draft.calls.append({**call, "arguments": _entered(call, apis.get(call["name"]), form, draft)})
    if added := form.get("add", "").strip():
        at = len(draft.calls) - (1 if draft.calls and draft.calls[-1]["name"] == RESULT else 0)
        draft.calls.insert(at, {"name": added, "arguments": {}, "label": labels.free(at + 1)})
    return draft


def _entered(call: Call, api: Api | None, form: Mapping[str, str], draft: Draft) -> dict[str, JsonValue]:
    """The arguments of a call. Arguments whose fields were emptied are left out."""
    arguments = dict(call["arguments"])
    for one in argument_fields(arguments, api):
        name = f"{ARGUMENT}{call['label']}.{one.name}"
        text = form.get(name, one.text)
        if text == one.text:
            continue
        if not text.strip():
            arguments.pop(one.name, None)
            continue
        try:
            arguments[one.name] = one.read(text, references=True)
        except ValidationFailed as error:
            draft.entered[name] = text
            draft.errors.append(
                Diagnostic(
                    code=DiagnosticCode.INVALID_LITERAL, step=call["label"], argument=one.name, message=error.detail
                )
            )
    return arguments


def rows(
    calls: Sequence[Call], apis: Mapping[str, Api], findings: Sequence[Diagnostic], draft: Draft | None = None
) -> list[Row]:
    """The calls with their diagnostics and as many of their fields as fit on the page."""
    by_step: dict[str | None, list[Diagnostic]] = {}
    for finding in findings:
        by_step.setdefault(finding.step, []).append(finding)
    room = _FIELDS_CHARS
    found = []
    for call in calls:
        if call["name"] == RESULT:
            continue
        extras = {name: json.dumps(call[name], ensure_ascii=False) for name in sorted(EXTRAS & call.keys())}
        chosen = {text: str(one["said"][0]) for text, one in call.get(MATCHES, {}).items() if one["said"]}
        row = Row(call["label"], call["name"], extras=extras, chosen=chosen)
        for finding in by_step.get(row.label, ()):
            row.findings.setdefault(finding.argument or "", []).append(finding)
        fields = argument_fields(call["arguments"], apis.get(row.api))
        given = sum(one.given for one in fields)
        for one in fields[: given + _OTHERS]:
            room -= _FIELD_CHARS + len(one.text) + len(one.description[:200]) + sum(map(len, one.choices))
            if room < 0:
                break
            name = f"{ARGUMENT}{row.label}.{one.name}"
            row.fields.append(one)
            row.texts[one.name] = draft.entered.get(name, one.text) if draft is not None else one.text
        found.append(row)
    return found
