"""What an import says of many operations, said once each with how often."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")
_OPERATION = re.compile(r"([A-Z]{3,7} \S+): ")


@dataclass(frozen=True, slots=True)
class Group:
    """Operations of which the same is said.

    Attributes:
        reason: what is said; its particulars are left out where there are several.
        times: how often.
        first: the first operation; empty where none is named.
    """

    reason: str
    times: int
    first: str = ""

    def __str__(self) -> str:
        if self.times == 1:
            return f"{self.first}: {self.reason}" if self.first else self.reason
        return f"{self.times:,} times: {self.reason}" + (f" (first: {self.first})" if self.first else "")


def grouped(said: Iterable[tuple[str, str]]) -> list[Group]:
    """Pairs of an operation and what is said of it, grouped without names and numbers, the most frequent first."""
    found = dict[str, list[tuple[str, str]]]()
    for operation, reason in said:
        found.setdefault(general(reason), []).append((operation, reason))
    groups = []
    for shape, members in found.items():
        operation, reason = members[0]
        alike = all(other == reason for _, other in members)
        groups.append(Group(reason if alike else shape, len(members), operation))
    return sorted(groups, key=lambda group: -group.times)


def general(reason: str) -> str:
    """A reason without its particulars."""
    return _PARTICULARS.sub("…", reason)


def told(note: str) -> tuple[str, str]:
    """The operation that a note begins with, if any, and the rest of it."""
    match = _OPERATION.match(note)
    return (match[1], note[match.end() :]) if match else ("", note)
