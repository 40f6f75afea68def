"""The playground: ask in words, look at the plan and its proof, answer its questions, then run it."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import ValidationError

from gateway.console.flow import Flow
from gateway.console.forms import entered, fields_of
from gateway.console.graph import draw
from gateway.console.pages import ConsoleRoute, curl, get_form, get_session, render, see, with_query
from gateway.console.session import PATH, Session
from gateway.console.status import LOOKS
from gateway.routing import PRINTABLE, Service
from services.app import service_router
from services.contracts.run import RequestRecord, SolveRequest
from services.errors import ServiceError, ValidationFailed

router = service_router(route_class=ConsoleRoute, include_in_schema=False)
Who = Annotated[Session, Depends(get_session)]
Form = Annotated[dict[str, str], Depends(get_form)]
HERE = f"{PATH}/playground"
EXAMPLES = (
    "Which public holidays does Portugal have in June 2027?",
    "How long is a flight from Lisbon to Vienna?",
    "Convert 26.2 miles to kilometers.",
    "Book the room Lisbon tomorrow from 10:00 to 11:00.",
)


@router.get(HERE)
async def playground(
    request: Request,
    service: Service,
    who: Who,
    q: Annotated[str, Query(max_length=2_000)] = "",
    run: Annotated[str, Query(max_length=64, pattern=PRINTABLE)] = "",
) -> Response:
    """The form; with a run, its plan, or the questions that stand in its way."""
    who.require("ask")
    planned = await service.run(run, who.principal) if run else None
    asked = await service.asked(run, who.principal) if run else None
    flow = Flow(planned) if planned is not None and planned.plan is not None else None
    return render(
        request, "playground.html", screen="playground", run=planned, asked=asked, looks=LOOKS,
        query=planned.query if planned is not None else q, flow=flow, drawing=draw(flow) if flow else None,
        fields=fields_of(planned.questions) if planned is not None else [], examples=EXAMPLES,
        curl=_curl(request, asked) if asked is not None else "", python=_python(request, asked) if asked else "",
    )  # fmt: skip


def _curl(request: Request, asked: SolveRequest) -> str:
    """A command that plans the same."""
    headers = {"Content-Type": "application/json"}
    if request.state.session.logged_in:
        headers["Authorization"] = "Bearer TOKEN"
    body = _plain(asked)
    return curl(RequestRecord(method="POST", url=f"{_origin(request)}/solve", headers=headers, body=body))


def _python(request: Request, asked: SolveRequest) -> str:
    """A program that does the same, with the standard library alone."""
    token = ', "Authorization": "Bearer TOKEN"' if request.state.session.logged_in else ""
    return (
        "import json\nfrom urllib.request import Request, urlopen\n\n"
        f"body = {_plain(asked)!r}\n"
        f'headers = {{"Content-Type": "application/json"{token}}}\n'
        f'request = Request("{_origin(request)}/solve", json.dumps(body).encode(), headers)\n'
        'print(json.load(urlopen(request))["answer"]["text"])\n'
    )


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


def _plain(asked: SolveRequest) -> dict[str, object]:
    """What is not as it would be by itself, save how the answer is delivered."""
    plain: dict[str, object] = asked.model_dump(mode="json", exclude_defaults=True, exclude={"wait"})
    options = plain.get("options")
    if isinstance(options, dict):
        options.pop("dry_run", None)
    return {name: value for name, value in plain.items() if value != {}}


@router.post(HERE)
async def plan(service: Service, who: Who, form: Form) -> Response:
    """Plan and prove; nothing is sent."""
    who.require("ask")
    context = {"timezone": form["timezone"]} if form.get("timezone") else {}
    options = {"mutations": form.get("mutations") or "ask"}
    fields = {"query": form.get("q", ""), "context": context, "options": options}
    try:
        asked = SolveRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValidationFailed(f"{first['loc'][-1]}: {first['msg']}") from None
    return await _planned(service, asked, who)


@router.post(f"{HERE}/answers")
async def answer(service: Service, who: Who, form: Form) -> Response:
    """Plan again with what was asked for."""
    who.require("ask")
    run = await service.run(form.get("run", ""), who.principal)
    asked = await service.asked(run.id, who.principal)
    values = asked.context.values | entered(fields_of(run.questions), form)
    context = asked.context.model_copy(update={"values": values})
    return await _planned(service, asked.model_copy(update={"context": context}), who)


async def _planned(service: Service, asked: SolveRequest, who: Session) -> Response:
    try:
        run_id = (await service.plan(asked, who.principal)).id
    except ServiceError as error:
        run_id = error.extensions.get("run_id", "")
        if not run_id:
            raise
    return see(with_query(HERE, {"run": run_id}))


@router.post(f"{HERE}/run")
async def run_it(service: Service, who: Who, form: Form) -> Response:
    """Ask again what a plan was made for, and this time run it. A call that may change something still waits."""
    who.require("ask")
    asked = await service.asked(form.get("run", ""), who.principal)
    options = asked.options.model_copy(update={"dry_run": False})
    run = await service.solve(asked.model_copy(update={"options": options, "wait": False}), who.principal)
    return see(f"{PATH}/runs/{run.id}")
