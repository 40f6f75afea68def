"""The chat client against a server on a real port: what it reads, and what it does not wait for."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from deploy.sockets import refusing
from services.clients.chat import ChatClient, ChatError, Completion, Patience, open_chat
from tests.support.chat_server import ChatServer, Reply, answers, event, hangs, says, sends, serve_chat

ASK = [{"role": "user", "content": "plan"}]
LONG_S = 30.0
"""Far longer than any test takes: what ends sooner was not ended by it."""
KEY = "sk-canary-4711"


@asynccontextmanager
async def talking(
    *replies: Reply, first_s: float = LONG_S, between_s: float = LONG_S
) -> AsyncIterator[tuple[ChatServer, ChatClient]]:
    async with serve_chat(*replies) as server:
        client = open_chat(server.url, "m", key=SecretStr(KEY), patience=Patience(first_s, between_s))
        try:
            yield server, client
        finally:
            await client.aclose()


async def ask(client: ChatClient, *, max_tokens: int = 50, deadline_s: float = LONG_S, **extra: object) -> Completion:
    return await client.complete(ASK, max_tokens=max_tokens, deadline_s=deadline_s, extra=extra)  # type: ignore[arg-type]


async def failure(*replies: Reply, **options: float) -> ChatError:
    """How asking this server fails; at once, whatever it does."""
    patience = {name: options.pop(name) for name in ("first_s", "between_s") if name in options}
    async with talking(*replies, **patience) as (_, client):
        started = time.monotonic()
        with pytest.raises(ChatError) as caught:
            await ask(client, **options)  # type: ignore[arg-type]
        assert time.monotonic() - started < LONG_S / 2
    return caught.value


async def test_a_stream_is_read_to_its_end() -> None:
    async with talking(says('{"calls":', "[]}", reasoning="Hm.", logprobs=(-0.1, -0.5))) as (server, client):
        found = await ask(client, response_format={"type": "json_object"})
    assert (found.text, found.reasoning, found.finish) == ('{"calls":[]}', "Hm.", "stop")
    assert (found.prompt_tokens, found.completion_tokens, found.tokens) == (120, 2, 3)
    assert found.logprobs == (-0.1, -0.5)
    (body,) = server.asked
    assert body["messages"] == ASK
    assert (body["model"], body["max_tokens"], body["temperature"], body["stream"]) == ("m", 50, 0.0, True)
    assert body["response_format"] == {"type": "json_object"}
    assert server.keys == [f"Bearer {KEY}"]


async def test_a_server_that_does_not_stream_is_read_too() -> None:
    whole = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    async with talking(answers(200, json.dumps(whole), content_type="application/json")) as (_, client):
        found = await ask(client)
    assert (found.text, found.finish, found.prompt_tokens) == ("hello", "stop", 3)


async def test_a_whole_answer_longer_than_asked_for_counts_as_cut() -> None:
    whole = {"choices": [{"message": {"content": "x" * 10_000}, "finish_reason": "stop"}]}
    async with talking(answers(200, json.dumps(whole), content_type="application/json")) as (_, client):
        cut, kept = await ask(client, max_tokens=20), await ask(client, max_tokens=2_000)
    assert (cut.finish, kept.finish) == ("length", "stop")
    assert len(cut.text) < 1_000
    assert len(kept.text) == 10_000


async def test_tool_calls_become_text() -> None:
    pieces = [
        {"index": 0, "id": "call_1", "function": {"name": "find", "arguments": '{"q":'}},
        {"index": 0, "function": {"arguments": '"x"}'}},
    ]
    stream = [event({"tool_calls": [piece]}) for piece in pieces]
    async with talking(sends(*stream, event({}, "tool_calls"), b"data: [DONE]\n\n")) as (_, client):
        found = await ask(client)
    (call,) = json.loads(found.text)
    assert call["function"] == {"name": "find", "arguments": '{"q":"x"}'}


async def test_events_split_anywhere_are_put_together() -> None:
    whole = event({"content": "snö"}) + event({"content": "!"}, "stop") + b"data: [DONE]\n\n"
    async with talking(sends(*(whole[at : at + 1] for at in range(len(whole))))) as (_, client):
        assert (await ask(client)).text == "snö!"


async def test_nobody_there() -> None:
    with refusing() as url:
        client = open_chat(url, "m")
        with pytest.raises(ChatError) as caught:
            await ask(client)
        await client.aclose()
    assert caught.value.trouble == "down"


async def test_a_server_that_hangs_behind_a_200() -> None:
    error = await failure(hangs(), first_s=0.2)
    assert error.trouble == "hung"


async def test_a_server_that_stops_in_the_middle() -> None:
    error = await failure(hangs(event({"content": "a"})), between_s=0.2)
    assert error.trouble == "hung"
    assert error.partial is not None
    assert error.partial.text == "a"


@pytest.mark.parametrize(
    "piece", [b": keep-alive\n\n", b'data: {"choices":[{"delta":{}}]}\n\n', event({"content": ""}), b"d"]
)
async def test_bytes_that_are_no_tokens_do_not_count(piece: bytes) -> None:
    error = await failure(sends(then=itertools.repeat(piece)), first_s=0.3)
    assert error.trouble == "hung"


async def test_a_drip_of_tokens_ends_at_the_deadline() -> None:
    error = await failure(sends(then=itertools.repeat(event({"content": "a"}))), deadline_s=0.3, max_tokens=5_000)
    assert error.trouble == "late"
    assert error.partial is not None
    assert error.partial.tokens


async def test_endless_tokens_are_not_listened_to() -> None:
    async with talking(sends(then=itertools.repeat(event({"content": "a"})), pause_s=0)) as (server, client):
        found = await ask(client, max_tokens=20)
        async with asyncio.timeout(LONG_S):
            await server.gone.wait()
    assert found.finish == "length"
    assert len(found.text) < 2_000


@pytest.mark.parametrize(
    "reply",
    [
        answers(200, "<html>welcome</html>", content_type="text/html"),
        answers(200, "[1]", content_type="application/json"),
        answers(200, '{"hello": 1}', content_type="application/json"),
        answers(200, '{"choices": [3]}', content_type="application/json"),
        sends(b"data: nonsense\n\n"),
        sends(b"data: [1]\n\n"),
        sends(b'data: {"hello": 1}\n\n'),
        sends(b'data: {"error": {"message": "out of memory"}}\n\n'),
        sends(b"\xff\xfe\x00" * 100),
        sends(),
        sends(b"data: " + b"x" * 10_000_000),
        sends(event({"content": "x" * 10_000_000})),
        sends(*[b": " + b"x" * 65_536 + b"\n"] * 160),
        sends(*[event({"content": None})] * 40_000),
        answers(
            200, '{"choices": [{"message": {"content": "' + "x" * 10_000_000 + '"}}]}', content_type="application/json"
        ),
    ],
)
async def test_what_is_no_completion_is_garbage(reply: Reply) -> None:
    assert (await failure(reply)).trouble == "garbage"


async def test_a_packed_body_is_not_unpacked() -> None:
    error = await failure(answers(200, "x", content_type="text/event-stream", content_encoding="gzip"))
    assert error.trouble in ("garbage", "down")


async def test_an_answer_that_breaks_off_says_so() -> None:
    async with talking(sends(event({"content": '{"calls"'}))) as (_, client):
        assert (await ask(client)).finish == "cut"


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(500, "down"), (502, "down"), (401, "denied_access"), (404, "denied_access"), (400, "refused"), (302, "down")],
)
async def test_statuses(status: int, trouble: str) -> None:
    error = await failure(answers(status, f"no, {KEY}"))
    assert error.trouble == trouble
    assert KEY not in str(error)


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    async with talking(answers(429, retry_after="0.01"), answers(503, retry_after="0"), says("ok")) as (_, client):
        assert (await ask(client)).text == "ok"
    error = await failure(answers(429, retry_after="900"))
    assert (error.trouble, error.retry_after_s) == ("busy", 900)
    assert (await failure(answers(503))).retry_after_s is None


async def test_what_a_server_does_not_take_is_learnt() -> None:
    refusals = [
        answers(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        answers(400, "'temperature' does not support 0"),
        answers(422, "stream_options: extra fields not permitted"),
    ]
    async with talking(*refusals, says("ok")) as (server, client):
        assert (await ask(client)).text == "ok"
        await ask(client)
    assert len(server.asked) == 5
    assert server.asked[-1].keys() == {"model", "messages", "max_completion_tokens", "stream"}


async def test_the_key_is_masked_where_it_comes_back() -> None:
    async with talking(says(f"your key is {KEY[:5]}", KEY[5:], reasoning=KEY)) as (_, client):
        found = await ask(client)
    assert KEY not in found.text + found.reasoning
    assert "***" in found.text


async def test_a_probe_wants_a_token() -> None:
    async with talking(says("a")) as (server, client):
        await client.probe(LONG_S)
        assert server.asked[0]["max_tokens"] == 1
    async with talking(says()) as (_, client):
        with pytest.raises(ChatError):
            await client.probe(LONG_S)
