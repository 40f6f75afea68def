"""Keys that travel in the path or in the body: presented there, and shown nowhere."""

import io
import json
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote

import pytest
from aiohttp import web
from python_multipart import parse_form

from deploy.sockets import serving
from services.contracts.api import Api, Location, Parameter, RequestBody, SecretKind, SecurityRequirement
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, failed, parameter
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener
from twin.main import create_app
from twin.service import Twin

KEY = "canary+/ü s3cret{x}"
TITLE = Parameter(name="title", wire_name="title", location=Location.BODY, json_schema={"type": "string"})


def key_in(location: str, name: str = "token") -> SecurityRequirement:
    where = Location(location)
    return SecurityRequirement(
        scheme=name, kind=SecretKind.API_KEY, secret=f"test.{name}", location=where, parameter=name
    )


def entry(host: str, place: str = "body", value: str = KEY) -> dict[str, Any]:
    return {"test.token": {"value": value, "hosts": [host], "in": place, "name": "token"}}


def sending(server: str, media_type: str = "application/json", *parameters: Parameter, required: bool = True) -> Api:
    return api(
        server, "/send", *(parameters or (TITLE,)), method="POST",
        body=RequestBody(media_type=media_type, required=required), security=((key_in("body"),),),
    )  # fmt: skip


def assert_hidden(shown: str) -> None:
    for form in (KEY, quote(KEY, safe=""), json.dumps(KEY)[1:-1]):
        assert form not in shown
    assert "***" in shown


async def test_a_key_in_the_path(upstream: Upstream, opened: Opener) -> None:
    call = await opened(entry(upstream.host, "path"))
    subject = api(upstream.origin, "/bot{token}/{chat}/send", parameter("chat", "path"), security=((key_in("path"),),))
    result = await call(subject, chat="{token}")
    assert isinstance(result.outcome, Succeeded), result.outcome
    assert upstream.seen[0].target == f"/bot{quote(KEY, safe='')}/%7Btoken%7D/send"
    assert_hidden(f"{result!r}")


@pytest.mark.parametrize("arguments", [{"title": "a&b=ü"}, {}])
@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_key_in_the_body(
    upstream: Upstream, opened: Opener, media_type: str, arguments: dict[str, Any]
) -> None:
    call = await opened(entry(upstream.host))
    result = await call(sending(upstream.origin, media_type, required=False), **arguments)
    assert isinstance(result.outcome, Succeeded), result.outcome
    seen = upstream.seen[0]
    if media_type == "application/json":
        assert json.loads(seen.body) == {**arguments, "token": KEY}
    elif media_type.endswith("urlencoded"):
        assert parse_qs(seen.body.decode()) == {name: [value] for name, value in {**arguments, "token": KEY}.items()}
    else:
        boundary = seen.headers["Content-Type"].partition("boundary=")[2]
        assert seen.body.count(f"--{boundary}\r\n".encode()) == len(arguments) + 1
        assert f'name="token"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{KEY}\r\n--'.encode() in seen.body
    assert_hidden(f"{result!r}")
    assert result.request is not None
    assert result.request.body == {**arguments, "token": "***"}


async def test_an_echo_is_masked(upstream: Upstream, opened: Opener) -> None:
    @upstream.on("/send")
    async def answer(seen: Seen) -> web.StreamResponse:
        return web.json_response({"echo": seen.body.decode(), "form": KEY}, status=422)

    call = await opened(entry(upstream.host))
    result = await call(sending(upstream.origin), title="x")
    assert isinstance(result.outcome, Failed)
    assert result.outcome.status == 422
    assert_hidden(f"{result!r}")


@pytest.mark.parametrize("place", ["path", "body"])
async def test_a_key_that_was_set_for_no_place_stays_out_of_what_operations_give_back(
    upstream: Upstream, opened: Opener, place: str
) -> None:
    call = await opened({"test.token": {"value": KEY, "hosts": [upstream.host]}})
    in_path = api(upstream.origin, "/bot{token}/me", security=((key_in("path"),),))
    result = await call(in_path) if place == "path" else await call(sending(upstream.origin), title="x")
    assert isinstance(result.outcome, Failed)
    assert f"nestor secrets bind test.token --{place} token" in result.outcome.message
    assert upstream.seen == []


