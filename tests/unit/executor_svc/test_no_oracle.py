"""What is masked tells nothing of secrets that a call did not present, and nothing of parts of those that it did."""

from aiohttp import web

from executor_svc.models import CallResult
from services.contracts.api import Api
from services.contracts.outcome import Failed, Succeeded
from tests.support.executing import api, needs, parameter
from tests.support.upstream import Seen, Upstream
from tests.unit.executor_svc.conftest import Opener

SECRET = "sk_live_9QZ#7Ω§"
KEPT = 16 * 1024
OTHERS = {"bank.key": {"value": SECRET, "hosts": ["api.bank.example"]}}
"""Somebody else's, for another host."""


def presenting(called: Api) -> Api:
    return called.model_copy(update={"security": ((needs("bearer"),),), "content_hash": ""})


def ending_in(upstream: Upstream, guess: str) -> None:
    """An error that is cut off right behind a guess."""

    @upstream.on("/oracle")
    async def answer(_: Seen) -> web.StreamResponse:
        said = guess.encode()
        return web.Response(body=b"x" * (KEPT - len(said)) + said + b"y" * 500, status=400, content_type="text/plain")


def detail(result: CallResult) -> str:
    assert isinstance(result.outcome, Failed)
    assert isinstance(result.outcome.detail, str)
    return result.outcome.detail


async def test_a_guess_at_a_cut_is_not_confirmed(upstream: Upstream, opened: Opener) -> None:
    """Digit by digit any secret of any tenant could be read so."""
    call = await opened(OTHERS)
    digits = SECRET.encode().hex()
    for guess in (SECRET[:7], SECRET, digits[:6], digits[:8], digits):
        ending_in(upstream, guess)
        assert detail(await call(api(upstream.origin, "/oracle"))).endswith(f"x{guess} [...]")


async def test_nor_is_one_at_the_secret_that_the_call_presents(upstream: Upstream, opened: Opener) -> None:
    call = await opened({"test.it": {"value": SECRET, "hosts": [upstream.host]}})
    told = set()
    for guess in (SECRET[:7], SECRET[:13], "another guess", SECRET.encode().hex()[:20]):
        ending_in(upstream, guess)
        told.add(detail(await call(presenting(api(upstream.origin, "/oracle")))))
    assert len(told) == 1


async def test_an_echo_that_is_cut_off_shows_no_part_of_the_secret(upstream: Upstream, opened: Opener) -> None:
    """Whoever writes the arguments chooses where the cut falls."""
    call = await opened({"test.it": {"value": SECRET, "hosts": [upstream.host]}})
    for shown in range(len(SECRET.encode())):

        @upstream.on("/echo")
        async def echo(seen: Seen, shown: int = shown) -> web.StreamResponse:
            said = seen.headers["Authorization"].removeprefix("Bearer ").encode()
            body = b"." * (KEPT - shown) + said + b"." * 500
            return web.Response(body=body, status=400, content_type="text/plain")

        result = await call(presenting(api(upstream.origin, "/echo")))
        assert set(detail(result).removesuffix(" [...]")) == {"."}


async def test_an_argument_is_not_compared_with_secrets_of_other_calls(upstream: Upstream, opened: Opener) -> None:
    @upstream.on("/echo")
    async def echo(seen: Seen) -> web.StreamResponse:
        return web.json_response({"target": seen.target, "said": SECRET}, headers={"X-A": "b"})

    call = await opened(OTHERS | {"test.it": {"value": "another-s3cret", "hosts": [upstream.host]}})
    for called in (
        api(upstream.origin, "/echo", parameter("q")),
        api(upstream.origin, "/none/{p}", parameter("p", "path")),
    ):
        for made in (called, presenting(called)):
            result = await call(made, **{made.parameters[0].name: SECRET})
            assert isinstance(result.outcome, Succeeded)
            assert "***" not in result.outcome.model_dump_json()
            assert result.request is not None
            assert "***" not in result.request.url
