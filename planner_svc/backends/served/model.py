"""The language model with what is known of its server: whether it is alive, and which constraints it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from planner_svc.backends.served.constraint import LADDER, Constraint
from planner_svc.backends.served.liveness import Liveness
from planner_svc.metrics import PlannerMetrics
from planner_svc.settings import ConstraintKind, ServedSettings
from services.clients.chat import ChatError, ChatModel, Completion, Message
from services.contracts.operations import ModelServer

_PROBE_S: Final = 5.0
_MOST_CHARS: Final = 300
"""Of what is told of a server's failure: it may have written much of that itself."""


class Model:
    """Asks for completions. Many requests may ask at the same time.

    Args:
        chat: the server's client.
        settings: how it is asked.
        metrics: counts tokens and time.
    """

    def __init__(self, chat: ChatModel, settings: ServedSettings, metrics: PlannerMetrics) -> None:
        self._chat, self._metrics = chat, metrics
        self._url = settings.url or ""
        self._max_tokens = settings.max_tokens
        self._kinds: list[ConstraintKind] = list(LADDER)
        if settings.constraint != "auto":
            self._kinds = list(dict.fromkeys([settings.constraint, "none"]))
        self._liveness = Liveness(lambda: chat.probe(_PROBE_S), settings.rest_s)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._chat.model

    @property
    def constrained(self) -> bool:
        """Whether the server is told what plans look like."""
        return self._kinds[0] not in ("none", "json_object")

    def status(self) -> ModelServer:
        """What is known of the server; it is not asked for that."""
        return ModelServer(
            url=self._url,
            model=self.name,
            state=self._liveness.state,
            trouble=self._liveness.why[:_MOST_CHARS],
            probe_in_s=round(self._liveness.rests_s, 3),
            completions=self._metrics.completions,
            tokens=self._metrics.tokens,
            mean_s=round(self._metrics.mean_completion_s, 3),
        )

    async def aclose(self) -> None:
        """Close what is open."""
        await self._liveness.aclose()
        await self._chat.aclose()

    async def complete(
        self, messages: Sequence[Message], constraint: Constraint, end: float
    ) -> tuple[Completion, ConstraintKind]:
        """The next message, and the constraint it was held to.

        Args:
            messages: the conversation.
            constraint: what the answer may look like.
            end: by when, on the event loop's clock.

        Raises:
            ChatError: there is none. A server that does not work is not asked again for a while.
        """
        with self._watched():
            completion, kind = await self._held(messages, constraint, end)
        self._metrics.completed(completion)
        return completion, kind

    async def write(self, messages: Sequence[Message], max_tokens: int, end: float) -> Completion:
        """The next message, held to no form.

        Args:
            messages: the conversation.
            max_tokens: the longest answer.
            end: by when, on the event loop's clock.

        Raises:
            ChatError: there is none, as in :meth:`complete`.
        """
        left_s = max(end - asyncio.get_running_loop().time(), 0.0)
        with self._watched():
            completion = await self._chat.complete(messages, max_tokens=max_tokens, deadline_s=left_s)
        self._metrics.completed(completion)
        return completion

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Ask a server that is alive, and learn from how that goes."""
        if (why := self._liveness.trouble()) is not None:
            raise ChatError("down", why)
        try:
            with self._metrics.completing():
                yield
        except ChatError as error:
            self._note(error)
            raise
        self._liveness.worked()

    async def _held(
        self, messages: Sequence[Message], constraint: Constraint, end: float
    ) -> tuple[Completion, ConstraintKind]:
        """Where the server refuses a constraint, the next weaker one is tried, and kept where that is taken."""
        loop = asyncio.get_running_loop()
        refusals: list[ChatError] = []
        for kind in tuple(self._kinds):
            try:
                completion = await self._chat.complete(
                    messages,
                    max_tokens=self._max_tokens,
                    deadline_s=max(end - loop.time(), 0.0),
                    extra=constraint.members(kind),
                )
            except ChatError as error:
                if error.trouble != "refused":
                    raise
                refusals.append(error)
                continue
            if refusals and kind in self._kinds:
                del self._kinds[: self._kinds.index(kind)]
            return completion, kind
        raise refusals[-1]

    def _note(self, error: ChatError) -> None:
        """What a failure says about the server. One that refuses a request is alive, and so is one that is late."""
        if error.trouble in ("down", "hung", "garbage", "denied_access"):
            self._liveness.failed(str(error))
        elif error.trouble == "busy" and error.retry_after_s:
            self._liveness.failed(str(error), error.retry_after_s)
        elif error.trouble == "late" and not (error.partial and error.partial.tokens):
            self._liveness.suspect()  # unless it gave no token: it may be hung, or the deadline was short
