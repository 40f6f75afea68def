"""The planner application with the language model that its settings name."""

import pytest
from pydantic import SecretStr, ValidationError

from planner_svc.main import create_app
from planner_svc.settings import PlannerSettings, ServedSettings
from services.clients.base import open_http
from services.clients.planner import PlannerClient
from services.clients.transport import InProcessTransport
from services.contracts.planning import PlanRequest
from tests.support.chat_server import answers, calls, serve_chat
from tests.unit.planner_svc.served.test_backend import FIRST, REQUEST, SECOND

KEY = "sk-canary-1234"


async def test_a_configured_model_plans_first() -> None:
    async with serve_chat(calls(FIRST, SECOND)) as server:
        settings = PlannerSettings(served=ServedSettings(url=server.url, model="m", api_key=SecretStr(KEY)))
        app = create_app(settings)
        async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
            client = PlannerClient(http)
            backends = await client.backends()
            assert (backends.default, backends.cascade) == ("served", ("demonstrated", "served", "compact"))
            (before,) = (await client.status()).servers
            assert (before.url, before.model, before.state, before.completions) == (server.url, "m", "unknown", {})
            response = await client.plan(REQUEST)
            assert (response.status, response.backend) == ("planned", "served")
            assert response.trace is not None
            assert response.trace.attempts[0].constraint == "json_schema"
            other = await client.plan(REQUEST.model_copy(update={"cascade": "compact_first"}))
            assert other.asked[0].backend == "compact"
            (after,) = (await client.status()).servers
            assert (after.state, after.trouble, set(after.completions)) == ("up", "", {"answered"})
            assert after.tokens["completion"] > 0
            assert after.mean_s > 0
            metrics = (await http.get("/metrics")).text
            assert 'nestor_plans_total{backend="served",status="planned"}' in metrics
            assert 'nestor_planner_model_tokens_total{kind="completion"}' in metrics
            everything = (
                response.model_dump_json() + after.model_dump_json() + metrics + (await http.get("/backends")).text
            )
    assert KEY not in everything
    assert server.keys[0] == f"Bearer {KEY}"


async def test_a_server_that_fails_is_told_of_without_being_asked_again() -> None:
    async with serve_chat(answers(500, f"{KEY} {'x' * 1_000}")) as server:
        settings = PlannerSettings(served=ServedSettings(url=server.url, model="m", api_key=SecretStr(KEY)))
        app = create_app(settings)
        async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
            client = PlannerClient(http)
            await client.plan(REQUEST)
            asked = len(server.asked)
            (told,) = (await client.status()).servers
            assert (told.state, told.completions, len(server.asked)) == ("down", {"down": 1}, asked)
            assert told.trouble.startswith("the language model's server answered 500")
            assert len(told.trouble) <= 300
            assert KEY not in told.trouble
            assert 0 < told.probe_in_s <= 10


async def test_without_a_url_there_is_no_model() -> None:
    app = create_app(PlannerSettings())
    async with app.router.lifespan_context(app), open_http("http://planner", InProcessTransport(app)) as http:
        assert (await PlannerClient(http).status()).servers == ()
        backends = await PlannerClient(http).backends()
        assert backends.available == ("compact", "demonstrated")
        assert backends.cascade == ("demonstrated", "compact")
        response = await PlannerClient(http).plan(PlanRequest(query="x", cascade="model_first"))
        assert [one.backend for one in response.asked] == ["compact"]


def test_the_environment_configures_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESTOR_PLANNER_SERVED_URL", "http://llm:8080")
    monkeypatch.setenv("NESTOR_PLANNER_SERVED_API_KEY", KEY)
    monkeypatch.setenv("NESTOR_PLANNER_SERVED_DETAIL", "brief")
    monkeypatch.setenv("NESTOR_PLANNER_CASCADE", "compact_first")
    settings = PlannerSettings()
    assert (settings.served.url, settings.served.detail, settings.cascade) == (
        "http://llm:8080",
        "brief",
        "compact_first",
    )
    assert KEY not in repr(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    "url", ["llm:8080", "ftp://llm", "http://", "http://user:pass@llm/v1", "http://llm/v1?key=1", "http://llm/#x"]
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        ServedSettings(url=url)
