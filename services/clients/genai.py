"""Spans for calls to language models, by OpenTelemetry's semantic conventions for generative AI.

Spans contain token counts and the finish reason, but no prompts and no answers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx2
from opentelemetry.trace import Span, SpanKind
from opentelemetry.util.types import AttributeValue

from services.clients.answers import Completion
from services.tracing import span

_FINISHES: Final = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter", "cut"})
_MOST: Final = 2**53
"""Upper bound for recorded counts, because the server may report any number."""


@contextmanager
def completion_span(model: str, server: httpx2.URL, max_tokens: int) -> Iterator[Span]:
    """The span of a request for the next message of a conversation.

    Args:
        model: name of the model at the server, which has an OpenAI-compatible API.
        server: address of the server.
        max_tokens: requested maximum length of the answer.
    """
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": max_tokens,
        "server.address": server.host,
    }
    if server.port is not None:
        attributes["server.port"] = server.port
    with span(f"chat {model}", attributes, kind=SpanKind.CLIENT) as current:
        yield current


def completed(asked: Span, completion: Completion | None) -> None:
    """Record the result on the span. The completion may be partial."""
    if completion is None:
        return
    told: dict[str, AttributeValue] = {}
    if completion.prompt_tokens is not None:
        told["gen_ai.usage.input_tokens"] = min(completion.prompt_tokens, _MOST)
    if completion.completion_tokens is not None:
        told["gen_ai.usage.output_tokens"] = min(completion.completion_tokens, _MOST)
    if completion.finish:
        told["gen_ai.response.finish_reasons"] = (completion.finish if completion.finish in _FINISHES else "other",)
    asked.set_attributes(told)
