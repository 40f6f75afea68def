"""Credentials that change how a request is sent: signatures of AWS, and client certificates."""

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr
from yarl import URL

from executor_svc.adapters.http.sigv4 import signed
from executor_svc.secret_store import AwsKey
from services.contracts.api import SecretKind, SecurityRequirement
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, parameter
from tests.support.upstream import Upstream
from tests.unit.executor_svc.conftest import Opener

KEY_ID, KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


def key(token: str | None = None, **more: Any) -> AwsKey:
    session = None if token is None else SecretStr(token)
    return AwsKey(
        access_key_id=KEY_ID, secret_access_key=SecretStr(KEY), session_token=session, hosts=("x.example",), **more
    )


@pytest.mark.parametrize(
    ("method", "url", "body", "content_type", "token", "signature"),
    [
        ("GET", "https://ec2.eu-west-1.amazonaws.com/?Action=DescribeRegions&Version=2013-10-15&b=%C3%BC%20x&a=1",
         b"", None, None, "3beb3fefaed70bc8ec5ced9b168c5e298bd0cbd3fb51e8d186605e30bbe4a993"),
        ("GET", "https://my-bucket.s3.eu-central-1.amazonaws.com/a%20b/c%2Bd.txt?list-type=2&prefix=x%2Fy",
         b"", None, None, "f9d51a05447014137785303ba32f110ddad083b64e5880a7c488dbb7e0ba5507"),
        ("POST", "https://dynamodb.us-west-2.amazonaws.com/", b'{"a":1}', "application/x-amz-json-1.0", None,
         "f18c635d98e3dff0ada325b28745d1d0d8688708bfc3d739d1ea81788d16f288"),
        ("GET", "https://lambda.us-east-1.amazonaws.com/2015-03-31/functions/arn%3Aaws%3Alambda%3Ax/code",
         b"", None, "tok/en+1", "828bf661c4ecebafbed6aaceef0b4c56791cc4777a50d35c080b4ca3a2f15ab3"),
        ("GET", "https://iam.amazonaws.com/?Action=ListUsers&flag=", b"", None, None,
         "dc5abdc784ae4957f54d53013fa925480d942b0588bfd6389be6a2bc497a6f86"),
        ("POST", "https://email.us-east-1.amazonaws.com/v2", b"x=1&y=2",
         "application/x-www-form-urlencoded; charset=utf-8", None,
         "1a19bbe523a479216f39434eafc4a93992327c600870b659da0f10e341bec609"),
        ("GET", "http://s3.us-east-1.amazonaws.com:8080/b//k", b"", None, None,
         "18eddf73fe8070937d9bdf7cb8ad8ee98eec7d4a8632ed6b6b173568f2a8949b"),
    ],
)  # fmt: skip
def test_signatures_are_those_of_botocore(
    method: str, url: str, body: bytes, content_type: str | None, token: str | None, signature: str
) -> None:
    headers = {"Accept": "*/*"} | ({"Content-Type": content_type} if content_type else {})
    added = signed(key(token), method, URL(url, encoded=True), headers, body, NOW)
    assert added["Authorization"].rpartition("Signature=")[2] == signature
    assert added["X-Amz-Date"] == "20150830T123600Z"


def test_region_and_service_of_the_entry_win() -> None:
    own = key(region="eu-north-1", service="execute-api")
    proof = signed(own, "GET", URL("https://api.example.com/"), {}, b"", NOW)["Authorization"]
    assert f"Credential={KEY_ID}/20150830/eu-north-1/execute-api/aws4_request" in proof


