"""Client of a language model on an OpenAI-compatible server (``POST /chat/completions``), with timeouts per token.

The server is not trusted: it may hang after a 200, send bytes without tokens, never end, or send anything. Timeouts
apply between tokens (not bytes), the size of a response is limited, and a deadline covers the whole call.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

import httpx2
import orjson
from pydantic import JsonValue, SecretStr

from services.clients.answers import MASK, Collected, Completion, Malformed, masked
from services.clients.base import CONNECT_TIMEOUT_S, open_http
from services.clients.genai import completed, completion_span

Message = Mapping[str, str]
"""``role`` and ``content``."""
Trouble = Literal["down", "busy", "denied_access", "refused", "hung", "late", "garbage"]

MAX_BYTES: Final = 4_000_000
"""Maximum bytes read of one response. A streamed token takes about 200."""
_MAX_REFUSAL: Final = 4_000
_MAX_TRIES: Final = 4
_PROBE_TOKENS: Final = 1


class ChatError(Exception):
    """There is no completion; ``trouble`` says why.

    ``down``: no connection, or a server error; ``busy``: the server accepts no more requests now (``retry_after_s``, if
    it says); ``denied_access``: the key or the model is not accepted; ``refused``: the server rejects this request;
    ``hung``: no token for too long; ``late``: the deadline passed; ``garbage``: the response is not a completion.

    Attributes:
        partial: the part of the completion received so far.
    """

    def __init__(
        self, trouble: Trouble, message: str, *, retry_after_s: float | None = None, partial: Completion | None = None
    ) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble
        self.retry_after_s = retry_after_s
        self.partial = partial

    @property
    def error_type(self) -> str:
        """Name of the error type in spans."""
        return self.trouble


class ChatModel(Protocol):
    """A language model that completes a conversation."""

    @property
    def model(self) -> str:
        """Its name."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        deadline_s: float,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Completion:
        """The next message of the conversation.

        Args:
            messages: the conversation.
            max_tokens: maximum length of the answer.
            deadline_s: time limit for the whole call, in seconds.
            extra: further members of the request, such as ``response_format``.

        Raises:
            ChatError: there is no completion.
        """
        ...

    async def probe(self, deadline_s: float) -> None:
        """Ask for one token. Raises ChatError unless it comes."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts for tokens, in seconds: for the first one, and between two."""

    first_token_s: float = 10.0
    between_tokens_s: float = 3.0


