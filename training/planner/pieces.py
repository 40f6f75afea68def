"""Texts built from pieces that carry marks, so that the place of every value in the text is exact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

Mark = tuple[str, int, str, int]
"""What a piece states: ``value`` or ``ref`` (words for a reference), then call, parameter and item (-1: all)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of a request.

    Attributes:
        text: the characters.
        marks: what they state; several if calls share a value.
        clauses: the calls that they ask for.
    """

    text: str
    marks: tuple[Mark, ...] = ()
    clauses: frozenset[int] = frozenset()


Text = tuple[Piece, ...]
Part = str | Piece | Text
_SLOT = re.compile(r"\{(\w+)\}")


def text(*parts: Part) -> Text:
    """Join the parts into one text, without double spaces or spaces before punctuation."""
    found: list[Piece] = []
    for part in parts:
        pieces: Iterable[Piece] = (
            (Piece(part),) if isinstance(part, str) else (part,) if isinstance(part, Piece) else part
        )
        for piece in pieces:
            said = piece.text
            if found and found[-1].text.endswith((" ", "\n")):
                said = said.lstrip(" ") if not piece.marks else said
            if found and _closes(said) and not piece.marks and not found[-1].marks:
                found[-1] = replace(found[-1], text=found[-1].text.rstrip(" "))
            if said:
                found.append(piece if said is piece.text else replace(piece, text=said))
    return tuple(found)


def _closes(said: str) -> bool:
    return said[:1] in (",", ".", "?", "!", ";", ":")


def fill(template: str, **parts: Part) -> Text:
    """Fill a template such as ``"for the {noun} {value}"``."""
    found: list[Part] = []
    for index, part in enumerate(_SLOT.split(template)):
        found.append(parts[part] if index % 2 else part)
    return text(*found)


def plain(pieces: Text) -> str:
    """The characters."""
    return "".join(piece.text for piece in pieces)


def of_clause(pieces: Text, calls: Iterable[int]) -> Text:
    """The same text, marked as asking for these calls."""
    added = frozenset(calls)
    return tuple(replace(piece, clauses=piece.clauses | added) for piece in pieces)


def capital(pieces: Text) -> Text:
    """The text with a capital first letter, unless it begins with a value."""
    return _first(pieces, lambda said: said[:1].upper() + said[1:])


def small(pieces: Text) -> Text:
    """The text with a small first letter, unless the first word is a value, a proper name, or I."""
    return _first(pieces, lambda said: said if _is_named(said) else said[:1].lower() + said[1:])


def bare(pieces: Text) -> Text:
    """The text without spaces and punctuation at its end."""
    found = list(pieces)
    while found and not found[-1].marks:
        said = found[-1].text.rstrip(" ?.!,")
        if said:
            found[-1] = replace(found[-1], text=said)
            break
        found.pop()
    return tuple(found)


def and_list(parts: Sequence[Text], word: str = "and") -> Text:
    """All parts as a list in words: a and b, or a, b and c; only commas if the word is a comma."""
    joined: list[Part] = []
    for index, part in enumerate(parts):
        if index:
            joined.append(f" {word} " if index == len(parts) - 1 and word != "," else ", ")
        joined.append(part)
    return text(*joined)


def _first(pieces: Text, change: object) -> Text:
    if not pieces or pieces[0].marks or not callable(change):
        return pieces
    return (replace(pieces[0], text=change(pieces[0].text)), *pieces[1:])


def _is_named(said: str) -> bool:
    word = said.split(" ", 1)[0]
    return word[1:] != word[1:].lower() or word in ("I", "I'd", "I'm", "I've", "I'll")
