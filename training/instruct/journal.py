"""What a model has answered, kept as it comes, so that a run that was killed asks nothing twice.

``journal.jsonl`` begins with a line that says what the run is of; every further line is an answer: whose question it
was, what was taken of it, and why the rest was dropped.
"""

from __future__ import annotations

import fcntl
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel

from evals.data import DataError, read_lines
from training.instruct.refusals import Reason

JOURNAL: Final = "journal.jsonl"


class Head(BaseModel):
    """What a run is of; one that goes on must be of the same.

    Attributes:
        model: that is asked.
        catalogue: hash of the APIs that requests are made for; None: tools are made, too.
        seed: of what is drawn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    catalogue: str | None
    seed: int


class Answer(BaseModel):
    """One answer.

    Attributes:
        task: what was asked for: ``fields``, ``subfields/FIELD``, ``tools/FIELD/SUBFIELD``, ``single/3``.
        tokens: that question and answer took.
        found: what was taken of it.
        dropped: how much was not, by reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field(pattern=r"^(fields|subfields/[^/]+|tools/[^/]+/[^/]+|(single|multiple|nested)/[0-9]+)$")
    tokens: int
    found: tuple[JsonValue, ...] = ()
    dropped: dict[Reason, int] = {}


_Line = RootModel[Head | Answer]


class Journal:
    """The answers so far, in their order.

    Args:
        folder: where it is, or will be.
        head: what the run is of.

    Raises:
        DataError: the folder holds something else, or the journal of another run, or one that cannot be read, or
            another process writes it.
    """

    def __init__(self, folder: Path, head: Head) -> None:
        file = folder / JOURNAL
        if folder.is_dir() and not file.exists() and any(folder.iterdir()):
            raise DataError(f"{folder} holds something else: give an empty folder, or one that this command began")
        self.tokens = 0
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = file.open("a+b")
        except OSError as error:
            raise DataError(f"{file} cannot be written: {error.strerror}") from None
        try:
            self._begin(file, head)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self._file.close()

    def add(self, answer: Answer) -> None:
        """Keep an answer, on the disk too."""
        self._write(answer)
        self._count(answer)

    def found(self, task: str) -> list[JsonValue]:
        """What was taken for a task so far."""
        return [one for answer in self._answers.get(task, ()) for one in answer.found]

    def fruitless(self, task: str) -> Sequence[Answer]:
        """The task's last answers of which nothing was taken."""
        answers = self._answers.get(task, [])
        last = max((number for number, answer in enumerate(answers, 1) if answer.found), default=0)
        return answers[last:]

    def tasks(self, stage: str) -> dict[str, list[JsonValue]]:
        """What was taken in a stage, by task."""
        return {task: self.found(task) for task in self._answers if task.partition("/")[0] == stage}

    def counts(self, stage: str) -> tuple[int, int, Counter[Reason]]:
        """Answers of a stage, what was taken of them, and what was dropped by reason."""
        answers = [one for task, listed in self._answers.items() if task.partition("/")[0] == stage for one in listed]
        dropped = Counter[Reason]()
        for answer in answers:
            dropped.update(answer.dropped)
        return len(answers), sum(len(answer.found) for answer in answers), dropped

    def _begin(self, file: Path, head: Head) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"{file} is being written by another process") from None
        self._file.seek(0)
        torn = self._file.read().rpartition(b"\n")[2]  # of a process that was killed while it wrote
        self._file.truncate(self._file.tell() - len(torn))
        lines = [line.root for _, line in read_lines(file, _Line)]
        if not lines:
            self._write(head)
        elif lines[0] != head:
            raise DataError(f"{file.parent} was begun with another model, catalogue or seed: give another folder")
        for answer in lines[1:]:
            if not isinstance(answer, Answer):
                raise DataError(f"{file} begins twice")
            self._count(answer)

    def _count(self, answer: Answer) -> None:
        self._answers[answer.task].append(answer)
        self.tokens += answer.tokens

    def _write(self, line: BaseModel) -> None:
        self._file.write(line.model_dump_json().encode() + b"\n")
        self._file.flush()
