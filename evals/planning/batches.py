"""Measures a language model that cannot be called directly: prompts are written to a file, answers are read from files.

The files have the format of OpenAI's Batch API, which other servers accept as well: one request per line, one answer
per line, in any order. A request is identified by its content (``custom_id`` is a hash of the conversation). So an
answer is used for exactly the prompt that it was given to.

Two language models replace the one behind a server. :class:`RecordingModel` records its prompts.
:class:`ReplayingModel` answers from files and passes on the prompts that these do not answer. A conversation may go on
after the first answer: one turn to repair a plan, or missing operations. It stops where there is no answer yet, and the
next file of prompts holds its next turn. So each round reads the answers of the round before and writes the prompts of
the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import JsonValue

from evals.data import DataError
from planner_svc.settings import ServedSettings
from services.clients.answers import Collected, Completion, Malformed
from services.clients.chat import MAX_BYTES, ChatError, ChatModel, Message

_URL = "/v1/chat/completions"
_CHUNK = 1 << 20
_MOST_SHOWN = 5


class NotAnswered(Exception):
    """The conversation cannot continue until its next prompt is answered. The prompt is recorded."""


class RecordingModel:
    """A language model that records its prompts and answers none.

    Args:
        model: its name.
        temperature: the requested temperature.
    """

    def __init__(self, model: str, temperature: float = 0.0) -> None:
        self._model, self._temperature = model, temperature
        self._rows: dict[str, bytes] = {}

    @property
    def model(self) -> str:
        """Its name."""
        return self._model

    @property
    def prompts(self) -> int:
        """How many different prompts were recorded."""
        return len(self._rows)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        deadline_s: float,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Completion:
        """Record the prompt. Always raises NotAnswered."""
        key = prompt_id(messages)
        body = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "max_completion_tokens": max_tokens,
            "temperature": self._temperature,
            **(extra or {}),
        }
        self._rows[key] = orjson.dumps({"custom_id": key, "method": "POST", "url": _URL, "body": body})
        raise NotAnswered(key)

    async def probe(self, deadline_s: float) -> None:
        """Do nothing: there is no server to probe."""

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def write(self, file: Path) -> None:
        """Write the recorded prompts, one per line, in the order of asking.

        Raises:
            DataError: the file cannot be written.
        """
        try:
            with file.open("wb") as out:
                out.writelines(row + b"\n" for row in self._rows.values())
        except OSError as error:
            raise DataError(f"{file} cannot be written: {error.strerror}") from None


class ReplayingModel:
    """A language model that answers from files.

    Args:
        answers: the content of the files.
        model: its name, if the answers do not state it.
        otherwise: answers prompts that the files do not; None: such a prompt fails, as if the server were down.
    """

    def __init__(self, answers: Answers, model: str, otherwise: ChatModel | None = None) -> None:
        self._answers, self._model, self._otherwise = answers, model, otherwise

    @property
    def model(self) -> str:
        """Its name, as stated in the answers."""
        return ", ".join(sorted(self._answers.models)) or self._model

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        deadline_s: float,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Completion:
        """Return the answer to this prompt.

        Raises:
            ChatError: there is no answer or an error, and no other model to ask.
            NotAnswered: there is no answer or an error, and the prompt was recorded.
        """
        key = prompt_id(messages)
        found = self._answers.found.get(key)
        self._answers.used.add(key)
        if isinstance(found, Completion):
            return found
        if self._otherwise is not None:
            return await self._otherwise.complete(messages, max_tokens=max_tokens, deadline_s=deadline_s, extra=extra)
        raise ChatError("down", found or f"the files have no answer to {key}")

    async def probe(self, deadline_s: float) -> None:
        """Do nothing: there is no server to probe."""

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""


@dataclass(slots=True)
class Answers:
    """The content of files of answers.

    Attributes:
        found: by ``custom_id``, the completion or the error. The first completion counts, and a completion replaces an
            error. So the answers of a second attempt can simply be added.
        models: names of the models that answered.
        again: number of lines for prompts that already have an answer.
        unreadable: lines that are not answers, as ``FILE, line N: why``.
        used: ids that were asked for.
    """

    found: dict[str, Completion | str] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    again: int = 0
    unreadable: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def summary(self) -> Iterator[str]:
        """Sentences that summarise the answers. Call it when all requests have been asked."""
        completions = {key for key, one in self.found.items() if isinstance(one, Completion)}
        yield f"{len(completions & self.used)} of {len(self.used)} prompts are answered."
        counts = (
            (len((self.found.keys() - completions) & self.used), "have an error in place of an answer"),
            (len(self.used - self.found.keys()), "have no line"),
        )
        yield from (f"{count} {what}." for count, what in counts if count)
        if unknown := len(self.found.keys() - self.used):
            yield f"{unknown} answers belong to no prompt of this measurement."
        if self.again:
            yield f"{self.again} lines answer what was answered before; the first answer counts."
        yield from (f"Not read: {line}" for line in self.unreadable[:_MOST_SHOWN])
        if (more := len(self.unreadable) - _MOST_SHOWN) > 0:
            yield f"Nor were {more} further lines."


@dataclass(frozen=True, slots=True)
class Batch:
    """The files of one measurement.

    Attributes:
        chat: the language model that stands for the files.
        answers: their content; None: there are no answers yet.
        recording: records unanswered prompts, with the file to write; None: unanswered prompts are not recorded.
    """

    chat: ChatModel
    answers: Answers | None = None
    recording: tuple[RecordingModel, Path] | None = None

    def close(self) -> list[str]:
        """Write the recorded prompts and return notes about the measurement.

        Raises:
            DataError: the file cannot be written.
        """
        notes = list(self.answers.summary()) if self.answers is not None else []
        if self.recording is not None:
            recording, file = self.recording
            recording.write(file)
            notes.append(f"{recording.prompts} prompts written to {file}.")
        return notes


async def open_batch(requests_out: Path | None, responses_in: Sequence[Path], settings: ServedSettings) -> Batch:
    """Open the files of a measurement: existing answers, and the file for unanswered prompts.

    Raises:
        DataError: a file of answers is not valid, or the file for prompts cannot be written.
    """
    if requests_out is not None:
        RecordingModel(settings.model).write(requests_out)  # fail early if the file cannot be written
    recording = RecordingModel(settings.model, settings.temperature) if requests_out is not None else None
    record = (recording, requests_out) if recording is not None and requests_out is not None else None
    if not responses_in:
        assert recording is not None  # at least one of the two options is set
        return Batch(recording, recording=record)
    answers = await read_answers(responses_in)
    return Batch(ReplayingModel(answers, settings.model, recording), answers, record)


def prompt_id(messages: Sequence[Message]) -> str:
    """The id of a conversation."""
    said = orjson.dumps([[message["role"], message["content"]] for message in messages])
    return f"nestor-{hashlib.sha256(said).hexdigest()[:32]}"


async def read_answers(files: Sequence[Path]) -> Answers:
    """Read files of answers.

    A malformed line loses only its own answer. Only the needed parts of a line are kept, so that hostile lines cost no
    memory.

    Raises:
        DataError: a file cannot be read, or no file holds a valid answer.
    """
    answers = Answers()
    for file in files:
        try:
            for number, line in _lines(file):
                await _take(answers, f"{file.name}, line {number}", line)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None
    if not answers.found:
        why = answers.unreadable[0] if answers.unreadable else f"{files[0].name} is empty"
        raise DataError(f"there is no answer of a batch: {why}")
    return answers


def _lines(file: Path) -> Iterator[tuple[int, bytes | None]]:
    """The non-blank lines with their numbers; None for a line that is too long."""
    with file.open("rb") as lines:
        number = 0
        while line := lines.readline(MAX_BYTES + 1):
            number += 1
            if len(line) <= MAX_BYTES:
                if line.strip():
                    yield number, line
                continue
            while not line.endswith(b"\n") and (line := lines.readline(_CHUNK)):
                pass
            yield number, None


async def _take(answers: Answers, where: str, line: bytes | None) -> None:
    try:
        key, found, model = await _read(line)
    except Malformed as error:
        answers.unreadable.append(f"{where}: {error}")
        return
    before = answers.found.get(key)
    if isinstance(before, Completion):
        answers.again += 1
        return
    if isinstance(found, Completion) or before is None:
        answers.found[key] = found
    if model:
        answers.models.add(model)


async def _read(line: bytes | None) -> tuple[str, Completion | str, str]:
    """A line's id, its completion or error, and the model's name.

    Raises:
        Malformed: the line is not an answer of a batch.
    """
    if line is None:
        raise Malformed(f"longer than {MAX_BYTES} bytes")
    try:
        row: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise Malformed("invalid JSON") from None
    key = row.get("custom_id") if isinstance(row, dict) else None
    if not isinstance(key, str) or not key:
        raise Malformed("no custom_id")
    response = row.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    status = response.get("status_code", 200) if isinstance(response, dict) else None
    if row.get("error") or status != 200 or not isinstance(body, dict):
        return key, _error(row.get("error") or body, status), ""
    read = Collected(max_tokens=len(line))  # a batch keeps its own limit
    try:
        async for _ in read.read(_once(orjson.dumps(body)), "application/json"):
            pass
    except Malformed as error:
        return key, f"the answer is {error}", ""
    model = body.get("model")
    return key, read.completion(), model[:100] if isinstance(model, str) else ""


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _error(said: JsonValue, status: JsonValue) -> str:
    """The error of a line as a sentence."""
    inner = said.get("error", said) if isinstance(said, dict) else said
    message = inner.get("message") if isinstance(inner, dict) else inner
    text = message if isinstance(message, str) else "no answer"
    return f"the batch says ({status}): {' '.join(text.split())[:300]}"
