"""The corpus' requests, one per line in ``requests/VENDOR.jsonl``, and the checks on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from evals.data import DataError
from planner_svc.backends.served.signatures import call_names
from planner_svc.compile import compile_plan
from services.codecs import nestful
from services.codecs.calls import RESULT, explain
from services.codecs.text import CodecError
from services.contracts.api import Api
from services.contracts.plan import Plan, Step, dependencies
from services.contracts.planning import Decision, DiagnosticCode, Policy
from training.shared.leaks import NearDuplicates

Kind = Literal["single", "parallel", "chain", "each", "refused", "asks"]
_WORDS: Final = (3, 120)
_ALLOWED: Final = Policy(mutating=Decision.ALLOW)


class Request(BaseModel):
    """A request as a person would phrase it, and the plan that solves it.

    Attributes:
        id: ``VENDOR-NNN``.
        query: the request.
        kind: ``single``: one call; ``parallel``: several independent calls; ``chain``: dependent calls; ``each``: calls
            for each item of a list; ``refused``: these APIs cannot serve it; ``asks``: it lacks something that only
            the user can tell.
        plan: NESTful's list of calls, with the APIs' names in the catalogue's listing. ``var_result`` names the fields
            that answer. Empty if nothing can be done.
        now: the time that relative dates refer to.
        asks: names of the parameters that the user must be asked for.
        why: for a refused request, what is missing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9-]+-\d{3}$")
    query: str
    kind: Kind
    plan: tuple[dict[str, JsonValue], ...] = ()
    now: datetime | None = None
    asks: tuple[str, ...] = ()
    why: str | None = None

    @property
    def calls(self) -> tuple[dict[str, JsonValue], ...]:
        """The plan without its answer."""
        return tuple(call for call in self.plan if call.get("name") != RESULT)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a request."""

    request: str
    text: str


def read_requests(file: Path) -> tuple[Request, ...]:
    """Read a vendor's requests.

    Raises:
        DataError: a line is not a request.
    """
    found = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            found.append(Request.model_validate_json(line))
        except ValidationError as error:
            raise DataError(f"{file.name}, line {number}: {explain(error)}") from None
    return tuple(found)


def decode_plan(request: Request, names: Mapping[str, str]) -> Plan:
    """The plan with the APIs' ids.

    Args:
        request: a request of a vendor.
        names: ids of the vendor's APIs by their names in the listing.

    Raises:
        CodecError: it is not a valid plan, or calls an unknown API.
    """
    plan = nestful.decode(list(request.plan))
    steps: list[Step] = []
    for step in plan.steps:
        if step.api not in names:
            raise CodecError(f"there is no API called {step.api!r}")
        steps.append(step.model_copy(update={"api": names[step.api]}))
    return Plan(steps=tuple(steps), answer=plan.answer)


def check_requests(requests: Iterable[Request], apis: tuple[Api, ...], vendor: str) -> Iterator[Problem]:
    """Problems of a vendor's requests: invalid ids, invalid plans, near duplicates."""
    names = {name: api for api, name in call_names(apis).items()}
    seen, ids = NearDuplicates(), Counter[str]()
    for request in requests:
        ids[request.id] += 1
        if request.id.rpartition("-")[0] != vendor or ids[request.id] > 1:
            yield Problem(request.id, f"the id is not {vendor}-NNN, or is given twice")
        if (near := seen.of(request.query)) is not None:
            yield Problem(request.id, f"nearly equals {near!r}")
        seen.add([request.query])
        for text in _problems(request, apis, names):
            yield Problem(request.id, text)


def _problems(request: Request, apis: tuple[Api, ...], names: Mapping[str, str]) -> Iterator[str]:
    least, most = _WORDS
    if not least <= len(request.query.split()) <= most:
        yield f"the request has not {least} to {most} words"
    if request.kind == "refused":
        if request.plan or request.why is None:
            yield "a refused request has no plan, and says why"
        return
    try:
        plan = decode_plan(request, names)
    except CodecError as error:
        yield str(error)
        return
    if problem := _misfit(request, plan):
        yield problem
    compiled = compile_plan(plan, [api for api in apis if api.id in {step.api for step in plan.steps}], _ALLOWED)
    asked = {question.argument for question in compiled.questions}
    if asked != set(request.asks) or bool(asked) != (request.kind == "asks"):
        yield f"{request.kind}: `asks` names {sorted(request.asks)}, and the plan lacks {sorted(asked)}"
    yield from (
        one.message
        for one in compiled.diagnostics
        if one.severity == "error" and one.code is not DiagnosticCode.MISSING_ARGUMENT
    )
    if compiled.compiled is not None and len(compiled.compiled.plan.steps) != len(plan.steps):
        yield "the compiler adds calls to the plan"


def _misfit(request: Request, plan: Plan) -> str | None:
    """Describe a mismatch between the plan and the request's kind; None if they agree."""
    linked = any(dependencies(step) for step in plan.steps)
    each = any(step.foreach is not None for step in plan.steps)
    real: Kind = "each" if each else "chain" if linked else "single" if len(plan.steps) == 1 else "parallel"
    if request.kind not in (real, "asks"):
        return f"the plan is {real}, the request says {request.kind}"
    return None
