"""Has a language model write an answer as a sentence, and rejects words that have no known source."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from planner_svc.sentences.prompt import sentence_messages
from planner_svc.sentences.slots import NotExpressible, SentenceSlot, slots_of
from planner_svc.sentences.template import SentenceRejected, read_template
from services.clients.chat import ChatError, Completion, Message
from services.compute import ComputePool
from services.contracts.sentence import Sentence, SentenceRequest

MAX_TOKENS: Final = 120
_MAX_QUERY: Final = 1_000
_SHARE: Final = 0.95
"""Share of the time limit that the model may use."""


class Model(Protocol):
    """The model that writes."""

    async def write(self, messages: Sequence[Message], max_tokens: int, end: float) -> Completion:
        """The next message. ``end`` is a deadline on the event loop's clock. Raises ChatError."""
        ...


class SentenceWriter:
    """Writes sentences with slots. It keeps no requests.

    Args:
        model: the model that writes.
        pool: where slots and sentences are computed.
        name: the backend that uses the same model: a request that names another backend is not sent to it.
        on: whether to write if the request does not say.
        timeout_s: time limit of the model.
    """

    def __init__(self, model: Model, pool: ComputePool, *, name: str, on: bool, timeout_s: float) -> None:
        self._model, self._pool = model, pool
        self._name, self._on, self._timeout_s = name, on, timeout_s

    def is_wanted(self, wanted: bool | None, backend: str | None) -> bool:
        """Whether to write a sentence, given what the request wants and which backend it names."""
        return wanted if wanted is not None else self._on and backend in (None, self._name)

    async def write(self, request: SentenceRequest) -> Sentence:
        """Words for the answer, or why there are none. Failures of the model's server are not raised.

        Raises:
            Overloaded: too much work is waiting.
        """
        if not self.is_wanted(request.wanted, request.backend):
            return Sentence(outcome="off")
        if len(request.query) > _MAX_QUERY:
            return Sentence(outcome="unfit", reason="the request is long")
        end = asyncio.get_running_loop().time() + min(self._timeout_s, request.deadline_ms / 1000 * _SHARE)
        try:
            slots = await self._pool.run(slots_of, request.compiled)
            completion = await self._model.write(sentence_messages(request.query, slots), MAX_TOKENS, end)
            return await self._pool.run(_read, completion, slots, request.query)
        except NotExpressible as error:
            return Sentence(outcome="unfit", reason=str(error))
        except ChatError as error:
            return Sentence(outcome="failed", reason=str(error)[:300])


def _read(completion: Completion, slots: Sequence[SentenceSlot], query: str) -> Sentence:
    if completion.finish not in ("stop", ""):
        return Sentence(outcome="refused", reason="it was cut off")
    try:
        return Sentence(outcome="written", pieces=read_template(completion.text, slots, query))
    except SentenceRejected as error:
        return Sentence(outcome="refused", reason=str(error)[:300])
