"""The sandbox's evaluation questions.

``questions_dev.jsonl`` may be read while tuning a planner. ``questions_heldout.jsonl`` may not; it is for reporting.
Both come from the same distribution. Each row holds an id, the question's text, its kind, the values that an answer
must contain (answers, not plans), the expected status, optional context and options for the request, and a note that
explains the answer. ``solutions.jsonl`` holds plain HTTP calls that lead to each answer. The test of the questions'
soundness uses it. ``recorded`` uses the solutions of the dev questions as training data.
"""

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def read_questions(split: str) -> list[dict[str, Any]]:
    """The questions of one part, ``dev`` or ``heldout``."""
    return _read(f"questions_{split}.jsonl")


def read_solutions() -> dict[str, dict[str, Any]]:
    """The solutions by question id: the calls, and the paths to the answers in their outputs."""
    return {row["id"]: row for row in _read("solutions.jsonl")}


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_HERE / name).read_text("utf-8").splitlines()]