class ChatClient:
    """:class:`ChatModel` over HTTP, streamed.

    The client learns from errors which members a server does not accept: newer OpenAI models need
    ``max_completion_tokens``, some reject ``temperature``, and some servers reject ``stream_options``.

    Args:
        http: from :func:`open_chat`.
        model: the model's name at the server.
        key: sent as a bearer token; masked in all responses.
        temperature: 0 is deterministic.
        logprobs: whether to request log-probabilities.
        patience: timeouts for tokens.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        model: str,
        *,
        key: SecretStr | None = None,
        temperature: float = 0.0,
        logprobs: bool = False,
        patience: Patience | None = None,
    ) -> None:
        self._http, self._model, self._key = http, model, key
        self._patience = patience or Patience()
        self._tokens_member = "max_tokens"
        self._wishes: dict[str, JsonValue] = {"temperature": temperature, "stream_options": {"include_usage": True}}
        if logprobs:
            self._wishes["logprobs"] = True

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        deadline_s: float,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Completion:
        """The next message of the conversation; see :class:`ChatModel`."""
        with completion_span(self._model, self._http.base_url, max_tokens) as span:
            try:
                completion = await self._tried(messages, max_tokens, deadline_s, extra or {})
            except ChatError as error:
                completed(span, error.partial)
                raise
            completed(span, completion)
            return completion

    async def _tried(
        self, messages: Sequence[Message], max_tokens: int, deadline_s: float, extra: Mapping[str, JsonValue]
    ) -> Completion:
        """Send the request, with retries where they can help. Raises ChatError."""
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        for tries_left in reversed(range(_MAX_TRIES)):
            try:
                return await self._once(messages, max_tokens, end, extra)
            except ChatError as error:
                pause = self._pause(error)
                if pause is None or not tries_left or loop.time() + pause >= end:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError  # the last try returns or raises

    async def probe(self, deadline_s: float) -> None:
        """Ask for one token. Raises ChatError unless it comes."""
        found = await self.complete(
            [{"role": "user", "content": "Hi"}], max_tokens=_PROBE_TOKENS, deadline_s=deadline_s
        )
        if not found.tokens:
            raise ChatError("garbage", "the language model's server answers without a token")

    def _pause(self, error: ChatError) -> float | None:
        """Seconds to wait before a retry; None: do not retry."""
        if error.trouble == "busy":
            return error.retry_after_s
        return 0.0 if error.trouble == "refused" and self._learnt(str(error)) else None

    def _learnt(self, refusal: str) -> bool:
        """Whether the refusal names a member that can be renamed or left out. If so, do that from now on."""
        if "max_completion_tokens" in refusal and self._tokens_member == "max_tokens":
            self._tokens_member = "max_completion_tokens"
            return True
        disliked = next((name for name in self._wishes if name in refusal), None)
        if disliked is not None:
            del self._wishes[disliked]
        return disliked is not None

    async def _once(
        self, messages: Sequence[Message], max_tokens: int, end: float, extra: Mapping[str, JsonValue]
    ) -> Completion:
        loop = asyncio.get_running_loop()
        found = Collected(max_tokens)
        try:
            async with asyncio.timeout_at(min(loop.time() + self._patience.first_token_s, end)) as watch:
                async with self._open(messages, max_tokens, extra) as response:
                    await self._check(response)
                    chunks = _bounded(response)
                    async with aclosing(chunks):
                        async for tokens in found.read(chunks, response.headers.get("content-type", "")):
                            if tokens:
                                watch.reschedule(min(loop.time() + self._patience.between_tokens_s, end))
        except TimeoutError:
            raise self._silence(found, late=loop.time() >= end) from None
        except Malformed as error:
            raise ChatError("garbage", f"the language model's server answered {self._masked(str(error))}") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            if not (found.text or found.reasoning):
                raise ChatError("down", "the language model's server does not answer") from error
        completion = found.completion(self._secret)
        if not completion.finish and not completion.text:
            raise ChatError("garbage", "the language model's server ended its answer early", partial=completion)
        return completion

    def _silence(self, found: Collected, *, late: bool) -> ChatError:
        partial = found.completion(self._secret)
        if late:
            return ChatError("late", "the language model had not finished at the deadline", partial=partial)
        return ChatError("hung", "the language model's server sent no token for too long", partial=partial)

    def _open(
        self, messages: Sequence[Message], max_tokens: int, extra: Mapping[str, JsonValue]
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        body: dict[str, JsonValue] = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            self._tokens_member: max_tokens,
            "stream": True,
            **self._wishes,
            **extra,
        }
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._secret}"
        return self._http.stream(
            "POST",
            "chat/completions",
            content=orjson.dumps(body),
            headers=headers,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
        )

    async def _check(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        if status in (401, 403, 404):  # such answers may repeat part of the key
            raise ChatError("denied_access", f"the language model's server answered {status}: key, model or address")
        said = self._masked((await _beginning(response)).decode(errors="replace"))
        if status in (429, 503):
            after = _seconds(response.headers.get("retry-after"))
            raise ChatError("busy", f"the language model's server is busy ({status})", retry_after_s=after)
        trouble: Trouble = "refused" if 400 <= status < 500 else "down"
        raise ChatError(trouble, f"the language model's server answered {status}: {said}")

    @property
    def _secret(self) -> str:
        return self._key.get_secret_value() if self._key is not None else ""

    def _masked(self, text: str) -> str:
        return masked(text, self._secret)


def open_chat(
    url: str,
    model: str,
    *,
    key: SecretStr | None = None,
    temperature: float = 0.0,
    logprobs: bool = False,
    patience: Patience | None = None,
) -> ChatClient:
    """A client of the server at ``url``, in the form that OpenAI's clients use. Adds ``/v1`` if ``url`` has no path."""
    base = url.rstrip("/")
    if not urlsplit(base).path:
        base += "/v1"
    http = open_http(f"{base}/")
    return ChatClient(http, model, key=key, temperature=temperature, logprobs=logprobs, patience=patience)


async def _bounded(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Stream the body, up to ``MAX_BYTES``. Compressed bodies are refused."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Malformed("with a packed body that was not asked for")
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MAX_BYTES:
            raise Malformed(f"more than {MAX_BYTES} bytes")
        yield chunk


async def _beginning(response: httpx2.Response) -> bytes:
    """The first bytes of an error response."""
    found = b""
    async for chunk in response.aiter_raw():
        found += chunk[:_MAX_REFUSAL]
        if len(found) >= _MAX_REFUSAL:
            break
    return found[:_MAX_REFUSAL]


def _seconds(header: str | None) -> float | None:
    """``Retry-After`` in seconds. Dates are not supported."""
    try:
        value = float(header or "")
    except ValueError:
        return None
    return value if 0 <= value < 3_600 else None


__all__ = [
    "MASK",
    "ChatClient",
    "ChatError",
    "ChatModel",
    "Completion",
    "Message",
    "Patience",
    "Trouble",
    "open_chat",
]
