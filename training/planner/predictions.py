"""Reads what ``nestor eval plan --predictions`` wrote about a planner, to fit its confidence or its judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from evals.data import DataError
from planner_svc.judging.fingerprint import fingerprint

Row = TypeVar("Row")


def read_predictions(model: Path, files: Sequence[Path], row_of: Callable[[dict[str, Any]], Row | None]) -> list[Row]:
    """The rows of all files.

    A line that names no model is accepted: it is about a language model that runs elsewhere.

    Args:
        model: the planner's folder.
        files: made with this model as it is now: its confidence is among what they hold.
        row_of: turns a line into a row; None leaves it out.

    Raises:
        DataError: a file is not valid, or was made with other weights or another confidence.
    """
    return list(_rows(fingerprint(model), files, row_of))


def _rows(model: str, files: Sequence[Path], row_of: Callable[[dict[str, Any]], Row | None]) -> Iterator[Row]:
    for file in files:
        try:
            for line in file.read_text(encoding="utf-8").splitlines():
                told = json.loads(line)
                if (made_with := told.get("model", "")) and made_with != model:
                    raise DataError(f"{file} was made with other weights or another confidence: measure again")
                if (row := row_of(told)) is not None:
                    yield row
        except DataError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__} {error}"
            raise DataError(f"{file} holds no predictions of `nestor eval plan`: {why}") from None
