"""What spans tell of calls to a language model: which, how long, how many tokens; not a word of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from services.clients.chat import ChatError, open_chat
from services.tracing import continued
from tests.support.chat_server import Reply, answers, event, says, sends, serve_chat
from tests.support.spans import GIVEN, Made, making_spans


@pytest.fixture
def made() -> Iterator[Made]:
    with making_spans() as found:
        yield found


async def ask(made: Made, *replies: Reply) -> dict[str, Any]:
    """What is told of one completion."""
    async with serve_chat(*replies) as server:
        client = open_chat(server.url, "small")
        with continued("planner_svc", GIVEN):
            try:
                await client.complete([{"role": "user", "content": "secret"}], max_tokens=50, deadline_s=30)
            except ChatError:
                assert made.all[-1].status.status_code.name == "ERROR"
        await client.aclose()
        port = int(server.url.rpartition(":")[2])
    assert "secret" not in "".join(one.to_json() for one in made.all)
    (told,) = made.of("chat small")
    assert (told.pop("server.address"), told.pop("server.port")) == ("127.0.0.1", port)
    return told


ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "small",
    "gen_ai.request.max_tokens": 50,
}


async def test_a_completion_is_told_by_its_tokens(made: Made) -> None:
    told = await ask(made, says("a secret", " answer"))
    usage = {"gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 2}
    assert told == ASKED | usage | {"gen_ai.response.finish_reasons": ("stop",)}


async def test_a_failure_is_told_by_its_kind(made: Made) -> None:
    assert await ask(made, answers(401, "secret")) == ASKED | {"error.type": "denied_access"}


async def test_what_a_server_makes_up_is_held_to_bounds(made: Made) -> None:
    usage = {"prompt_tokens": 10**30, "completion_tokens": 1}
    last = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"
    told = await ask(made, sends(event({"content": "secret"}), event({}, "because secret"), last))
    assert told["gen_ai.response.finish_reasons"] == ("other",)
    assert told.get("gen_ai.usage.input_tokens", 0) <= 2**53
