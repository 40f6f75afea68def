"""The language model and the state of its server: whether it is alive, and which constraints it accepts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from planner_svc.backends.served.constraint import LADDER, Constraint
from planner_svc.backends.served.liveness import Liveness
from planner_svc.metrics import PlannerMetrics
from planner_svc.settings import ConstraintKind, ServedSettings
from services.clients.chat import ChatError, ChatModel, Completion, Message
from services.compute import for_tenant
from services.contracts.operations import ModelServer
from services.fair_slots import FairSlots

_PROBE_S: Final = 5.0
_WAITING: Final = 1_000
_MOST_CHARS: Final = 300
"""Most characters of a failure's text that the status shows: the server may have written it."""


class Model:
    """Asks for completions. It is safe for concurrent requests.

    Args:
        chat: the server's client.
        settings: how to ask it.
        metrics: counts tokens and time.
    """

    def __init__(self, chat: ChatModel, settings: ServedSettings, metrics: PlannerMetrics) -> None:
        self._chat, self._metrics = chat, metrics
        self._url = settings.url or ""
        self._max_tokens = settings.max_tokens
        self._kinds: list[ConstraintKind] = list(LADDER)
        self._accepted: set[ConstraintKind] = set()
        if settings.constraint != "auto":
            self._kinds = list(dict.fromkeys([settings.constraint, "none"]))
        self._slots = FairSlots(
            settings.at_once, _WAITING, (settings.at_once + 1) // 2, "requests to the language model"
        )
        self._liveness = Liveness(lambda: chat.probe(_PROBE_S), settings.rest_s)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._chat.model

    @property
    def constraint(self) -> ConstraintKind:
        """The strictest constraint that the server has not refused."""
        return self._kinds[0]

    def status(self) -> ModelServer:
        """What is known about the server; this does not contact it."""
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
        """Close the client and stop the probe."""
        await self._liveness.aclose()
        await self._chat.aclose()

    async def complete(
        self, messages: Sequence[Message], constraint: Constraint, end: float
    ) -> tuple[Completion, ConstraintKind]:
        """The next message, and the constraint that was enforced.

        Args:
            messages: the conversation.
            constraint: the constraint on the answer.
            end: deadline, on the event loop's clock.

        Raises:
            ChatError: there is no message. A server that failed is not asked again for a while.
            Overloaded: it had no turn before the deadline.
        """
        async with self._turn(end):
            completion, kind = await self._complete_constrained(messages, constraint, end)
        self._metrics.completed(completion)
        return completion, kind

    async def write(self, messages: Sequence[Message], max_tokens: int, end: float) -> Completion:
        """The next message, without a constraint.

        Args:
            messages: the conversation.
            max_tokens: the longest answer.
            end: deadline, on the event loop's clock.

        Raises:
            ChatError, Overloaded: there is no message, as in :meth:`complete`.
        """
        async with self._turn(end):
            left_s = _left_s(end)
            completion = await self._chat.complete(messages, max_tokens=max_tokens, deadline_s=left_s)
        self._metrics.completed(completion)
        return completion

    @asynccontextmanager
    async def _turn(self, end: float) -> AsyncIterator[None]:
        """Wait for the tenant's turn. Raise if the server is down then; otherwise record whether the request worked."""
        async with self._slots.slot(for_tenant.get(), _left_s(end)):
            if (why := self._liveness.trouble()) is not None:
                raise ChatError("down", why)
            try:
                with self._metrics.completing():
                    yield
            except ChatError as error:
                self._record_failure(error)
                raise
            self._liveness.worked()

    async def _complete_constrained(
        self, messages: Sequence[Message], constraint: Constraint, end: float
    ) -> tuple[Completion, ConstraintKind]:
        """Try constraints from the strictest.

        One that is refused is not tried again if it was never accepted: a server that knows it refuses only what a
        document makes of it.
        """
        refusals: dict[ConstraintKind, ChatError] = {}
        for kind in tuple(self._kinds):
            try:
                completion = await self._chat.complete(
                    messages,
                    max_tokens=self._max_tokens,
                    deadline_s=_left_s(end),
                    extra=constraint.members(kind),
                )
            except ChatError as error:
                if error.trouble != "refused":
                    raise
                refusals[kind] = error
                continue
            self._accepted.add(kind)
            self._kinds = [one for one in self._kinds if one in self._accepted or one not in refusals]
            return completion, kind
        raise refusals[kind]

    def _record_failure(self, error: ChatError) -> None:
        """Record what a failure says about the server. A server that refuses a request, or is late, is alive."""
        if error.trouble in ("down", "hung", "garbage", "denied_access"):
            self._liveness.failed(str(error))
        elif error.trouble == "busy" and error.retry_after_s:
            self._liveness.failed(str(error), error.retry_after_s)
        elif error.trouble == "late" and not (error.partial and error.partial.tokens):
            self._liveness.suspect()  # without any token it may be hung, or the deadline was short


def _left_s(end: float) -> float:
    """Seconds until a deadline on the event loop's clock."""
    return max(end - asyncio.get_running_loop().time(), 0.0)
