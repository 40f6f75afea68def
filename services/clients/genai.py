"""Calls to language models as spans, after OpenTelemetry's semantic conventions for generative AI.

No prompt and no answer: how many tokens they were, and how the answer ended.
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
"""Counts are the server's, which may say any number."""


@contextmanager
def completion_span(model: str, server: httpx2.URL, max_tokens: int) -> Iterator[Span]:
    """The span of a request for the next message of a conversation.

    Args:
        model: its name at the server, which speaks OpenAI's API, whoever runs it.
        server: its address.
        max_tokens: the longest answer that is asked for.
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
    """Say what came of it, be it only the beginning of an answer."""
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
