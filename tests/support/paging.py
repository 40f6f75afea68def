"""Upstreams that answer in pages, and helpers to read the results."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from executor_svc.models import CallResult
from services.contracts.api import Parameter
from tests.support.executing import parameter, value
from tests.support.upstream import Seen, Upstream

Page = Any
"""A JSON value, or a whole response."""
PATH = "/list"


def number(name: str, **schema: Any) -> Parameter:
    return parameter(name).model_copy(update={"json_schema": {"type": "integer"} | schema})


def token(name: str) -> Parameter:
    return parameter(name).model_copy(update={"json_schema": {"type": "string"}})


def paged(upstream: Upstream, answer: Callable[[dict[str, str]], Page]) -> None:
    """Answer ``PATH`` with the page that ``answer`` returns for the query's arguments."""

    @upstream.on(PATH)
    async def reply(seen: Seen) -> web.StreamResponse:
        page = answer({name: values[0] for name, values in parse_qs(seen.query, keep_blank_values=True).items()})
        return page if isinstance(page, web.Response) else web.json_response(page)


def read(result: CallResult) -> tuple[Any, int, bool]:
    return value(result), result.pages, result.more


def linked(items: list[Any], link: str) -> web.Response:
    return web.json_response(items, headers={"Link": link})
