"""HTTP Digest against a twin that enforces it, and against servers with challenges of their own."""

from typing import Any

import httpx2
import pytest
from aiohttp import web

from deploy.sockets import serving
from services.contracts.api import RequestBody
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, failed, needs, parameter
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener
from twin.digest import Challenges
from twin.main import create_app
from twin.received import Received
from twin.service import Twin

PASSWORD = "canary-s3cret-plain"
NEED = needs("digest")
CHALLENGE = 'Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256'


def entry(host: str, password: str = PASSWORD) -> dict[str, Any]:
    return {"test.it": {"username": "twin", "password": password, "hosts": [host]}}


async def test_a_twin_that_asks_for_it_is_called(opened: Opener) -> None:
    subject = api("http://127.0.0.1:1", "/things", parameter("q"), security=((NEED,),))
    twin = Twin([subject], PASSWORD)
    with serving(create_app(twin)) as url:
        host = url.removeprefix("http://")
        moved = subject.model_copy(update={"server": url})
        right, wrong = await opened(entry(host)), await opened(entry(host, "another-password"))
        result = await right(moved, q="a/b é'&=")
        assert isinstance(result.outcome, Succeeded), result.outcome
        assert [call.status for call in twin.calls] == [401, 200]
        assert result.request is not None
        assert result.request.headers["Authorization"] == "***"
        refused = await wrong(moved, q="x")
        assert isinstance(refused.outcome, Failed)
        assert refused.outcome.status == 401
        assert [call.status for call in twin.calls][2:] == [401, 401]
    assert PASSWORD not in f"{result!r} {refused!r}"


def test_an_answer_is_good_once_and_for_its_own_request() -> None:
    challenges = Challenges()
    flow = httpx2.DigestAuth("twin", PASSWORD).auth_flow(httpx2.Request("GET", "http://h/a?b=c"))
    request = next(flow)
    asked = httpx2.Response(401, headers={"WWW-Authenticate": challenges.new()}, request=request)
    shown = {"authorization": flow.send(asked).headers["Authorization"]}
    assert not challenges.met("twin", PASSWORD, Received("GET", "/a", "b=d", shown))
    assert not challenges.met("twin", PASSWORD, Received("PUT", "/a", "b=c", shown))
    assert not challenges.met("other", PASSWORD, Received("GET", "/a", "b=c", shown))
    assert challenges.met("twin", PASSWORD, Received("GET", "/a", "b=c", shown))
    assert not challenges.met("twin", PASSWORD, Received("GET", "/a", "b=c", shown))


@pytest.mark.parametrize(
    "shown", ["Digest", "Digest nc=zz", 'Digest nonce="n"', "Digest " + "a=b," * 500, "Digest é=ü"]
)
def test_broken_answers_are_refused(shown: str) -> None:
    assert not Challenges().met("twin", PASSWORD, Received("GET", "/", headers={"authorization": shown}))


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        ("Basic realm=x", "upstream_error"),  # the password is never sent in clear because a server asks for it
        ("Digest", "upstream_error"),
        ("Digest realm=x", "credential"),
        ("Digest nonsense", "credential"),
        ('Digest realm="r", nonce="n", algorithm=ROT13', "credential"),
        ('Digest realm="r", nonce="n", qop="auth-int"', "credential"),
        ('Digest realm="r", nonce="n", qop="other"', "credential"),
        (CHALLENGE, "upstream_error"),  # and again, whatever is shown: asked twice, not for ever
    ],
)
async def test_hostile_challenges_end_in_a_clear_failure(
    upstream: Upstream, opened: Opener, challenge: str, reason: str
) -> None:
    upstream.replies("/x", web.Response(status=401, headers={"WWW-Authenticate": challenge}))
    call = await opened(entry(upstream.host))
    result = await call(api(upstream.origin, "/x", security=((NEED,),)))
    failed(result, reason)
    assert len(upstream.seen) <= 2
    sent = " ".join(str(dict(seen.headers)) for seen in upstream.seen)
    assert "Basic" not in sent
    assert PASSWORD not in sent
    assert PASSWORD not in repr(result)


async def test_the_challenge_of_several_is_taken_and_kept_for_the_pages_of_a_call(
    upstream: Upstream, opened: Opener
) -> None:
    @upstream.on("/x")
    async def answer(seen: Seen) -> web.StreamResponse:
        if not seen.headers.get("Authorization", "").startswith("Digest "):
            response = web.Response(status=401)
            response.headers.add("WWW-Authenticate", "Bearer")
            response.headers.add("WWW-Authenticate", CHALLENGE)
            return response
        return web.json_response({"body": seen.body.decode()})

    call = await opened(entry(upstream.host))
    subject = api(
        upstream.origin, "/x", parameter("title", "body"), method="POST", body=RequestBody(), security=((NEED,),)
    )
    result = await call(subject, title="same")
    assert isinstance(result.outcome, Succeeded), result.outcome
    assert [seen.body for seen in upstream.seen] == [b'{"title":"same"}'] * 2
    assert "nc=00000001" in upstream.seen[1].headers["Authorization"]


async def test_it_goes_to_the_hosts_of_its_entry_alone(upstream: Upstream, opened: Opener) -> None:
    call = await opened(entry("elsewhere.example"))
    result = await call(api(upstream.origin, "/x", security=((NEED,),)))
    failed(result, "credential")
    assert upstream.seen == []
