"""Outcomes of the documents of a bulk import."""

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from deploy.cli.reasons import general
from deploy.cli.sources import Source
from deploy.drawing import counted, plain
from services.contracts.api import ImportChange, ImportReport

_REASONS = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one document: a report, an error, or neither if it was in the catalogue already."""

    source: Source
    report: ImportReport | None = None
    changes: list[ImportChange] = field(default_factory=list)
    error: str = ""


class Tally:
    """Collects and counts outcomes.

    Args:
        dry_run: whether the import changes nothing.
    """

    def __init__(self, *, dry_run: bool) -> None:
        self._dry_run = dry_run
        self._outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Add an outcome."""
        self._outcomes.append(outcome)

    def accept(self, held: Outcome, report: ImportReport) -> None:
        """Count a document that was held back as imported."""
        self._outcomes[self._outcomes.index(held)] = Outcome(held.source, report)

    @property
    def failed(self) -> list[Outcome]:
        """Outcomes with an error."""
        return [outcome for outcome in self._outcomes if outcome.error]

    @property
    def imported(self) -> list[str]:
        """The providers of the documents that were imported."""
        return [o.report.provider for o in self._outcomes if o.report is not None and o.report.applied]

    @property
    def held(self) -> list[Outcome]:
        """Documents held back because they would change or remove APIs."""
        return [] if self._dry_run else self._unapplied()

    @property
    def previewed(self) -> list[Outcome]:
        """In a dry run, the documents that would change or remove APIs."""
        return [o for o in self._unapplied() if self._dry_run and o.report and o.report.updated + o.report.removed]

    def _unapplied(self) -> list[Outcome]:
        return [outcome for outcome in self._outcomes if outcome.report is not None and not outcome.report.applied]

    def print(self, console: Console, asked: int) -> None:
        """Print the numbers of documents and operations by outcome."""
        reports = [outcome.report for outcome in self._outcomes if outcome.report is not None]
        table = Table("documents", "", "operations", "", box=None)
        there = len(self._outcomes) - len(reports) - len(self.failed)
        documents = {
            "would be imported" if self._dry_run else "imported": len(reports) - len(self.held),
            "already present": there,
            "held back": len(self.held),
            "failed": len(self.failed),
            "not processed": asked - len(self._outcomes),
        }
        operations = {name: sum(getattr(r, name) for r in reports) for name in _COUNTS}
        operations |= {"skipped": sum(r.skipped_total for r in reports)}
        for (one, documents_count), (two, count) in zip(documents.items(), operations.items(), strict=True):
            table.add_row(one, f"{documents_count:,}", two, f"{count:,}")
        console.print(table)
        _print_reasons(console, reports)
        if related := sum(report.related_total for report in reports):
            console.print(f"{counted(related)} like another API, or a version of it")
        if warnings := sum(len(report.warnings) for report in reports):
            console.print(f"{counted(warnings, 'warning')}; importing a single document shows them")


_COUNTS = ("added", "updated", "unchanged", "removed")


def _print_reasons(console: Console, reports: list[ImportReport]) -> None:
    """Print the most frequent reasons for skipped operations, without names and numbers."""
    first_parts = (skipped.reason.partition(": ")[0] for report in reports for skipped in report.skipped)
    skipped = [general(reason) for reason in first_parts]
    reasons = Counter(skipped).most_common()
    for reason, times in reasons[:_REASONS]:
        console.print(plain(f"  {times:,} skipped: {reason}"))
    unnamed = sum(report.skipped_total - len(report.skipped) for report in reports)
    if rest := unnamed + sum(times for _, times in reasons[_REASONS:]):
        console.print(f"  {rest:,} skipped for other reasons")
