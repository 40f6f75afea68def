"""Records a model's answers as they come, so that a run that was killed asks nothing twice.

The first line of ``journal.jsonl`` identifies the run. Every further line is an answer: the task that it belongs to,
its accepted results, and why the others were dropped.
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
    """Identifies a run. A run can only be continued with the same values.

    Attributes:
        model: the model that is asked.
        catalogue: hash of the APIs that requests are generated for; None: tools are generated, too.
        seed: of all random draws.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    catalogue: str | None
    seed: int


class Answer(BaseModel):
    """One answer.

    Attributes:
        task: what was asked for: ``fields``, ``subfields/FIELD``, ``tools/FIELD/SUBFIELD``, ``single/3``.
        tokens: of question and answer.
        found: accepted results.
        dropped: number of dropped results, by reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field(pattern=r"^(fields|subfields/[^/]+|tools/[^/]+/[^/]+|(single|multiple|nested)/[0-9]+)$")
    tokens: int
    found: tuple[JsonValue, ...] = ()
    dropped: dict[Reason, int] = {}


_Line = RootModel[Head | Answer]


class Journal:
    """The answers so far, in order.

    Args:
        folder: holds the journal; created if missing.
        head: identifies the run.

    Raises:
        DataError: the folder holds something else, the journal of another run or one that cannot be read, or another
            process is writing it.
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
        """Add an answer and write it to disk."""
        self._write(answer)
        self._count(answer)

    def found(self, task: str) -> list[JsonValue]:
        """The accepted results of a task so far."""
        return [one for answer in self._answers.get(task, ()) for one in answer.found]

    def fruitless(self, task: str) -> Sequence[Answer]:
        """The task's latest answers without an accepted result."""
        answers = self._answers.get(task, [])
        last = max((number for number, answer in enumerate(answers, 1) if answer.found), default=0)
        return answers[last:]

    def tasks(self, stage: str) -> dict[str, list[JsonValue]]:
        """The accepted results of a stage, by task."""
        return {task: self.found(task) for task in self._answers if task.partition("/")[0] == stage}

    def counts(self, stage: str) -> tuple[int, int, Counter[Reason]]:
        """The numbers of answers and accepted results of a stage, and of dropped results by reason."""
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
        torn = self._file.read().rpartition(b"\n")[2]  # left by a process that was killed while writing
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
