"""Groups equal messages about many operations, with their counts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAMES_AND_NUMBERS = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")
_OPERATION = re.compile(r"([A-Z]{3,7} \S+): ")


@dataclass(frozen=True, slots=True)
class Group:
    """Operations with the same message.

    Attributes:
        reason: the message; names and numbers are left out if they differ.
        times: number of operations.
        first: the first operation; empty if none is named.
    """

    reason: str
    times: int
    first: str = ""

    def __str__(self) -> str:
        if self.times == 1:
            return f"{self.first}: {self.reason}" if self.first else self.reason
        return f"{self.times:,} times: {self.reason}" + (f" (first: {self.first})" if self.first else "")


def grouped(messages: Iterable[tuple[str, str]]) -> list[Group]:
    """Group pairs of an operation and its message, ignoring names and numbers in messages; most frequent first."""
    found = dict[str, list[tuple[str, str]]]()
    for operation, reason in messages:
        found.setdefault(general(reason), []).append((operation, reason))
    groups = []
    for shape, members in found.items():
        operation, reason = members[0]
        alike = all(other == reason for _, other in members)
        groups.append(Group(reason if alike else shape, len(members), operation))
    return sorted(groups, key=lambda group: -group.times)


def general(reason: str) -> str:
    """A message without its quoted names and numbers."""
    return _NAMES_AND_NUMBERS.sub("…", reason)


def split_operation(note: str) -> tuple[str, str]:
    """Split a note into the operation that it begins with, if any, and the rest."""
    match = _OPERATION.match(note)
    return (match[1], note[match.end() :]) if match else ("", note)
