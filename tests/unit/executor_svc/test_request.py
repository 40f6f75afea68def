"""Requests from operations: nothing an argument holds may change what is asked of whom."""

import re
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_svc.adapters.http.request import BadRequest, Credentials, HttpRequest, build_request, idempotency_key
from executor_svc.masking import Masker
from services.contracts.api import Api, RequestBody
from tests.support.executing import api, parameter

SERVER = "https://api.example.com/v1"
NONE = Credentials()


def build(built: Api, /, **arguments: Any) -> HttpRequest:
    return build_request(built, arguments, "run/step")


def url(built: Api, /, **arguments: Any) -> str:
    return str(build(built, **arguments).url(NONE))


ITEM = api(SERVER, "/items/{id}", parameter("id", "path"))


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("a/b", "a%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("a b", "a%20b"),
        ("ü", "%C3%BC"),
        ("%2F", "%252F"),
        ("a;b=c", "a%3Bb%3Dc"),
        ("...", "..."),
        (".hidden", ".hidden"),
        (5, "5"),
        (True, "true"),
        ("a\r\nb", "a%0D%0Ab"),
        ("@evil.com", "%40evil.com"),
    ],
)
def test_a_path_argument_stays_one_segment(value: Any, sent: str) -> None:
    assert url(ITEM, id=value) == f"{SERVER}/items/{sent}"


@pytest.mark.parametrize(
    "value",
    [
        *("", None, [], {}, [""], ".", "..", "../x", "x/..", "a/../b", "..\\x", "a/./b"),
        *("..;/x", "..;a=b/x", "%2e%2e/x", "%2e%2e%2fx", "%252E%252E%252Fx"),
    ],
)
def test_a_path_argument_that_would_change_the_path_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest):
        build(ITEM, id=value)


@given(st.text(min_size=1).filter(lambda text: text.isascii() or text.encode("utf-8", "ignore").decode() == text))
def test_any_path_text_is_refused_or_comes_back_whole(text: str) -> None:
    try:
        built = build(ITEM, id=text)
    except BadRequest:
        assert {".", ".."} & {
            part.partition(";")[0] for part in re.split(r"[/\\]|%2f|%5c", text.lower())
        } or "%" in text
        return
    segments = built.path.split("/")
    assert len(segments) == 4
    assert unquote(segments[-1]) == text


def test_label_and_matrix_and_two_in_a_segment() -> None:
    path = "/{l}/{m}/{a},{b}.json"
    parts = (
        parameter("l", "path", "label"), parameter("m", "path", "matrix", explode=True),
        parameter("a", "path"), parameter("b", "path"),
    )  # fmt: skip
    assert (
        url(api(SERVER, path, *parts), l=["x", "y"], m=[1, 2], a="p,q", b=2) == f"{SERVER}/.x,y/;m=1;m=2/p%2Cq,2.json"
    )


def test_arguments_are_not_substituted_twice() -> None:
    path = api(SERVER, "/{a}/{b}", parameter("a", "path"), parameter("b", "path"))
    assert url(path, a="{b}", b="x") == f"{SERVER}/%7Bb%7D/x"


def test_a_query_in_the_documents_own_path_is_kept() -> None:
    assert url(api(SERVER, "/?Action=List#X", parameter("q")), q="a&b=c") == f"{SERVER}/?Action=List&q=a%26b%3Dc"


def test_null_is_not_given() -> None:
    assert url(api(SERVER, "/x", parameter("q"), parameter("r")), q=None, r="") == f"{SERVER}/x?r="


@pytest.mark.parametrize(
    "server",
    ["", "/relative", "ftp://x", "file:///etc/passwd", "http://", "https://u:p@x", "http://x?y=1", "http://x#y", "http://x:99999",
     "http://[::1", "javascript:alert(1)", "https://u@x"],
)  # fmt: skip
def test_servers_that_are_no_http_origin_are_refused(server: str) -> None:
    with pytest.raises(BadRequest, match="server"):
        build(api(server, "/x"))


def test_international_hosts_are_sent_in_their_ascii_form() -> None:
    assert url(api("https://bücher.example/", "/x")) == "https://xn--bcher-kva.example/x"


