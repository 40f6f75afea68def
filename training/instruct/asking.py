"""Asks a model for tasks concurrently until each has enough results, and records the answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue

from planner_svc.backends.served.prompt import estimate_tokens
from planner_svc.backends.served.reply import json_values
from services.clients.chat import ChatError, ChatModel, Completion, Message
from services.codecs.text import CodecError, read_json
from training.instruct.journal import Answer, Journal
from training.instruct.refusals import MEANINGS, Reason, Refusal

MAX_FRUITLESS: Final = 3
"""After this many answers in a row without an accepted result, a task is given up."""
PAUSES_S: Final = (1.0, 5.0, 20.0)
"""Pauses before retries after a server error, in seconds."""


class Task(Protocol):
    """Something to ask the model for."""

    @property
    def key(self) -> str:
        """Its name in the journal. The first part is the stage."""
        ...

    @property
    def want(self) -> int:
        """The number of wanted results."""
        ...

    def prompt(self, found: Sequence[JsonValue], why: str) -> list[Message]:
        """The question, given the results so far and the problem of the last answer."""
        ...

    def read(self, values: Sequence[JsonValue]) -> list[JsonValue]:
        """The candidates in an answer, given the JSON in it. Raises Refusal if there are none."""
        ...

    def check(self, value: JsonValue) -> JsonValue:
        """The accepted form of a candidate. Raises Refusal."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How to ask the model.

    Attributes:
        concurrency: number of concurrent questions.
        max_tokens: of one answer.
        timeout_s: for one answer, in seconds.
        budget: total tokens of all questions and answers, including earlier runs; None: no limit.
        pauses_s: pauses before retries after a server error.
    """

    concurrency: int = 4
    max_tokens: int = 2_048
    timeout_s: float = 300.0
    budget: int | None = None
    pauses_s: tuple[float, ...] = PAUSES_S


class Asker:
    """Works through tasks.

    Args:
        chat: the model.
        journal: records the answers.
        terms: how to ask the model.
    """

    def __init__(self, chat: ChatModel, journal: Journal, terms: Terms) -> None:
        self._chat, self._journal, self._terms = chat, journal, terms
        self._reserved = 0
        self._answered = False
        self.spent = False
        """Whether it has stopped because another answer could exceed the budget."""

    async def work(self, tasks: Iterable[Task], progress: Callable[[int], None]) -> None:
        """Work through tasks until each has enough results or was given up, or until the budget is spent.

        Args:
            tasks: in the order in which to start them.
            progress: called with the number of new results.

        Raises:
            ChatError: the server does not work, or refuses every request.
        """
        waiting = deque(tasks)

        async def worker() -> None:
            while waiting and not self.spent:
                await self._collect(waiting.popleft(), progress)

        workers = [asyncio.ensure_future(worker()) for _ in range(self._terms.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _collect(self, task: Task, progress: Callable[[int], None]) -> None:
        while True:
            found, fruitless = self._journal.found(task.key), self._journal.fruitless(task.key)
            if len(found) >= task.want or len(fruitless) >= MAX_FRUITLESS or self.spent:
                return
            why = "; ".join(MEANINGS[reason] for reason in fruitless[-1].dropped) if fruitless else ""
            messages = task.prompt(found, why)
            cost = sum(estimate_tokens(message["content"]) for message in messages)
            answer = await self._answer(task, messages, cost)
            if answer is None:
                return
            self._journal.add(answer)
            progress(len(answer.found))

    async def _answer(self, task: Task, messages: Sequence[Message], cost: int) -> Answer | None:
        """The next answer, parsed and checked; None if the budget does not allow one."""
        most = cost + self._terms.max_tokens
        budget = self._terms.budget
        if budget is not None and self._journal.tokens + self._reserved + most > budget:
            self.spent = True
            return None
        self._reserved += most
        try:
            completion = await self._complete(messages)
        except ChatError as error:
            if error.trouble not in ("late", "refused") or not (self._answered or error.trouble == "late"):
                raise
            reason: Reason = "late" if error.trouble == "late" else "refused"
            return Answer(task=task.key, tokens=_tokens(error.partial, cost), dropped={reason: 1})
        finally:
            self._reserved -= most
        self._answered = True
        return self._judged(task, completion, _tokens(completion, cost))

    def _judged(self, task: Task, completion: Completion, tokens: int) -> Answer:
        cut = completion.finish in ("length", "cut")
        room = task.want - len(self._journal.found(task.key))
        found: list[JsonValue] = []
        dropped = Counter[Reason]()
        try:
            candidates = task.read([_sound(value) for value in json_values(completion.text, cut=cut)])
        except Refusal as refusal:
            candidates = []
            dropped["cut" if cut else refusal.reason] += 1
        for candidate in candidates:
            if len(found) == room:
                break
            try:
                found.append(task.check(candidate))
            except Refusal as refusal:
                dropped[refusal.reason] += 1
        return Answer(task=task.key, tokens=tokens, found=tuple(found), dropped=dict(dropped))

    async def _complete(self, messages: Sequence[Message]) -> Completion:
        for pause in (*self._terms.pauses_s, None):
            try:
                return await self._chat.complete(
                    messages, max_tokens=self._terms.max_tokens, deadline_s=self._terms.timeout_s
                )
            except ChatError as error:
                if pause is None or error.trouble in ("denied_access", "late", "refused"):
                    raise
                await asyncio.sleep(max(pause, error.retry_after_s or 0.0))
        raise AssertionError  # the last attempt returns or raises


def _tokens(completion: Completion | None, cost: int) -> int:
    """The server's token counts; else upper estimates."""
    if completion is None:
        return cost
    written = estimate_tokens(completion.text + completion.reasoning)
    prompt, answer = completion.prompt_tokens, completion.completion_tokens
    return (cost if prompt is None else prompt) + (max(written, completion.tokens) if answer is None else answer)


def _sound(value: JsonValue) -> JsonValue:
    """The value as a file can hold it. Raises Refusal if it is too deep, or has lone surrogates or huge numbers."""
    try:
        return read_json(json.dumps(read_json(value), ensure_ascii=False))
    except CodecError:
        raise Refusal("form") from None
