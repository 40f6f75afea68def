"""Previews: exactly the requests that would go out, with names where values are not known yet."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from executor_svc.adapters.http import HttpAdapter, open_http_adapter
from executor_svc.models import Limits
from executor_svc.preview import previews, read_and_preview
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from executor_svc.values import ValueStore
from services.contracts.api import Api, RequestBody, SecretKind, SecurityRequirement
from services.contracts.outcome import Failed
from services.contracts.plan import ForEach, ListValue, ObjectValue, Value
from services.contracts.preview import RequestPreview
from tests.support.executing import api, compiled, item, literal, parameter, ref, step

ORIGIN = "https://api.example.com/v1"
ROOM = parameter("room", "path")
NIGHTS = parameter("nights", "body")
GUESTS = parameter("guests", "body")
TAG = parameter("tag", "query")
BOOK = api(ORIGIN, "/rooms/{room}", ROOM, NIGHTS, GUESTS, TAG, method="POST", body=RequestBody(), name="book")
READ = api(ORIGIN, "/rooms", name="rooms")


@pytest.fixture
async def adapter() -> AsyncIterator[HttpAdapter]:
    secrets = {"test.key": {"value": "canary-secret-value", "hosts": ["api.example.com"]}}
    store = SecretStore.load(None, SecretStr(json.dumps(secrets)))
    async with open_http_adapter(ExecutorSettings(), store) as opened:
        yield opened


def shown(adapter: HttpAdapter, called: Api, arguments: dict[str, Value], **more: Any) -> RequestPreview:
    plan = compiled([READ, called], step("var1", READ), step("a", called, arguments, **more), mutating=("a",))
    (only,) = previews(plan, adapter).requests
    return only


def test_known_values_give_the_request_itself(adapter: HttpAdapter) -> None:
    preview = shown(adapter, BOOK, {"room": literal("blue/1"), "nights": literal(3), "tag": literal("a b")})
    assert preview.request.method == "POST"
    assert preview.request.url == f"{ORIGIN}/rooms/blue%2F1?tag=a%20b"
    assert preview.request.body == {"nights": 3}
    assert (preview.complete, preview.foreach, preview.problem) == (True, None, "")


def test_unknown_values_are_named_where_they_would_stand(adapter: HttpAdapter) -> None:
    guests = ListValue(items=(literal("Ana"), ObjectValue(fields={"name": ref("var1", "items", 0, "name")})))
    preview = shown(adapter, BOOK, {"room": ref("var1", "items", 0, "id"), "guests": guests, "tag": ref("var1", "tag")})
    assert preview.request.url == f"{ORIGIN}/rooms/{{var1.items[0].id}}?tag={{var1.tag}}"
    assert preview.request.body == {"guests": ["Ana", {"name": "{var1.items[0].name}"}]}
    assert not preview.complete


def test_thousands_of_unknown_values_are_named_in_one_pass(adapter: HttpAdapter) -> None:
    """Each text was searched for each name, on the event loop."""
    guests = ListValue(items=tuple(ref("var1", f"k{number}") for number in range(9_000)))
    began = time.thread_time()
    preview = shown(adapter, BOOK, {"room": literal("blue"), "guests": guests})
    assert time.thread_time() - began < 1.0
    assert preview.request.body == {"guests": [f"{{var1.k{number}}}" for number in range(9_000)]}


def test_names_may_stand_beside_each_other_and_beside_text_like_them(adapter: HttpAdapter) -> None:
    like = f"nestor{'0' * 26}"
    guests = ListValue(items=(literal(like), ref("var1", "a"), literal(f"{like}0")))
    preview = shown(adapter, BOOK, {"room": ListValue(items=(ref("var1", "a"), literal("0"))), "guests": guests})
    assert preview.request.url == f"{ORIGIN}/rooms/{{var1.a}},0"
    assert preview.request.body == {"guests": [like, "{var1.a}", f"{like}0"]}


def test_text_that_looks_like_a_name_stays_text(adapter: HttpAdapter) -> None:
    preview = shown(adapter, BOOK, {"room": literal("{var1.id}"), "nights": literal("{item}")})
    assert preview.request.url == f"{ORIGIN}/rooms/%7Bvar1.id%7D"
    assert preview.request.body == {"nights": "{item}"}
    assert preview.complete


@pytest.mark.parametrize(
    ("items", "named"),
    [(ref("var1", "items"), "{var1.items}"), (ref("var1"), "{var1}")],
)
def test_a_foreach_shows_one_request_and_its_list(adapter: HttpAdapter, items: Value, named: str) -> None:
    preview = shown(adapter, BOOK, {"room": item(), "nights": item("nights")}, foreach=ForEach(items=items))
    assert preview.request.url == f"{ORIGIN}/rooms/{{item}}"
    assert preview.request.body == {"nights": "{item.nights}"}
    assert (preview.complete, preview.foreach) == (False, named)


def test_a_foreach_over_a_known_list_shows_each_request(adapter: HttpAdapter) -> None:
    plan = compiled(
        [BOOK],
        step("a", BOOK, {"room": item(), "nights": literal(1)}, foreach=ForEach(items=literal(["red", "blue"]))),
        mutating=("a",),
    )
    answer = previews(plan, adapter)
    assert [shown.request.url for shown in answer.requests] == [f"{ORIGIN}/rooms/red", f"{ORIGIN}/rooms/blue"]
    assert [(s.item, s.calls, s.complete, s.foreach) for s in answer.requests] == [
        (0, 2, True, '["red", "blue"]'),
        (1, 2, True, '["red", "blue"]'),
    ]
    assert answer.settled


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_forms_are_shown_as_their_fields(adapter: HttpAdapter, media_type: str) -> None:
    form = api(ORIGIN, "/f", NIGHTS, GUESTS, method="POST", body=RequestBody(media_type=media_type), name="form")
    preview = shown(adapter, form, {"nights": ref("var1", "n"), "guests": literal("Ana")})
    assert preview.request.body == {"nights": "{var1.n}", "guests": "Ana"}


def test_bytes_and_documents_that_are_not_known_yet(adapter: HttpAdapter) -> None:
    upload = ObjectValue(fields={"media_type": literal("image/png"), "base64": ref("var1", "file", "base64")})
    form = api(ORIGIN, "/f", NIGHTS, method="POST", body=RequestBody(media_type="multipart/form-data"), name="form")
    assert shown(adapter, form, {"nights": upload}).request.body == {
        "nights": {"media_type": "image/png", "base64": "{var1.file.base64}"}
    }
    document = TAG.model_copy(update={"media_type": "application/json"})
    found = api(ORIGIN, "/d", document, method="POST", name="document")
    preview = shown(adapter, found, {"tag": ListValue(items=(literal("a"), ref("var1", "tag")))})
    assert preview.request.url == f"{ORIGIN}/d?tag=%5B%22a%22%2C%22{{var1.tag}}%22%5D"


def test_what_cannot_be_built_says_why(adapter: HttpAdapter) -> None:
    preview = shown(adapter, BOOK, {"room": literal(""), "nights": literal(1)})
    assert "must not be empty" in preview.problem
    assert not preview.complete


def test_no_secret_is_confirmed_and_no_made_up_key_is_shown(adapter: HttpAdapter) -> None:
    security = ((SecurityRequirement(scheme="key", kind=SecretKind.API_KEY, secret="test.key"),),)
    keyed = api(
        ORIGIN, "/k", NIGHTS, method="POST", body=RequestBody(), security=security, idempotency_header="Idempotency-Key"
    )
    preview = shown(adapter, keyed, {"nights": literal("canary-secret-value")})
    assert preview.request.headers["Idempotency-Key"] == "{one for each call}"
    assert preview.request.body == {"nights": "canary-secret-value"}  # what somebody wrote, right or wrong
    assert "***" not in preview.model_dump_json()


def test_reads_are_shown_only_where_they_wait_for_an_approval(adapter: HttpAdapter) -> None:
    plan = compiled([READ], step("var1", READ), step("var2", READ), approvals=("var2",))
    assert [preview.step for preview in previews(plan, adapter).requests] == ["var2"]


def test_no_part_of_a_large_body_is_left_out(adapter: HttpAdapter) -> None:
    """Padding hides nothing from the person who approves."""
    arguments: dict[str, Value] = {"room": literal("red"), "guests": literal("x" * 1_000_000)}
    (preview,) = previews(compiled([BOOK], step("var1", BOOK, arguments), mutating=("var1",)), adapter).requests
    assert preview.complete
    assert preview.request.body == {"guests": "x" * 1_000_000}


def test_of_loops_with_large_bodies_fewer_calls_are_shown(
    adapter: HttpAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of 1 MB may make a thousand calls with 60 kB each."""
    monkeypatch.setattr("executor_svc.preview._MAX_SHOWN_BYTES", 11_000)
    loop = ForEach(items=literal(list(range(50))))
    arguments: dict[str, Value] = {"room": literal("blue"), "guests": literal("x" * 1_000)}
    steps = [step(name, BOOK, arguments, foreach=loop) for name in ("a", "b", "c")]
    shown = previews(compiled([BOOK], *steps, mutating=("a", "b", "c")), adapter).requests
    assert [(one.step, one.item, one.calls, one.problem) for one in shown[5:]] == [
        ("a", 5, 50, ""),
        ("a", 6, 50, ""),
        ("b", 0, 50, ""),
        ("c", 0, 50, ""),
    ]


async def test_a_plan_whose_requests_are_too_large_to_be_shown_cannot_be_approved(adapter: HttpAdapter) -> None:
    """No body is cut, so the size of what is shown is bounded by refusing the rest."""
    arguments: dict[str, Value] = {"room": literal("blue"), "guests": literal("x" * 1_000_000)}
    names = [f"s{index}" for index in range(10)]
    plan = compiled([BOOK], *(step(name, BOOK, arguments) for name in names), mutating=tuple(names))
    answer = previews(plan, adapter)
    assert [one.step for one in answer.requests] == names
    assert ["too large" in one.problem for one in answer.requests] == [False] * 4 + [True] * 6
    assert not answer.settled
    assert not any(one.complete for one in answer.requests[4:])
    assert len(answer.model_dump_json()) < 4_200_000
    limits = Limits(10, 10, 100)
    value_store = ValueStore(lambda _: None, 1_000)
    read = await read_and_preview(plan, adapter, value_store, limits, "preview-1", adapter.workers)
    assert read.failed is not None
    assert read.requests == ()
    assert [isinstance(record.outcome, Failed) for record in read.failed.records] == [False] * 4 + [True] * 6