async def test_nothing_is_sent_without_it_or_where_it_cannot_travel(upstream: Upstream, opened: Opener) -> None:
    elsewhere = await opened(entry("elsewhere.example"))
    result = await elsewhere(sending(upstream.origin), title="x")
    failed(result, "credential")
    call = await opened(entry(upstream.host))
    whole = Parameter(name="body", wire_name="body", location=Location.BODY)
    subject = sending(upstream.origin).model_copy(
        update={"parameters": (whole,), "body": RequestBody(whole=True, required=True)}
    )
    result = await call(subject, body=[1])
    failed(result, "bad_request")
    assert upstream.seen == []


MINE: tuple[Any, ...] = ("mine", ["mine", "mine too"], {"media_type": "image/png", "base64": "AAEC"})


@pytest.mark.parametrize("mine", MINE, ids=["text", "list", "file"])
@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_key_in_the_body_replaces_the_callers_field(
    upstream: Upstream, opened: Opener, media_type: str, mine: Any
) -> None:
    subject = sending(upstream.origin, media_type, parameter("body", "body"))
    subject = subject.model_copy(update={"body": RequestBody(media_type=media_type, whole=True, required=True)})
    call = await opened(entry(upstream.host))
    await call(subject, body={"tokens": "kept", "token": mine, "title": "--x\r\n"})
    seen = upstream.seen[0]
    fields: list[tuple[str, str]] = []
    if media_type == "application/json":
        fields = list(json.loads(seen.body).items())
    elif media_type.endswith("urlencoded"):
        fields = parse_qsl(seen.body.decode(), strict_parsing=True)
    else:
        size = str(len(seen.body)).encode()
        headers = {"Content-Type": seen.headers["Content-Type"].encode(), "Content-Length": size}

        def on_field(field: Any) -> None:
            fields.append((field.field_name.decode(), field.value.decode()))

        def on_file(file: Any) -> None:
            fields.append((file.field_name.decode(), "a file"))

        parse_form(headers, io.BytesIO(seen.body), on_field, on_file)
    assert sorted(fields) == [("title", "--x\r\n"), ("token", KEY), ("tokens", "kept")]


@pytest.mark.parametrize(("place", "name"), [("query", "the token"), ("query", "token"), ("cookie", "token")])
async def test_a_key_replaces_the_callers_parameter_of_that_name(
    upstream: Upstream, opened: Opener, place: str, name: str
) -> None:
    exploded = parameter("filter", place)  # each member of its value is a parameter of its own
    need = key_in(place).model_copy(update={"parameter": name})
    call = await opened({"test.token": {"value": "plain-key", "hosts": [upstream.host], "in": place, "name": name}})
    await call(api(upstream.origin, "/x", exploded, security=((need,),)), filter={"tokens": "kept", name: "mine"})
    seen = upstream.seen[0]
    sent = seen.target.partition("?")[2] if place == "query" else seen.headers["Cookie"].replace("; ", "&")
    assert parse_qs(sent) == {"tokens": ["kept"], name: ["plain-key"]}


@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_twin_asks_for_them(opened: Opener, media_type: str) -> None:
    in_body = sending("http://127.0.0.1:1", media_type)
    in_path = api("http://127.0.0.1:1", "/bot{token}/me", name="me", security=((key_in("path"),),))
    twin = Twin([in_body, in_path], KEY)
    with serving(create_app(twin)) as url:
        host = url.removeprefix("http://")
        for subject, place, arguments in ((in_body, "body", {"title": "x"}), (in_path, "path", {})):
            right, wrong = await opened(entry(host, place)), await opened(entry(host, place, "another-key"))
            moved = subject.model_copy(update={"server": url})
            accepted, refused = await right(moved, **arguments), await wrong(moved, **arguments)
            assert isinstance(accepted.outcome, Succeeded), accepted.outcome
            assert isinstance(refused.outcome, Failed)
            assert refused.outcome.status == 401
