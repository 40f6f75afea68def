"""Finds names that are twice in one object of a document. Parsers keep the last value and drop the others silently."""

import re
from collections.abc import Callable, Iterator

import yaml

from retriever_svc.importers.limits import MAX_NAME, MAX_NOTES
from services.compute import checkpoint

Warn = Callable[[str], None]
_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*+:)?|[\[\]{}]', re.DOTALL)
_CHECK_EVERY = 256
_SHOWN_PARENTS = 2


class Repeats:
    """Follows the objects and lists of a document as they open and close, and warns of repeated names."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._left = MAX_NOTES
        self._open = list[dict[str, int] | None]()
        self._last = [""]

    def begin(self, *, is_object: bool) -> None:
        """An object or a list begins."""
        self._open.append({} if is_object else None)
        self._last.append("")

    def end(self) -> None:
        """The innermost object or list ends."""
        self._open.pop()
        self._last.pop()

    def name(self, name: str, line: int) -> None:
        """A member of the innermost object begins in this line, from 1."""
        if (seen := self._open[-1]) is None:
            return
        self._last[-1] = name
        if name not in seen:
            seen[name] = line
        elif self._left > 0:
            self._left -= 1
            parents = "".join(f" of {parent[:MAX_NAME]!r}" for parent in self._last[-2:0:-1][:_SHOWN_PARENTS] if parent)
            lines = f"line {line}" if seen[name] == line else f"lines {seen[name]} and {line}"
            self._warn(f"{name[:MAX_NAME]!r}{parents} is there twice, in {lines}: only the last one is read")


def warn_of_repeats(text: str, warn: Warn) -> None:
    """Warn of the repeated names of a text that was read as JSON or as JSON lines."""
    repeats = Repeats(warn)
    for token, line in _tokens(text):
        if token[0] in "{[":
            repeats.begin(is_object=token[0] == "{")
        elif token[0] in "]}":
            repeats.end()
        elif token[2]:
            repeats.name(token[1], line)


def _tokens(text: str) -> Iterator[tuple[re.Match[str], int]]:
    line, counted = 1, 0
    for number, token in enumerate(_TOKEN.finditer(text)):
        if number % _CHECK_EVERY == 0:
            checkpoint()
        line += text.count("\n", counted, token.start())
        counted = token.start()
        yield token, line


class YamlRepeats:
    """Warns of the repeated names of a YAML document, from its events. Merge keys (``<<``) may be repeated."""

    def __init__(self, warn: Warn) -> None:
        self._repeats = Repeats(warn)
        self._at_name = list[bool | None]()
        """For each open collection whether a name is next; None in a list."""

    def see(self, event: yaml.Event) -> None:
        """The next event of the document."""
        if isinstance(event, yaml.CollectionEndEvent):
            self._at_name.pop()
            self._repeats.end()
            return
        if not isinstance(event, yaml.NodeEvent):
            return
        if self._at_name and (is_name := self._at_name[-1]) is not None:
            self._at_name[-1] = not is_name
            if is_name and isinstance(event, yaml.ScalarEvent) and event.value != "<<":
                self._repeats.name(event.value, event.start_mark.line + 1 if event.start_mark else 0)
        if isinstance(event, yaml.CollectionStartEvent):
            is_object = isinstance(event, yaml.MappingStartEvent)
            self._at_name.append(True if is_object else None)
            self._repeats.begin(is_object=is_object)
