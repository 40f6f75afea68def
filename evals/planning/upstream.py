"""A stand-in service made from the APIs' descriptions only, so that plans can run when the real service is unavailable.

Every API has its own path below the service's address. A call must pass the required arguments, and arguments of a
JSON body must have the declared JSON type; otherwise it is refused with 422. The answer is generated from the response
schema and always the same. It has every declared field with its declared type, and uses an example from the description
(``e.g., Lisbon``) if there is one. A field without a declared type is a text. The service looks nothing up and keeps no
state. So a plan that runs here makes calls that fit together; whether the answers would be right is not tested.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from pydantic import JsonValue
from pydantic_core import to_json

from services.contracts.api import Api, Location, Parameter, RequestBody
from twin.schemas import fits
from twin.values import example_of

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def stand_in(api: Api, number: int, server: str) -> Api:
    """The same API at the service's address, without credentials. Its input and output are those of the original.

    If the data gives the API no path, it becomes a POST of a JSON body to its name.

    Args:
        api: the original.
        number: distinguishes it from the service's other APIs.
        server: base URL of the service.
    """
    is_bare = not api.server and api.path == "/" and api.body is None
    method, path = ("POST", f"/{number}/{_named(api)}") if is_bare else (api.method, f"/{number}{api.path}")
    has_body = method not in {"GET", "HEAD", "DELETE", "OPTIONS"}
    parameters = tuple(_placed(one, path, has_body=has_body) for one in api.parameters)
    in_path = {one.wire_name for one in parameters if one.location is Location.PATH}
    body = api.body
    if body is None and any(one.location is Location.BODY for one in parameters):
        body = RequestBody()
    return api.model_copy(
        update={
            "method": method,
            "server": server,
            "path": _PLACEHOLDER.sub(lambda m: m[0] if m[1] in in_path else m[1], path),
            "parameters": parameters,
            "body": body,
            "response": api.response.model_copy(update={"status": 200, "media_type": "application/json"}),
            "security": (),
            "content_hash": "",
        }
    )


@asynccontextmanager
async def serving(apis: Iterable[Api]) -> AsyncIterator[str]:
    """Serve these APIs on a free local port; yields the base URL. An API's number is its index from 0."""
    service = _Service(tuple(apis))
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_route("*", "/{number:[0-9]+}{rest:.*}", service.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def misfit(api: Api, body: JsonValue) -> str:
    """Why a body is refused; empty if it is accepted."""
    wanted = [one for one in api.parameters if one.location is Location.BODY]
    if not wanted or api.body is None or api.body.whole:
        return ""
    if not isinstance(body, dict):
        return "the body is not an object"
    for one in wanted:
        if one.wire_name not in body:
            if one.required:
                return f"{one.wire_name} is missing"
        elif not _fits(body[one.wire_name], one.json_schema.get("type")):
            return f"{one.wire_name} is not of type {one.json_schema.get('type')}"
    return ""


class _Service:
    def __init__(self, apis: tuple[Api, ...]) -> None:
        self._apis = apis
        self._served: dict[int, Api] = {}

    async def answer(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        if number >= len(self._apis):
            raise web.HTTPNotFound
        if number not in self._served:
            self._served[number] = stand_in(self._apis[number], number, "")
        api = self._served[number]
        if request.method != api.method:
            raise web.HTTPMethodNotAllowed(request.method, [api.method])
        problem = await self._problem(api, request)
        if problem:
            return web.json_response({"error": problem}, status=422)
        value = example_of(api.response.json_schema, api.name, api.definitions)
        return web.Response(body=to_json(value if value is not None else {}), content_type="application/json")

    async def _problem(self, api: Api, request: web.Request) -> str:
        for one in api.parameters:
            plain = one.json_schema.get("type") not in ("array", "object")  # arrays and objects may be empty
            if one.location is Location.QUERY and one.required and plain and one.wire_name not in request.query:
                return f"{one.wire_name} is missing"
        if not request.can_read_body:
            return misfit(api, {})
        if request.content_type != "application/json":
            return ""
        try:
            return misfit(api, await request.json())
        except ValueError:
            return "the body is not JSON"


def _named(api: Api) -> str:
    return re.sub(r"[^\w.-]+", "_", api.id)


def _placed(parameter: Parameter, path: str, *, has_body: bool) -> Parameter:
    """The parameter at a location that the request supports: the data often states none."""
    if parameter.location is not Location.BODY:
        return parameter
    if f"{{{parameter.wire_name}}}" in path:
        return parameter.model_copy(update={"location": Location.PATH, "required": True})
    return parameter if has_body else parameter.model_copy(update={"location": Location.QUERY})


def _fits(value: JsonValue, kind: JsonValue) -> bool:
    """Whether a value has a declared JSON type. Any value fits an undeclared type."""
    kinds = kind if isinstance(kind, list) else [kind]
    return value is None or fits(value, frozenset(str(one) for one in kinds))
