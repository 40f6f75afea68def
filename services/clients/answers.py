"""Parses the response of a chat completions server: server-sent events with tokens, or one JSON document."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

MASK: Final = "***"
_MAX_LINE: Final = 1_000_000
_CHARS_A_TOKEN: Final = 24
"""Upper bound on the mean token length. A longer answer is taken to exceed ``max_tokens`` and is cut off."""
_LEAST_SECRET: Final = 4


class Malformed(Exception):
    """The response is not a completion. The message says what it was."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's output.

    Attributes:
        text: the answer; or the tool calls as a JSON list, if the model made some and wrote no text.
        reasoning: the reasoning, if the server sends it separately.
        finish: ``stop``, ``length``, ...; ``cut`` if the answer broke off; empty if unknown.
        prompt_tokens: token count of the prompt as reported by the server, if it does.
        completion_tokens: token count of the answer as reported by the server, if it does.
        tokens: number of received pieces of text.
        logprobs: log-probabilities of the answer's tokens, if the server sends them.
    """

    text: str
    reasoning: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: int = 0
    logprobs: tuple[float, ...] = ()


@dataclass(slots=True)
class Collected:
    """Accumulates a completion while it streams in.

    Args:
        max_tokens: the requested limit. If the server sends much more, reading stops.
    """

    max_tokens: int
    text: str = ""
    reasoning: str = ""
    finish: str = ""
    tokens: int = 0
    _usage: dict[str, Any] = field(default_factory=dict)
    _calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    _logprobs: list[float] = field(default_factory=list)
    _done: bool = False

    async def read(self, chunks: AsyncIterator[bytes], content_type: str) -> AsyncIterator[int]:
        """Read the body. Yields the number of tokens in each chunk, which may be 0.

        Raises:
            Malformed: the body is neither a stream of events nor a completion.
        """
        if not content_type.startswith("text/event-stream"):
            whole = b""
            async for chunk in chunks:
                whole += chunk
                yield 0
            self._take_whole(_json(whole))
            self._is_enough()
            return
        rest = b""
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _MAX_LINE:
                raise Malformed("an event that does not end")
            before = self.tokens
            for line in lines:
                self._take_line(line.strip())
            yield self.tokens - before
            if self._done or self._is_enough():
                return
        self._take_line(rest.strip())

    def completion(self, secret: str = "") -> Completion:
        """The completion received so far, with the secret masked."""
        text = self.text
        if not text.strip() and self._calls:
            text = orjson.dumps([self._calls[index] for index in sorted(self._calls)]).decode()
        finish = self.finish or ("stop" if self._done else "cut" if self.tokens else "")
        return Completion(
            text=masked(text, secret),
            reasoning=masked(self.reasoning, secret),
            finish=finish,
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            completion_tokens=_count(self._usage.get("completion_tokens")),
            tokens=self.tokens,
            logprobs=tuple(self._logprobs),
        )

    def _is_enough(self) -> bool:
        """Whether more output was received than requested. If so, characters beyond the limit are dropped."""
        chars, most = len(self.text) + len(self.reasoning), _CHARS_A_TOKEN * (self.max_tokens + 8)
        if self.tokens <= self.max_tokens + 8 and chars <= most:
            return False
        self.finish, self.text, self.reasoning = "length", self.text[:most], self.reasoning[:most]
        return True

    def _take_line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):  # a comment or another field, without a token
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self._done = True
        elif data:
            self._take_event(_json(data))

    def _take_event(self, event: dict[str, Any]) -> None:
        if event.get("error"):
            raise Malformed("an error in the middle of its answer")
        usage, choices = event.get("usage"), event.get("choices")
        if isinstance(usage, dict):
            self._usage = usage
        if not isinstance(choices, list):
            if isinstance(usage, dict):
                return
            raise Malformed("events that are not a completion")
        for choice in choices[:1]:
            self._take_choice(choice, "delta")

    def _take_whole(self, answer: dict[str, Any]) -> None:
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise Malformed("JSON that is not a completion")
        usage = answer.get("usage")
        self._usage = usage if isinstance(usage, dict) else {}
        self._take_choice(choices[0], "message")
        self._done = True

    def _take_choice(self, choice: Any, member: str) -> None:
        if not isinstance(choice, dict) or not isinstance(choice.get(member) or {}, dict):
            raise Malformed("an invalid choice")
        said = choice.get(member) or {}
        text, thought = _text(said.get("content")), _text(said.get("reasoning_content") or said.get("reasoning"))
        self.text += text
        self.reasoning += thought
        called = self._take_calls(said.get("tool_calls"))
        self.tokens += bool(text or thought or called)
        if isinstance(choice.get("finish_reason"), str):
            self.finish = choice["finish_reason"][:40]
        scores = choice.get("logprobs")
        listed = scores.get("content") if isinstance(scores, dict) else None
        for one in listed if isinstance(listed, list) else ():
            value = one.get("logprob") if isinstance(one, dict) else None
            if isinstance(value, int | float) and text:
                self._logprobs.append(float(value))

    def _take_calls(self, calls: Any) -> bool:
        """Collect tool calls, which arrive in pieces: the name at once, the arguments as successive text."""
        took = False
        for position, piece in enumerate(calls if isinstance(calls, list) else ()):
            function = piece.get("function") if isinstance(piece, dict) else None
            if not isinstance(function, dict):
                continue
            index = piece.get("index")
            whole = self._calls.setdefault(
                index if isinstance(index, int) else position,
                {"type": "function", "function": {"name": "", "arguments": ""}},
            )
            if isinstance(piece.get("id"), str):
                whole["id"] = piece["id"][:100]
            for name in ("name", "arguments"):
                added = function.get(name)
                added = orjson.dumps(added).decode() if isinstance(added, dict) else _text(added)
                whole["function"][name] += added
                took |= bool(added)
        return took


def masked(text: str, secret: str) -> str:
    """The text with the secret masked."""
    return text.replace(secret, MASK) if len(secret) >= _LEAST_SECRET else text


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Malformed("a body that is not JSON") from None
    if not isinstance(value, dict):
        raise Malformed("JSON that is not an object")
    return value


def _text(value: Any) -> str:
    """Text, given as a string or as a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
