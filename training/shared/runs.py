"""Helpers of training runs: reading a recipe from a file, and showing progress."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evals.data import DataError, explain

Recipe = TypeVar("Recipe", bound=BaseModel)


def read_recipe(kind: type[Recipe], file: Path | None) -> Recipe:
    """Read a recipe from a JSON file with the fields that differ from the defaults; without a file, the defaults.

    Raises:
        DataError: the file is not valid, or cannot be read.
    """
    if file is None:
        return kind()
    try:
        return kind.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise DataError(f"{file}: {explain(error)}") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from None


def progress_on(console: Console) -> Progress:
    """Bars with the number done and the time left; they disappear at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
