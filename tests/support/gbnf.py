"""Matches texts against a GBNF grammar as llama.cpp reads it. Supports only the notation that Nestor's grammars use."""

import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<set>\[(?:[^\]\\]|\\.)*\])|(?P<name>[a-zA-Z][\w-]*)|(?P<op>[()|*+?]|\{\d+,\d+\}))'
)

Node = tuple[str, Any]
"""Its kind (``text``, ``set``, ``name``, ``or``, ``and``, or a repetition) and its content."""


class Grammar:
    """A grammar with the start rule ``root``.

    Raises:
        ValueError: it cannot be read, or a rule is missing.
    """

    def __init__(self, text: str) -> None:
        self._rules: dict[str, Node] = {}
        for line in text.splitlines():
            name, arrow, body = line.partition(" ::= ")
            if not arrow or not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]*", name) or name in self._rules:
                raise ValueError(f"no rule: {line[:100]!r}")
            tokens = list(_tokens(body))
            self._rules[name] = _alternatives(tokens)
            if tokens:
                raise ValueError(f"more than a rule: {line[:100]!r}")
        for name in {name for rule in self._rules.values() for name in _names(rule)}:
            if name not in self._rules:
                raise ValueError(f"no rule {name!r}")

    def accepts(self, text: str) -> bool:
        """Whether the whole text is a sentence of the grammar."""

        return len(text) in _Matcher(self._rules, text).rule("root", 0)


class _Matcher:
    """Computes the positions where parts of the grammar can end in one text."""

    def __init__(self, rules: dict[str, Node], text: str) -> None:
        self._rules, self._text = rules, text
        self._known: dict[tuple[str, int], frozenset[int]] = {}

    def rule(self, name: str, at: int) -> frozenset[int]:
        if (name, at) not in self._known:
            self._known[name, at] = frozenset(self._ends(self._rules[name], at))
        return self._known[name, at]

    def _ends(self, node: Node, at: int) -> Iterator[int]:
        kind, part = node
        if kind == "text" and self._text.startswith(part, at):
            yield at + len(part)
        elif kind == "set" and at < len(self._text) and part.match(self._text[at]):
            yield at + 1
        elif kind == "name":
            yield from self.rule(part, at)
        elif kind == "or":
            yield from (end for one in part for end in self._ends(one, at))
        elif kind == "and":
            found = {at}
            for one in part:
                found = {end for start in found for end in self._ends(one, start)}
            yield from found
        elif kind in "*+?":
            yield from self._repeated(kind, part, at)

    def _repeated(self, kind: str, part: Node, at: int) -> Iterator[int]:
        if kind in "*?":
            yield at
        found = seen = set(self._ends(part, at)) - {at}
        yield from found
        while kind != "?" and found:
            found = {end for start in found for end in self._ends(part, start)} - seen
            seen = seen | found
            yield from found


def _tokens(body: str) -> Iterator[tuple[str, str]]:
    at = 0
    while body[at:].strip():
        match = _TOKEN.match(body, at)
        if match is None:
            raise ValueError(f"not read: {body[at : at + 50]!r}")
        at = match.end()
        kind = match.lastgroup or ""
        yield kind, match[kind]


def _alternatives(tokens: list[tuple[str, str]]) -> Node:
    found = [_sequence(tokens)]
    while tokens and tokens[0] == ("op", "|"):
        tokens.pop(0)
        found.append(_sequence(tokens))
    return found[0] if len(found) == 1 else ("or", found)


def _sequence(tokens: list[tuple[str, str]]) -> Node:
    parts: list[Node] = []
    while tokens and tokens[0] not in (("op", "|"), ("op", ")")):
        kind, text = tokens.pop(0)
        if kind == "text":
            part: Node = ("text", _unescaped(text[1:-1]))
        elif kind == "set":
            part = ("set", re.compile(text))
        elif kind == "name":
            part = ("name", text)
        elif text == "(":
            part = _alternatives(tokens)
            if not tokens or tokens.pop(0) != ("op", ")"):
                raise ValueError("a bracket is open")
        else:
            raise ValueError(f"unexpected {text}")
        while tokens and tokens[0][0] == "op" and tokens[0][1][0] in "*+?{":
            often = tokens.pop(0)[1]
            part = (often, part) if often in "*+?" else _counted(part, often)
        parts.append(part)
    return ("and", parts)


def _counted(part: Node, often: str) -> Node:
    least, most = map(int, often.strip("{}").split(","))
    return ("and", [part] * least + [("?", part)] * (most - least))


def _unescaped(text: str) -> str:
    known = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\(.)", lambda match: known.get(match[1], match[1]), text)


def _names(node: Node) -> Iterator[str]:
    kind, inner = node
    if kind == "name":
        yield inner
    elif kind in ("or", "and"):
        for part in inner:
            yield from _names(part)
    elif kind not in ("text", "set"):
        yield from _names(inner)
