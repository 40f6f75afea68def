"""Previews the requests that a plan would send, for the person who approves it, before anything is changed.

The reads that feed these requests can be made for the preview. Values that only a run can provide are shown as
``{var1.items[0].id}`` or ``{item.code}``. While a request is built, such a value is a random placeholder of unreserved
characters, which no encoding changes. In the finished record the placeholders are replaced.
"""

import asyncio
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.binding import PreviewHold, ResolvedCalls, Scope, resolved_calls, source
from executor_svc.graph import Graph
from executor_svc.models import Call, Caller, Limits, Previewer, Unpreviewable
from executor_svc.references import Unresolved
from executor_svc.runner import Run
from executor_svc.settings import MAX_TAKEN_BYTES
from executor_svc.steps import uncompared
from executor_svc.values import ValueStore, size_of
from executor_svc.values import preview as beginning
from executor_svc.workers import BESIDE, Workers
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
"""Total size of the requests that are shown. The first request of each step must fit, further ones of loops may not."""
_TOO_LARGE = "it is too large to be shown: the plan's requests exceed 4 MB together"
"""The problem of a request that did not fit. Nobody can review it, so the plan must not be approved."""

_MAX_READS = 500
_SHOWING_S = 3.0
"""For how long requests are worked out beyond the deadline of the reads, which a read without an answer uses up."""
_RANDOM_BYTES = 13
_PLACEHOLDER = re.compile(rf"nestor[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
_NONE: frozenset[str] = frozenset()
_NO_CALL = "its condition does not hold, or a step that it depends on was skipped"


def previews(
    compiled: CompiledPlan, adapter: Previewer, limit: int = 1_000, most_bytes: int = MAX_TAKEN_BYTES
) -> PreviewResponse:
    """The requests of the held steps, as far as the plan alone determines them. Sends nothing.

    Held steps are those that may change state or wait for an approval. If their requests are too large to be shown,
    the answer is not settled, so it cannot be approved. Call it in a thread: the plan's own values may be large.

    Args:
        compiled: the plan and its APIs.
        adapter: previews the calls.
        limit: maximum number of calls of a `foreach`.
        most_bytes: maximum size of the values that these calls copy, if the list is in the plan.
    """
    scope = Scope.of(compiled, Graph(compiled.plan))
    held = [step for step in compiled.plan.steps if step.id in scope.held]
    fed = {step.id for step in held if any(ref.step in scope.reads for ref in step_references(step))}
    budget = SizeBudget(most_bytes)
    made: list[Iterator[RequestPreview]] = []
    for step in held:
        bare = ResolvedCalls((dict(step.arguments),), step=step)
        known = bare if step.id in fed else resolved_calls(step, {}, _NONE, limit, budget)
        made.append(_previews(compiled, step, known, adapter, digest=step.id not in fed))
    shown = _fitting(compiled, made)
    fits = all(one.problem != _TOO_LARGE for one in shown)
    return PreviewResponse(requests=shown, settled=fits and not scope.reads)


async def read_and_preview(
    compiled: CompiledPlan,
    adapter: Caller,
    value_store: ValueStore,
    limits: Limits,
    run_id: str,
    workers: Workers,
) -> PreviewResponse:
    """The same, with the values of the reads that feed the held steps. Makes these reads.

    Steps whose requests are too large to be shown count as failed.

    Args:
        compiled: the plan and its APIs.
        adapter: makes the reads, and previews the other calls.
        value_store: where large outputs are stored.
        limits: limits of the reads.
        run_id: used in the calls' keys.
        workers: threads for work on large values.

    Raises:
        NotDone: the requests were not known before the deadline, or too much work is waiting.
    """
    graph = Graph(compiled.plan)
    scope = Scope.of(compiled, graph)
    deadline = asyncio.get_running_loop().time() + limits.run_s + _SHOWING_S
    run = Run(compiled, graph, adapter, run_id, limits, value_store, hold=PreviewHold(scope), workers=workers)
    finished = None
    async for event in run.events():
        finished = event
    assert isinstance(finished, ExecutionFinished), "a run's last event"
    return await workers.run(BESIDE, deadline, _after_reads, compiled, scope, run.outputs, finished, adapter, limits)


def _after_reads(
    compiled: CompiledPlan,
    scope: Scope,
    outputs: Mapping[str, JsonValue],
    finished: ExecutionFinished,
    adapter: Previewer,
    limits: Limits,
) -> PreviewResponse:
    """The requests of the held steps. With large values this takes seconds, so it runs beside the event loop."""
    outputs, budget = scope.of_reads(outputs), SizeBudget(limits.copied_bytes)
    cut = {record.step for record in finished.records if record.more}
    made: list[Iterator[RequestPreview]] = []
    unfit: dict[str, Failed] = {}
    for step in (step for step in compiled.plan.steps if step.id in scope.held):
        # What the run would refuse is told before a person decides.
        refused = uncompared(step, outputs, cut, budget)
        known = refused or resolved_calls(step, outputs, scope.reads, limits.items, budget)
        if isinstance(known, Failed):
            unfit[step.id] = known
        made.append(_previews(compiled, step, known, adapter, digest=True))
    shown = _fitting(compiled, made)
    for one in shown:
        if one.problem == _TOO_LARGE:
            unfit.setdefault(one.step, Failed(reason="refused", message=f"{one.step}: {_TOO_LARGE}"))
    records = tuple(
        record.model_copy(update={"outcome": unfit[record.step]}) if record.step in unfit else record
        for record in finished.records
    )
    if any(isinstance(record.outcome, Failed) for record in records):
        ended = {"status": "failed", "records": records, "answer": (), "problem": ""}
        return PreviewResponse(failed=finished.model_copy(update=ended))
    requests = {record.step: record.requests for record in records}
    used = tuple(sorted({name for record in records for name in record.secrets}))
    return PreviewResponse(requests=shown, reads=_reads(compiled, scope, outputs, requests, budget), secrets=used)


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


def _fitting(compiled: CompiledPlan, made: Sequence[Iterator[RequestPreview]]) -> tuple[RequestPreview, ...]:
    """The first request of each step, and further ones of loops while they fit. No request is shown in part."""
    budget = SizeBudget(_MAX_SHOWN_BYTES)
    shown = [[_or_too_large(compiled, next(of_step), budget)] for of_step in made]  # before any further ones
    with suppress(SizeExceeded):
        for of_step, kept in zip(made, shown, strict=True):
            for one in of_step:
                _take(one, budget)
                kept.append(one)
    return tuple(one for kept in shown for one in kept)


def _or_too_large(compiled: CompiledPlan, one: RequestPreview, budget: SizeBudget) -> RequestPreview:
    try:
        _take(one, budget)
    except SizeExceeded:
        request = _unfilled(compiled.apis[one.api])
        return one.model_copy(update={"request": request, "complete": False, "problem": _TOO_LARGE})
    return one


def _take(one: RequestPreview, budget: SizeBudget) -> None:
    budget.take_bytes(size_of(to_json([one.request.url, one.request.headers, one.request.body])))


def _previews(
    compiled: CompiledPlan, step: Step, known: ResolvedCalls | Failed, adapter: Previewer, *, digest: bool
) -> Iterator[RequestPreview]:
    """A request for each known call, or one request with placeholders for all of them."""
    api = compiled.apis[step.api]
    digest_text = known.digest if digest and isinstance(known, ResolvedCalls) else ""
    calls = None if isinstance(known, Failed) else known.number(step)
    foreach = None if step.foreach is None else _list(step.foreach.items)
    if isinstance(known, Failed) or not known.calls:
        problem = known.message if isinstance(known, Failed) else _NO_CALL
        yield RequestPreview(
            step=step.id,
            api=api.id,
            request=_unfilled(api),
            complete=False,
            foreach=foreach,
            calls=calls,
            digest=digest_text,
            problem=problem,
        )
        return
    for index, arguments in enumerate(known.calls[:_MAX_ITEMS]):
        one = _preview(api, step, arguments, adapter)
        item = index if known.mapped else None
        yield one.model_copy(update={"foreach": foreach, "item": item, "calls": calls, "digest": digest_text})


def _unfilled(api: Api) -> RequestRecord:
    return RequestRecord(method=api.method, url=api.server + api.path)


def _preview(api: Api, step: Step, arguments: Mapping[str, Value], adapter: Previewer) -> RequestPreview:
    placeholders = _Placeholders()
    values = {name: placeholders.with_placeholders(value) for name, value in arguments.items()}
    problem = ""
    try:
        request = placeholders.with_texts(adapter.preview(Call(api, values, step.id, deadline=0.0)))
    except Unpreviewable as error:
        request, problem = _unfilled(api), placeholders.in_text(str(error))
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
        placeholder = f"nestor{secrets.token_hex(_RANDOM_BYTES)}"
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
        """The text with its placeholders replaced, in one pass: a plan may have thousands, each in its own text."""
        return _PLACEHOLDER.sub(lambda found: self.texts.get(found[0], found[0]), text) if self.texts else text

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
