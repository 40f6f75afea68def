"""The sandbox's evaluation questions.

``questions_dev.jsonl`` may be looked at while a planner is being tuned; ``questions_heldout.jsonl`` may not, it is for
reporting. Both are drawn from the same distribution. Each row holds an id, the question in words, its kind, the values
an answer must hold (answers, not plans), the status expected, perhaps context and options for the request, and a note
on how the answer is known. ``solutions.jsonl`` holds plain HTTP calls that lead to each answer: the test that the
questions are sound reads it, and of the first file's questions ``recorded``, for a planner to learn from.
"""

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def read_questions(split: str) -> list[dict[str, Any]]:
    """The questions of one part, ``dev`` or ``heldout``."""
    return _read(f"questions_{split}.jsonl")


def read_solutions() -> dict[str, dict[str, Any]]:
    """For each answerable question's id, the calls that answer it and where in their outputs each answer stands."""
    return {row["id"]: row for row in _read("solutions.jsonl")}


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_HERE / name).read_text("utf-8").splitlines()]