@pytest.mark.parametrize(
    "name", ["Host", "Content-Length", "Transfer-Encoding", "Connection", "X Y", "X:Y", "X\r\nY", "ü"]
)
def test_headers_of_the_connection_and_broken_names_are_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="header"):
        build(api(SERVER, "/x", parameter(name, "header")), **{name: "1"})


def test_headers_that_the_specification_ignores_are_ignored() -> None:
    parts = [parameter(name, "header") for name in ("Accept", "content-type", "Authorization", "X-Ok")]
    headers = build(api(SERVER, "/x", *parts), **{p.name: "v" for p in parts}).all_headers(NONE)
    assert headers == {"Accept": "application/json, */*;q=0.1", "X-Ok": "v"}


def test_header_injection_is_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="argument 'X-A' cannot be sent: a header"):
        build(api(SERVER, "/x", parameter("X-A", "header")), **{"X-A": "1\r\nX-Evil: 1"})


def test_unknown_and_missing_arguments() -> None:
    with pytest.raises(BadRequest, match="takes no argument 'nope'"):
        build(ITEM, id=1, nope=2)
    with pytest.raises(BadRequest, match="needs the argument 'id'"):
        build(ITEM)


def post(media_type: str, *names: str, whole: bool = False, required: bool = True, **styles: str) -> Api:
    parts = [parameter(name, "body", styles.get(name)) for name in names]
    body = RequestBody(media_type=media_type, whole=whole, required=required)
    return api(SERVER, "/x", *parts, method="POST", body=body)


def content(built: Api, /, **arguments: Any) -> tuple[bytes, str]:
    body = build(built, **arguments).body
    assert body is not None
    return body.content, body.media_type


def test_json_bodies() -> None:
    assert content(post("application/json", "a", "b"), a=[1, None], b={"ü": 2**70}) == (
        '{"a":[1,null],"b":{"ü":1180591620717411303424}}'.encode(), "application/json",
    )  # fmt: skip
    assert content(post("application/vnd.api+json", "body", whole=True), body=None)[0] == b"null"
    assert content(post("application/json", "a"))[0] == b"{}"
    assert build(post("application/json", "a", required=False)).body is None


def test_form_bodies() -> None:
    form = post("application/x-www-form-urlencoded", "a", "b", "c", "d", d="deepObject")
    sent = content(form, a="x y&z=1", b=[1, 2], c={"k": 1}, d={"k": "v"})
    assert sent == (b"a=x%20y%26z%3D1&b=1&b=2&c=%7B%22k%22%3A1%7D&d%5Bk%5D=v", "application/x-www-form-urlencoded")


def test_text_and_binary_bodies() -> None:
    assert content(post("text/plain", "body", whole=True), body="grüß") == ("grüß".encode(), "text/plain")
    image = {"media_type": "image/png", "base64": "AAEC"}
    assert content(post("image/png", "body", whole=True), body=image) == (b"\0\1\2", "image/png")
    for wrong in ({"a": 1}, {"media_type": "image/png", "base64": "?"}, 5):
        with pytest.raises(BadRequest):
            build(post("image/png", "body", whole=True), body=wrong)


def test_a_body_with_a_lone_surrogate_is_refused() -> None:
    for media_type in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data"):
        with pytest.raises(BadRequest, match="surrogate"):
            build(post(media_type, "a"), a="\ud800")


def test_the_record_masks_credentials_and_leaves_large_bodies_out() -> None:
    credentials = Credentials({"Authorization": "Bearer canary"}, {"key": "canary"}, {"sid": "canary"})
    built = build(post("application/json", "a"), a="x" * 100_000)
    record = built.record(credentials, Masker(()))
    assert "canary" not in record.model_dump_json()
    assert record.url == f"{SERVER}/x?key=***"
    assert record.headers["Authorization"] == record.headers["Cookie"].removeprefix("sid=") == "***"
    assert record.body == "(100008 bytes, not kept)"
    assert "canary" not in repr(credentials)


def test_a_key_is_sent_where_the_operation_honours_one() -> None:
    assert build(api(SERVER, "/x", method="POST", idempotency_header="Idempotency-Key")).headers[
        "Idempotency-Key"
    ] == idempotency_key("run/step")
