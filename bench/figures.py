"""Measured figures, their targets, and tables of both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

MARK = "<!-- Written by `python -m bench --write`, from here to the end. -->"
WIDTH = 110
"""Minimum width of the tables in columns, also if the output is not a terminal."""


class Skipped(Exception):
    """A section cannot be measured here. The message says what it needs."""


@dataclass(frozen=True)
class Figure:
    """One row of the table. ``target`` is an upper bound, or with ``at_least`` a lower bound."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """Whether there is a target that is not met."""
        if self.target is None:
            return False
        return self.value < self.target if self.at_least else self.value > self.target

    def cells(self) -> tuple[str, str, str, str, str]:
        """Name, value, unit, target, verdict."""
        target = "" if self.target is None else f"{'>=' if self.at_least else '<='} {self.target:g}"
        verdict = "" if self.target is None else "MISSED" if self.missed else "ok"
        return self.name, _digits(self.value), self.unit, target, verdict


def _digits(value: float) -> str:
    """Format with three significant digits, or more if the integer part has more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Report:
    """Prints tables to the terminal, and can write them into a page."""

    def __init__(self) -> None:
        self._console = Console()
        self._console.width = max(self._console.width, WIDTH)
        self._pages: list[str] = []

    def figures(self, title: str, figures: Iterable[Figure]) -> None:
        """Add a table of figures with their targets."""
        self.table(title, ("measure", "value", "unit", "target", ""), [figure.cells() for figure in figures])

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        shown = Table(*columns, title=title)
        for row in rows:
            shown.add_row(*row)
        self._console.print(shown)
        lines = (columns, ["---"] * len(columns), *rows)
        self._pages.append("\n".join([f"**{title}**", "", *(f"| {' | '.join(line)} |" for line in lines)]))

    def note(self, line: str) -> None:
        """Add a line of text."""
        self._console.print(line)
        self._pages.append(line)

    def write(self, page: Path) -> None:
        """Write the tables into a page, replacing everything after its mark."""
        before = page.read_text("utf-8").partition(MARK)[0]
        page.write_text("\n\n".join([before + MARK, *self._pages]) + "\n", "utf-8")