async def test_a_signed_call_arrives_and_leaks_nothing(upstream: Upstream, opened: Opener) -> None:
    call = await opened({"aws.hmac": {"access_key_id": KEY_ID, "secret_access_key": KEY, "hosts": [upstream.host]}})
    need = SecurityRequirement(scheme="hmac", kind=SecretKind.AWS_SIGV4, secret="aws.hmac")
    result = await call(api(upstream.origin, "/x", parameter("q"), security=((need,),)), q="ü /")
    (seen,) = upstream.seen
    at = datetime.strptime(seen.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    again = signed(key(), "GET", URL(upstream.origin + seen.target, encoded=True), {}, b"", at)
    assert seen.headers["Authorization"] == again["Authorization"]
    assert result.request is not None
    assert result.request.headers["Authorization"] == "***"
    assert KEY not in repr(result)


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`server` and `client`, each with its key; the authority of both is `server`."""
    folder = tmp_path_factory.mktemp("tls")
    made = ["req", "-newkey", "rsa:2048", "-nodes"]
    server, client = folder / "server", folder / "client"
    named = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    openssl(*made, "-x509", "-days", "2", *named, "-keyout", f"{server}.key", "-out", f"{server}.pem")
    openssl(*made, "-subj", "/CN=client-canary", "-keyout", f"{client}.key", "-out", f"{client}.csr")
    authority = ["-CA", f"{server}.pem", "-CAkey", f"{server}.key", "-CAcreateserial", "-days", "2"]
    openssl("x509", "-req", "-in", f"{client}.csr", *authority, "-out", f"{client}.pem")
    return folder


async def test_a_client_certificate_is_presented(certificates: Path, opened: Opener) -> None:
    shown = list[Any]()

    async def answer(request: web.Request) -> web.StreamResponse:
        shown.append(request.transport.get_extra_info("peercert") if request.transport else None)
        return web.json_response({"ok": True})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "server.pem"))
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/x", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    host = f"127.0.0.1:{runner.addresses[0][1]}"
    need = SecurityRequirement(scheme="mtls", kind=SecretKind.MUTUAL_TLS, secret="bank.mtls")
    entry = {name: str(certificates / file) for name, file in
             (("certificate", "client.pem"), ("key", "client.key"), ("authority", "server.pem"))}  # fmt: skip
    try:
        call = await opened({"bank.mtls": entry | {"hosts": [host]}})
        assert isinstance((await call(api(f"https://{host}", "/x", security=((need,),)))).outcome, Succeeded)
        assert ("commonName", "client-canary") in [pair for field in shown[0]["subject"] for pair in field]
        without = await opened({"bank.mtls": entry | {"hosts": [host], "key": str(certificates / "none.key")}})
        outcome = (await without(api(f"https://{host}", "/x", security=((need,),)))).outcome
        assert isinstance(outcome, Failed)
        assert "certificate of 'bank.mtls' cannot be used: FileNotFoundError" in outcome.message
    finally:
        await runner.cleanup()


async def test_a_client_certificate_needs_tls(upstream: Upstream, opened: Opener, certificates: Path) -> None:
    pair = {"certificate": str(certificates / "client.pem"), "key": str(certificates / "client.key")}
    need = SecurityRequirement(scheme="mtls", kind=SecretKind.MUTUAL_TLS, secret="bank.mtls")
    call = await opened({"bank.mtls": pair | {"hosts": [upstream.host]}})
    outcome = (await call(api(upstream.origin, "/x", security=((need,),)))).outcome
    assert isinstance(outcome, Failed)
    assert "does not use TLS" in outcome.message
    assert upstream.seen == []


@pytest.mark.parametrize(
    ("entry", "where", "value"),
    [
        ({"value": "other-canary"}, "Authorization", "Bearer other-canary"),
        ({"value": "other-canary", "header": "X-Secret"}, "X-Secret", "other-canary"),
        ({"value": "other-canary", "cookie": "sid"}, "Cookie", "sid=other-canary"),
        ({"username": "ada", "password": "other-canary"}, "Authorization", "Basic YWRhOm90aGVyLWNhbmFyeQ=="),
    ],
)
async def test_a_scheme_the_document_does_not_declare(
    upstream: Upstream, opened: Opener, entry: dict[str, str], where: str, value: str
) -> None:
    call = await opened({"odd.it": entry | {"hosts": [upstream.host]}})
    need = SecurityRequirement.model_validate({"scheme": "it", "kind": "unsupported", "secret": "odd.it"})
    result = await call(api(upstream.origin, "/x", security=((need,),)))

    assert upstream.seen[0].headers[where] == value
    assert "canary" not in repr(result)
