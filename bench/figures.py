"""What is measured, what was hoped for, and the table of both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


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


def print_figures(console: Console, title: str, figures: Iterable[Figure]) -> None:
    """A table of figures."""
    table = Table("measure", "value", "unit", "target", "", title=title)
    for figure in figures:
        table.add_row(*figure.cells())
    console.print(table)


def print_matrix(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of runners side by side."""
    table = Table("", *columns, title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)
