"""Shows changes of APIs to the person who has to accept them."""

import unicodedata
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from deploy.drawing import visible
from services.changes import SameChange, grouped
from services.contracts.api import ImportChange, ImportReport

FEW = 10
"""Changes of each kind that are shown unless the person asks for all."""

_CONTEXT = 50


def show_changes(console: Console, changes: Sequence[ImportChange], limit: int | None) -> None:
    """Print what would change, then what would be removed and added. Equal changes of many operations are shown once.

    ``limit``: how many of each to show; None: all.
    """
    found = grouped(changes)
    for group in found.groups[:limit]:
        for line in _lines(group, limit):
            console.print(line, soft_wrap=True)
    if limit is not None and len(found.groups) > limit:
        console.print(f"... and {len(found.groups) - limit:,} more changes")
    if found.left_out:
        console.print(Text(f"... and {found.left_out:,} more fields differ", "bold red"))
    for action, style in (("removed", "bold red"), ("added", "bold green")):
        for change in found.others[action][:limit]:
            console.print(Text(f"{action} {revealed(change.id)}", style), soft_wrap=True)
        if limit is not None and len(found.others[action]) > limit:
            console.print(f"... and {len(found.others[action]) - limit:,} more {action}")


def show_sensitive(console: Console, report: ImportReport) -> None:
    """Print sensitive changes: calls would go to another host, have another effect, or send another credential."""
    for change in report.sensitive:
        line = f"! {change.api}: {change.what} {change.before} becomes {change.after}"
        console.print(Text(revealed(line), "bold red"), soft_wrap=True)
    if (more := report.sensitive_total - len(report.sensitive)) > 0:
        console.print(Text(f"! ... and {more:,} more like these", "bold red"))


def show_affected(console: Console, report: ImportReport) -> None:
    """Print the demos and waiting runs that use an API that would change or be removed, broken ones first."""
    names = {"demo": "demonstration", "run": "waiting run"}
    for one in report.affected:
        sign, style = ("!", "bold red") if one.breaks else ("~", "")
        line = f"{sign} {names[one.kind]} {one.id}: {one.api}: {one.reason}"
        console.print(Text(revealed(line), style), soft_wrap=True)
    if (more := report.affected_total - len(report.affected)) > 0:
        console.print(f"~ ... and {more:,} more like these")


def _lines(group: SameChange, limit: int | None) -> Iterator[Text]:
    yield Text(revealed(group.title), "bold")
    yield from _sides(group)
    if group.total > 1:
        named = ", ".join(map(revealed, group.apis[:limit]))
        more = group.total - len(group.apis[:limit])
        yield Text(f"    in {named}" + (f" and {more:,} more" if more else ""), "dim")


def _sides(group: SameChange) -> Iterator[Text]:
    """The old and the new text. The difference is marked; of the equal parts only the context is shown."""
    start, end = _agreement(group.before or "", group.after or "")
    for sign, text, style in (("-", group.before, "red"), ("+", group.after, "green")):
        if text is not None:
            yield _side(sign, text, start, end, style)


def _side(sign: str, text: str, start: int, end: int, style: str) -> Text:
    first, last = max(0, start - _CONTEXT), len(text) - max(0, end - _CONTEXT)
    parts = (
        ("… " if first else "") + text[first:start],
        text[start : len(text) - end],
        text[len(text) - end : last] + (" …" if last < len(text) else ""),
    )
    line = Text(f"    {sign} ", style)
    for part, part_style in zip(parts, (style, f"bold reverse {style}", style), strict=True):
        line.append(revealed(part).replace("\n", f"\n    {sign} "), part_style)
    return line


def _agreement(one: str, other: str) -> tuple[int, int]:
    """The lengths of the common prefix and of the common suffix."""
    shorter = min(len(one), len(other))
    start = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    end = next((i for i in range(shorter - start) if one[-1 - i] != other[-1 - i]), shorter - start)
    return start, end


def revealed(text: str) -> str:
    """The text with invisible characters written as escapes, because they can hide instructions."""
    shown = (f"\\u{{{ord(c):x}}}" if unicodedata.category(c) in ("Cf", "Co", "Cn", "Cs") else c for c in text)
    return visible("".join(shown))
