"""What importing every document of a folder gives, as a table: ``python -m tests.documents_report FOLDER``.

A document without title and server is imported under its file's name. The exit status is 1 where an importer crashed.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from retriever_svc.importers import Imported, import_document
from services.errors import InvalidDocument

_PARTICULARS = re.compile(r"'[^']*'|#\S*|(?:[A-Z]+) /\S*|\d+")
_SHOWN = 200


@dataclass(slots=True)
class Report:
    """What was found in a folder; reasons without names and numbers, each with how often it occurred."""

    formats: Counter[str] = field(default_factory=Counter)
    operations: int = 0
    without_server: int = 0
    effects: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    crashed: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)

    def read(self, file: Path) -> None:
        """Import one file."""
        try:
            imported = _imported(file)
        except (InvalidDocument, UnicodeDecodeError) as refusal:
            self.refused[file.name] = getattr(refusal, "detail", str(refusal))
        except Exception as error:  # noqa: BLE001 - a crash is a finding; the others are still to be read
            self.crashed[file.name] = repr(error)
        else:
            self.formats[imported.format] += 1
            self.operations += len(imported.apis)
            self.without_server += sum(not api.server for api in imported.apis)
            self.effects += sum(api.effect is not None for api in imported.apis)
            self.skipped.update(_general(skipped.reason) for skipped in imported.skipped)
            self.warned.update(_general(warning.partition(": ")[2] or warning) for warning in imported.warnings)

    def print(self, console: Console) -> None:
        """The figures and one table."""
        formats = ", ".join(f"{number} {name}" for name, number in self.formats.most_common())
        skipped = sum(self.skipped.values())
        console.print(f"{sum(self.formats.values())} documents read ({formats}): {self.operations:,} operations")
        console.print(f"{skipped:,} operations skipped, {self.without_server:,} without a server")
        every = self.operations + skipped
        able = self.operations - self.without_server
        shares = f"{self.operations / every:.2%} can be planned, {able / every:.2%} have a server of their own to call"
        console.print(f"{shares}; {self.effects} reads change something" if every else "nothing was read")
        table = Table("what", "times", "why", box=None)
        for what, reasons in (("refused", self.refused), ("crashed", self.crashed)):
            for name, reason in reasons.items():
                table.add_row(what, "", f"{name}: {reason}")
        for what, counted in (("skipped", self.skipped), ("warning", self.warned)):
            for reason, number in counted.most_common(_SHOWN):
                table.add_row(what, str(number), reason)
        console.print(table)


def _imported(file: Path) -> Imported:
    text = file.read_text(encoding="utf-8")
    try:
        return import_document(text)
    except InvalidDocument as refusal:
        if "`provider`" not in refusal.detail:
            raise
        return import_document(text, provider=re.sub(r"[^a-z0-9]+", "-", file.name.lower()).strip("-")[:100])


def _general(reason: str) -> str:
    return _PARTICULARS.sub("_", reason)[:_SHOWN]


def main(folder: str) -> int:
    """Read every file of the folder."""
    report = Report()
    for file in sorted(path for path in Path(folder).iterdir() if path.is_file()):
        report.read(file)
    report.print(Console(width=200))
    return 1 if report.crashed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
