"""What is sent again, what is not, and what is in doubt afterwards: against real upstreams on real sockets."""

import email.utils
import time

import pytest
from aiohttp import web

from executor_svc.models import CallResult
from services.contracts.api import Location, SecretKind, SecurityRequirement
from services.contracts.outcome import Failed, InDoubt, Succeeded
from tests.support.executing import api, failed
from tests.support.upstream import Broken, Upstream, serve_raw
from tests.unit.executor_svc.conftest import Opener

KEY = "Idempotency-Key"


def doubt(result: CallResult) -> str:
    assert isinstance(result.outcome, InDoubt), result.outcome
    return result.outcome.message


@pytest.mark.parametrize(("method", "header"), [("GET", None), ("PUT", None), ("DELETE", None), ("POST", KEY)])
async def test_what_may_be_sent_twice_is_sent_again_when_the_connection_is_lost(
    opened: Opener, method: str, header: str | None
) -> None:
    script = Broken(2)
    async with serve_raw(script) as host:
        result = await (await opened())(api(f"http://{host}", "/", method=method, idempotency_header=header))
    assert result.outcome == Succeeded(value={}, status=200)
    assert (result.attempts, len(script.seen)) == (3, 3)


async def test_attempts_are_bounded(opened: Opener) -> None:
    script = Broken(99)
    async with serve_raw(script) as host:
        result = await (await opened(max_attempts=2))(api(f"http://{host}", "/"))
    assert failed(result, "connection").message == "the connection was lost"
    assert len(script.seen) == result.attempts == 2


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_any_other_call_that_was_sent_is_in_doubt_and_never_sent_again(opened: Opener, method: str) -> None:
    script = Broken(1)
    async with serve_raw(script) as host:
        result = await (await opened())(api(f"http://{host}", "/", method=method))
    assert doubt(result) == "the request was sent, but the connection was lost"
    assert len(script.seen) == result.attempts == 1


async def test_with_a_key_it_is_sent_again_under_the_same_key(opened: Opener) -> None:
    script = Broken(2)
    async with serve_raw(script) as host:
        call = await opened()
        operation = api(f"http://{host}", "/", method="POST", idempotency_header=KEY)
        first, _ = await call(operation, key="r/s/0"), await call(operation, key="r/s/1")
    keys = [next(line for line in head.split(b"\r\n") if line.startswith(b"Idempotency-Key")) for head in script.seen]
    assert isinstance(first.outcome, Succeeded)
    assert len(keys) == 4
    assert keys[0] == keys[1] == keys[2] != keys[3]


@pytest.mark.parametrize(("method", "header"), [("PUT", None), ("DELETE", None), ("POST", KEY)])
async def test_doubt_stays_where_no_attempt_answers(opened: Opener, method: str, header: str | None) -> None:
    async with serve_raw(Broken(99)) as host:
        result = await (await opened())(api(f"http://{host}", "/", method=method, idempotency_header=header))
    assert doubt(result) == "the request was sent, but the connection was lost"
    assert result.attempts == 3


@pytest.mark.parametrize("status", [404, 409, 410, 412, 500])
async def test_after_a_doubtful_attempt_a_refusal_is_no_failure(opened: Opener, status: int) -> None:
    async with serve_raw(Broken(1, status)) as host:
        result = await (await opened())(api(f"http://{host}", "/", method="DELETE"))
    lost = "the request was sent, but the connection was lost"
    assert doubt(result) == f"{lost}; after that: the upstream answered {status}"
    assert result.attempts == 2


async def test_a_refused_connection_is_tried_again_for_any_method(opened: Opener) -> None:
    async with serve_raw(Broken(0)) as host:
        pass
    for method in ("GET", "POST"):
        result = await (await opened())(api(f"http://{host}", "/", method=method))
        assert failed(result, "connection").message.startswith(f"no connection to {host}: ")
        assert result.attempts == 3


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_upstream_is_asked_again_as_it_wishes(upstream: Upstream, opened: Opener, status: int) -> None:
    upstream.replies("/b", web.Response(status=status, headers={"Retry-After": "0"}), {"done": True})
    result = await (await opened())(api(upstream.origin, "/b"))
    assert result.outcome == Succeeded(value={"done": True}, status=200)
    assert result.attempts == 2


