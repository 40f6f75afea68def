"""What is measured, what was hoped for, and the tables of both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

MARK = "<!-- Written by `python -m bench --write`, from here to the end. -->"
WIDTH = 110
"""Columns of the tables, also where nobody looks at them."""


class Skipped(Exception):
    """A section cannot be measured here; the message says what it needs."""


@dataclass(frozen=True)
class Figure:
    """One line of the table. ``target`` is a bound from above, or with ``at_least`` from below."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """Whether there is a target, and it is not met."""
        if self.target is None:
            return False
        return self.value < self.target if self.at_least else self.value > self.target

    def cells(self) -> tuple[str, str, str, str, str]:
        """Name, value, unit, target, verdict."""
        target = "" if self.target is None else f"{'>=' if self.at_least else '<='} {self.target:g}"
        verdict = "" if self.target is None else "MISSED" if self.missed else "ok"
        return self.name, _digits(self.value), self.unit, target, verdict


def _digits(value: float) -> str:
    """Three significant digits, and no fewer than are before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Report:
    """Tables on a terminal, kept to be written into a page as well."""

    def __init__(self) -> None:
        self._console = Console()
        self._console.width = max(self._console.width, WIDTH)
        self._pages: list[str] = []

    def figures(self, title: str, figures: Iterable[Figure]) -> None:
        """A table of figures with their targets."""
        self.table(title, ("measure", "value", "unit", "target", ""), [figure.cells() for figure in figures])

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Any table."""
        shown = Table(*columns, title=title)
        for row in rows:
            shown.add_row(*row)
        self._console.print(shown)
        lines = (columns, ["---"] * len(columns), *rows)
        self._pages.append("\n".join([f"**{title}**", "", *(f"| {' | '.join(line)} |" for line in lines)]))

    def note(self, line: str) -> None:
        """A line of text."""
        self._console.print(line)
        self._pages.append(line)

    def write(self, page: Path) -> None:
        """Put the tables into a page, in place of what stands behind its mark."""
        before = page.read_text("utf-8").partition(MARK)[0]
        page.write_text("\n\n".join([before + MARK, *self._pages]) + "\n", "utf-8")
