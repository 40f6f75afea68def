"""Which requests a plan would send: shown to whoever approves it, before anything is sent.

What only a run can tell stands as ``{var1.items[0].id}`` or ``{item.code}``. While a request is built such a value is a
random word of unreserved characters, so that no encoding touches it; in the finished record the words are replaced.
"""

import json
import secrets
from dataclasses import dataclass, field

from pydantic import JsonValue

from executor_svc.models import Call, Previewer, Unpreviewable
from services.contracts.evidence import written_path
from services.contracts.plan import ItemReference, ListValue, LiteralValue, ObjectValue, Reference, Step, Value
from services.contracts.planning import CompiledPlan
from services.contracts.run import PreviewResponse, RequestPreview, RequestRecord

_MAX_LIST_CHARS = 200


def previews(compiled: CompiledPlan, adapter: Previewer) -> PreviewResponse:
    """The requests of the steps that may change state or wait for an approval, in the plan's order."""
    shown = frozenset(compiled.proof.mutating) | frozenset(compiled.proof.approvals)
    return PreviewResponse(requests=tuple(_preview(compiled, s, adapter) for s in compiled.plan.steps if s.id in shown))


def _preview(compiled: CompiledPlan, step: Step, adapter: Previewer) -> RequestPreview:
    api, words = compiled.apis[step.api], _Words()
    arguments = {name: words.stand_in(value) for name, value in step.arguments.items()}
    problem = ""
    try:
        request = words.spoken(adapter.preview(Call(api, arguments, step.id, deadline=0.0)))
    except Unpreviewable as error:
        request, problem = RequestRecord(method=api.method, url=api.server + api.path), words.in_text(str(error))
    if api.idempotency_header and not problem:
        headers = request.headers | {api.idempotency_header: "{one for each call}"}
        request = request.model_copy(update={"headers": headers})
    return RequestPreview(
        step=step.id,
        api=api.id,
        request=request,
        complete=not words.spellings and not problem,
        foreach=None if step.foreach is None else _list(step.foreach.items),
        problem=problem,
    )


@dataclass(slots=True)
class _Words:
    """The words that stand in for unknown values, and how those are spelt for people."""

    spellings: dict[str, str] = field(default_factory=dict)

    def stand_in(self, value: Value) -> JsonValue:
        """The value with a word wherever something is not known yet."""
        match value:
            case LiteralValue():
                return value.value
            case Reference():
                return self._word(_spelling(value.step, written_path(value.path, value.match)))
            case ItemReference():
                return self._word(_spelling("item", written_path(value.path)))
            case ListValue():
                return [self.stand_in(item) for item in value.items]
            case ObjectValue():
                return {name: self.stand_in(member) for name, member in value.fields.items()}

    def _word(self, spelling: str) -> str:
        word = f"nestor{secrets.token_hex(13)}"  # 32 characters: base64 as well, for values that are bytes
        self.spellings[word] = spelling
        return word

    def spoken(self, record: RequestRecord) -> RequestRecord:
        """The record as people read it."""
        return RequestRecord(
            method=record.method,
            url=self.in_text(record.url),
            headers={name: self.in_text(value) for name, value in record.headers.items()},
            body=self._in_json(record.body),
        )

    def in_text(self, text: str) -> str:
        """The text with its words spelt out."""
        for word, spelling in self.spellings.items():
            text = text.replace(word, spelling)
        return text

    def _in_json(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, list):
            return [self._in_json(item) for item in value]
        if isinstance(value, dict):
            return {name: self._in_json(member) for name, member in value.items()}
        return value


def _spelling(root: str, path: str) -> str:
    return "{" + root + path + "}"


def _list(items: Value) -> str:
    """The list of a `foreach` for people: what it refers to, or its beginning."""
    words = _Words()
    shown = words.stand_in(items)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    return words.in_text(text if len(text) <= _MAX_LIST_CHARS else text[:_MAX_LIST_CHARS] + " ...")
