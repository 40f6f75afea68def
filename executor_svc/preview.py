"""Previews the requests that a plan would send, for the person who approves it, before anything is changed.

The reads that feed these requests can be made for the preview. Values that only a run can provide are shown as
``{var1.items[0].id}`` or ``{item.code}``. While a request is built, such a value is a random placeholder of unreserved
characters, which no encoding changes. In the finished record the placeholders are replaced.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from executor_svc.binding import PreviewHold, ResolvedCalls, Scope, resolved_calls, source
from executor_svc.graph import Graph
from executor_svc.models import Call, Caller, Limits, Previewer, Unpreviewable
from executor_svc.references import Unresolved
from executor_svc.runner import Run
from executor_svc.settings import MAX_TAKEN_BYTES
from executor_svc.values import ValueStore
from executor_svc.values import preview as beginning
from services.contracts.api import Api
from services.contracts.base import JsonPath
from services.contracts.evidence import written_path
from services.contracts.execution import ExecutionFinished
from services.contracts.outcome import Failed, RequestRecord
from services.contracts.plan import (
    ItemReference,
    ListValue,
    LiteralValue,
    ObjectValue,
    Reference,
    Step,
    Value,
    step_references,
)
from services.contracts.planning import CompiledPlan
from services.contracts.preview import PreviewResponse, ReadValue, RequestPreview
from services.size_budget import SizeBudget, SizeExceeded

_MAX_LIST_CHARS = 200
_MAX_ITEMS = 100
"""Number of calls of a `foreach` whose requests are shown."""
_MAX_SHOWN_BYTES = 4 * 1024 * 1024
"""Total size of the requests that are shown. Beyond it only one request per step is shown."""

_MAX_READS = 500
_NONE: frozenset[str] = frozenset()
_NO_CALL = "its condition does not hold, or a step that it depends on was skipped"


def previews(
    compiled: CompiledPlan, adapter: Previewer, limit: int = 1_000, most_bytes: int = MAX_TAKEN_BYTES
) -> PreviewResponse:
    """The requests of the held steps, as far as the plan alone determines them. Sends nothing.

    Held steps are those that may change state or wait for an approval.

    Args:
        compiled: the plan and its APIs.
        adapter: previews the calls.
        limit: maximum number of calls of a `foreach`.
        most_bytes: maximum size of the values that these calls copy, if the list is in the plan.
    """
    scope = Scope.of(compiled, Graph(compiled.plan))
    held = [step for step in compiled.plan.steps if step.id in scope.held]
    fed = {step.id for step in held if any(ref.step in scope.reads for ref in step_references(step))}
    shown: list[RequestPreview] = []
    budget, sent = SizeBudget(most_bytes), SizeBudget(_MAX_SHOWN_BYTES)
    for step in held:
        bare = ResolvedCalls((dict(step.arguments),), step=step)
        known = bare if step.id in fed else resolved_calls(step, {}, _NONE, limit, budget)
        shown += _previews(compiled, step, known, adapter, sent, digest=step.id not in fed)
    return PreviewResponse(requests=tuple(shown), settled=not scope.reads)


async def read_and_preview(
    compiled: CompiledPlan, adapter: Caller, value_store: ValueStore, limits: Limits, run_id: str
) -> PreviewResponse:
    """The same, with the values of the reads that feed the held steps. Makes these reads.

    Args:
        compiled: the plan and its APIs.
        adapter: makes the reads, and previews the other calls.
        value_store: where large outputs are stored.
        limits: limits of the reads.
        run_id: used in the calls' keys.
    """
    graph = Graph(compiled.plan)
    scope = Scope.of(compiled, graph)
    run = Run(compiled, graph, adapter, run_id, limits, value_store, hold=PreviewHold(scope))
    finished = None
    async for event in run.events():
        finished = event
    assert isinstance(finished, ExecutionFinished), "a run's last event"
    outputs, budget, sent = scope.of_reads(run.outputs), SizeBudget(limits.copied_bytes), SizeBudget(_MAX_SHOWN_BYTES)
    shown: list[RequestPreview] = []
    unfit: dict[str, Failed] = {}
    for step in (step for step in compiled.plan.steps if step.id in scope.held):
        known = resolved_calls(step, outputs, scope.reads, limits.items, budget)
        if isinstance(known, Failed):
            unfit[step.id] = known
        shown += _previews(compiled, step, known, adapter, sent, digest=True)
    records = tuple(
        record.model_copy(update={"outcome": unfit[record.step]}) if record.step in unfit else record
        for record in finished.records
    )
    if any(isinstance(record.outcome, Failed) for record in records):
        ended = {"status": "failed", "records": records, "answer": (), "problem": ""}
        return PreviewResponse(failed=finished.model_copy(update=ended))
    requests = {record.step: record.requests for record in records}
    used = tuple(sorted({name for record in records for name in record.secrets}))
    return PreviewResponse(
        requests=tuple(shown), reads=_reads(compiled, scope, outputs, requests, budget), secrets=used
    )


def _reads(
    compiled: CompiledPlan,
    scope: Scope,
    outputs: Mapping[str, JsonValue],
    requests: Mapping[str, tuple[RequestRecord, ...]],
    budget: SizeBudget,
) -> tuple[ReadValue, ...]:
    """Every value that a held step, or a read that feeds one, uses from a read; without duplicates."""
    found: dict[tuple[str, JsonPath], ReadValue] = {}
    apis = {step.id: step.api for step in compiled.plan.steps}
    for step in (s for s in compiled.plan.steps if s.id in scope.held | scope.reads):
        for reference in step_references(step):
            if reference.step not in outputs or len(found) >= _MAX_READS:
                continue
            try:
                path, value = source(reference, outputs, budget)
            except Unresolved:  # an `exists` condition may refer to a missing value
                path, value = reference.path, None
            made = requests.get(reference.step, ())
            found[reference.step, path] = ReadValue(
                step=reference.step,
                api=apis[reference.step],
                path=path,
                value=beginning(value),
                request=f"{made[0].method} {made[0].url}" if made else "",
            )
    return tuple(found.values())


def _previews(
    compiled: CompiledPlan,
    step: Step,
    known: ResolvedCalls | Failed,
    adapter: Previewer,
    budget: SizeBudget,
    *,
    digest: bool,
) -> list[RequestPreview]:
    """A request for each known call, or one request with placeholders for all of them."""
    api = compiled.apis[step.api]
    digest_text = known.digest if digest and isinstance(known, ResolvedCalls) else ""
    calls = None
    if not isinstance(known, Failed) and (step.foreach is None or known.mapped or not known.calls):
        calls = len(known.calls)
    foreach = None if step.foreach is None else _list(step.foreach.items)
    if isinstance(known, Failed) or not known.calls:
        problem = known.message if isinstance(known, Failed) else _NO_CALL
        record = RequestRecord(method=api.method, url=api.server + api.path)
        return [
            RequestPreview(
                step=step.id,
                api=api.id,
                request=record,
                complete=False,
                foreach=foreach,
                calls=calls,
                digest=digest_text,
                problem=problem,
            )
        ]
    shown: list[RequestPreview] = []
    for index, arguments in enumerate(known.calls[:_MAX_ITEMS]):
        one = _preview(api, step, arguments, adapter)
        item = index if known.mapped else None
        shown.append(one.model_copy(update={"foreach": foreach, "item": item, "calls": calls, "digest": digest_text}))
        try:
            budget.take([one.request.url, dict(one.request.headers), one.request.body])
        except SizeExceeded:
            break
    return shown


def _preview(api: Api, step: Step, arguments: Mapping[str, Value], adapter: Previewer) -> RequestPreview:
    placeholders = _Placeholders()
    values = {name: placeholders.with_placeholders(value) for name, value in arguments.items()}
    problem = ""
    try:
        request = placeholders.with_texts(adapter.preview(Call(api, values, step.id, deadline=0.0)))
    except Unpreviewable as error:
        request, problem = RequestRecord(method=api.method, url=api.server + api.path), placeholders.in_text(str(error))
    if api.idempotency_header and not problem:
        headers = request.headers | {api.idempotency_header: "{one for each call}"}
        request = request.model_copy(update={"headers": headers})
    complete = not placeholders.texts and not problem
    return RequestPreview(step=step.id, api=api.id, request=request, complete=complete, problem=problem)


@dataclass(slots=True)
class _Placeholders:
    """The placeholders for unknown values, and the text that people see for each."""

    texts: dict[str, str] = field(default_factory=dict)

    def with_placeholders(self, value: Value) -> JsonValue:
        """The value with a placeholder for each unknown part."""
        match value:
            case LiteralValue():
                return value.value
            case Reference():
                return self._placeholder(_readable_text(value.step, written_path(value.path, value.match)))
            case ItemReference():
                return self._placeholder(_readable_text("item", written_path(value.path)))
            case ListValue():
                return [self.with_placeholders(item) for item in value.items]
            case ObjectValue():
                return {name: self.with_placeholders(member) for name, member in value.fields.items()}

    def _placeholder(self, readable: str) -> str:
        # 32 characters, which is valid base64, too, for values that are bytes.
        placeholder = f"nestor{secrets.token_hex(13)}"
        self.texts[placeholder] = readable
        return placeholder

    def with_texts(self, record: RequestRecord) -> RequestRecord:
        """The record with its placeholders replaced by readable text."""
        return RequestRecord(
            method=record.method,
            url=self.in_text(record.url),
            headers={name: self.in_text(value) for name, value in record.headers.items()},
            body=self._in_json(record.body),
        )

    def in_text(self, text: str) -> str:
        """The text with its placeholders replaced."""
        for placeholder, readable in self.texts.items():
            text = text.replace(placeholder, readable)
        return text

    def _in_json(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, list):
            return [self._in_json(item) for item in value]
        if isinstance(value, dict):
            return {name: self._in_json(member) for name, member in value.items()}
        return value


def _readable_text(root: str, path: str) -> str:
    return "{" + root + path + "}"


def _list(items: Value) -> str:
    """A readable text for the list of a `foreach`: its reference, or its beginning."""
    placeholders = _Placeholders()
    shown = placeholders.with_placeholders(items)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    return placeholders.in_text(text if len(text) <= _MAX_LIST_CHARS else text[:_MAX_LIST_CHARS] + " ...")