@pytest.mark.parametrize("retry_after", ["soon", "", "-1", "1.5"])
@pytest.mark.parametrize(("status", "attempts"), [(502, 3), (503, 3), (504, 3), (429, 1), (500, 1), (501, 1)])
async def test_without_a_time_only_what_passes_is_asked_again(
    upstream: Upstream, opened: Opener, status: int, attempts: int, retry_after: str
) -> None:
    upstream.replies("/b", web.Response(status=status, headers={"Retry-After": retry_after}))
    result = await (await opened())(api(upstream.origin, "/b"))
    assert failed(result, "upstream_error").status == status
    assert result.attempts == upstream.count("/b") == attempts


_IN_AN_HOUR = email.utils.formatdate(time.time() + 3600, usegmt=True)


@pytest.mark.parametrize("retry_after", ["3600", _IN_AN_HOUR, "9" * 99], ids=["seconds", "date", "too many digits"])
async def test_a_wait_beyond_the_deadline_is_not_begun(upstream: Upstream, opened: Opener, retry_after: str) -> None:
    upstream.replies("/b", web.Response(status=503, headers={"Retry-After": retry_after}))
    result = await (await opened())(api(upstream.origin, "/b"))
    assert failed(result, "upstream_error").status == 503
    assert result.attempts == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_busy_and_mutating_is_sent_again_only_with_a_key(upstream: Upstream, opened: Opener, status: int) -> None:
    call = await opened()
    for path, header, attempts in (("/k", KEY, 2), ("/n", None, 1)):
        upstream.replies(path, web.Response(status=status, headers={"Retry-After": "0"}), {"done": True})
        result = await call(api(upstream.origin, path, method="POST", idempotency_header=header))
        assert (result.attempts, upstream.count(path)) == (attempts, attempts)


@pytest.mark.parametrize("status", [502, 504, 520, 524])
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_gateway_that_does_not_know_puts_a_mutating_call_in_doubt(
    upstream: Upstream, opened: Opener, status: int, method: str
) -> None:
    upstream.replies("/g", web.Response(status=status))
    call = await opened()
    said = f"a gateway answered {status}, which does not show whether the call took effect"
    assert doubt(await call(api(upstream.origin, "/g", method=method))) == said
    failed(await call(api(upstream.origin, "/g")), "upstream_error")


@pytest.mark.parametrize("status", [400, 404, 429, 500, 501, 503])
async def test_an_answer_of_the_service_itself_leaves_no_doubt(upstream: Upstream, opened: Opener, status: int) -> None:
    upstream.replies("/e", web.Response(status=status))
    result = await (await opened())(api(upstream.origin, "/e", method="POST"))
    assert failed(result, "upstream_error").status == status


async def test_a_success_after_a_gateway_that_did_not_know_is_one(upstream: Upstream, opened: Opener) -> None:
    upstream.replies("/g", web.Response(status=502), {"done": True})
    result = await (await opened())(api(upstream.origin, "/g", method="PUT"))
    assert result.outcome == Succeeded(value={"done": True}, status=200)


async def test_retries_have_a_budget(upstream: Upstream, opened: Opener) -> None:
    """Of a host that always fails, about a fifth of the calls are repeated once the reserve is spent."""
    upstream.replies("/b", web.Response(status=503))
    call = await opened(circuit_failures=1_000, retry_base_s=1e-6)
    calls = 100
    attempts = sum([(await call(api(upstream.origin, "/b"))).attempts for _ in range(calls)])
    assert attempts == upstream.count("/b")
    assert 20 <= attempts - calls <= 10 + 20 + 5  # the reserve, a fifth, and what is refilled within five seconds


class TestCircuit:
    """A host that keeps failing is left alone."""

    async def test_it_opens_closes_again_and_says_until_when(self, upstream: Upstream, opened: Opener) -> None:
        upstream.replies("/f", web.Response(status=500))
        call = await opened(circuit_failures=3, circuit_open_s=0.2, max_attempts=1)
        for _ in range(3):
            failed(await call(api(upstream.origin, "/f")), "upstream_error")
        result = await call(api(upstream.origin, "/x", method="POST"))
        message = failed(result, "circuit_open").message
        assert message.startswith(f"{upstream.host} failed too often in a row; nothing is sent to it until 20")
        assert (result.attempts, upstream.count("/x")) == (0, 0)
        while isinstance((result := await call(api(upstream.origin, "/x"))).outcome, Failed):
            failed(result, "circuit_open")
        assert isinstance((await call(api(upstream.origin, "/x"))).outcome, Succeeded)

    @pytest.mark.parametrize("status", [200, 404, 429])
    async def test_answers_that_a_healthy_host_gives_keep_it_closed(
        self, upstream: Upstream, opened: Opener, status: int
    ) -> None:
        upstream.replies("/f", web.Response(status=500))
        upstream.replies("/o", web.json_response({}, status=status))
        call = await opened(circuit_failures=2, max_attempts=1)
        for _ in range(4):
            failed(await call(api(upstream.origin, "/f")), "upstream_error")
            await call(api(upstream.origin, "/o"))
        assert upstream.count("/f") == 4

    async def test_lost_connections_open_it_too(self, opened: Opener) -> None:
        script = Broken(99)
        async with serve_raw(script) as host:
            call = await opened(circuit_failures=2, max_attempts=1, circuit_open_s=60)
            for _ in range(2):
                failed(await call(api(f"http://{host}", "/")), "connection")
            failed(await call(api(f"http://{host}", "/")), "circuit_open")
        assert len(script.seen) == 2

    async def test_it_takes_no_doubt_away(self, opened: Opener) -> None:
        """The first attempt opens it, so the second is not made; the first may have had an effect all the same."""
        script = Broken(99)
        async with serve_raw(script) as host:
            call = await opened(circuit_failures=1, circuit_open_s=60)
            operation = api(f"http://{host}", "/", method="PUT")
            result = await call(operation)
            assert doubt(result) == "the request was sent, but the connection was lost"
            assert len(script.seen) == result.attempts == 1
            failed(await call(operation), "circuit_open")
            assert "an earlier process may have sent the request" in doubt(await call(operation, resent=True))

    async def test_one_host_does_not_answer_for_another(self, upstream: Upstream, opened: Opener) -> None:
        call = await opened(circuit_failures=1, circuit_open_s=60)
        async with serve_raw(Broken(99)) as host:
            await call(api(f"http://{host}", "/"))
        assert isinstance((await call(api(upstream.origin, "/x"))).outcome, Succeeded)


class TestResent:
    """A call that a former process may have sent: whatever now fails, it may have worked."""

    async def test_a_success_is_certain(self, upstream: Upstream, opened: Opener) -> None:
        result = await (await opened())(api(upstream.origin, "/x", method="PUT"), resent=True)
        assert isinstance(result.outcome, Succeeded)

    async def test_a_refusal_is_not(self, upstream: Upstream, opened: Opener) -> None:
        upstream.replies("/x", web.Response(status=404))
        result = await (await opened())(api(upstream.origin, "/x", method="DELETE"), resent=True)
        assert doubt(result) == "an earlier process may have sent the request; after that: the upstream answered 404"

    async def test_nor_is_a_missing_credential(self, upstream: Upstream, opened: Opener) -> None:
        needs = SecurityRequirement(
            scheme="k", kind=SecretKind.API_KEY, secret="none", location=Location.HEADER, parameter="X-Key"
        )
        call = await opened()
        operation = api(upstream.origin, "/x", method="PUT", security=((needs,),))
        assert "the secret 'none' is not configured" in doubt(await call(operation, resent=True))
        failed(await call(operation), "credential")
        assert upstream.seen == []

    async def test_nor_is_a_request_that_cannot_be_built(self, upstream: Upstream, opened: Opener) -> None:
        result = await (await opened())(api(upstream.origin, "/x", method="PUT"), resent=True, unknown=1)
        assert "takes no argument 'unknown'" in doubt(result)

    async def test_reading_leaves_none(self, upstream: Upstream, opened: Opener) -> None:
        upstream.replies("/x", web.Response(status=404))
        failed(await (await opened())(api(upstream.origin, "/x"), resent=True), "upstream_error")
