"""Parses a model's sentence with slots, and rejects it if it says more than the model can know.

The main rule: **every word must have a source**. It must occur in the request, or in the API document's text about the
slots, or be one of the common words below, which name, count and deny nothing. Numbers must occur in the request
exactly. So a sentence contains no fact, name, unit or figure that the model made up or took from other texts. The rule
does not check that the words fit the values: the values are shown with their own names beside the sentence.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from planner_svc.reading.text import split_name, stem, stem_set, word_set
from planner_svc.sentences.slots import SentenceSlot
from services.contracts.sentence import MAX_TEMPLATE_CHARS

_COMMON: Final = word_set(
    """
    a an the this that these those here there it its they their them he she his her your you
    is are was were be been being am has have had do does did will would can could
    of in on at to from for by with within into onto between through during until since about as per via and or
    which who whose what when where how
    result results answer answers value values list following listed found given called named known located
    before after takes take lasts contains includes equals written
    """
)
"""Words without content. No negation, number, comparison, unit, or claim to be complete."""
_BY_REQUEST_ALONE: Final = stem_set(
    """
    not no none never nothing nobody nor neither without cannot yes true false only all every each always both any more
    most less least fewer other another one two three four five six seven eight nine ten eleven twelve hundred thousand
    million billion trillion dozen half quarter double zero first second third once twice minus plus percent
    """
)
"""Words that deny, count or confirm: allowed from the request, but not from a document, which covers many answers."""
_SYMBOLS: Final = frozenset("%°€$£¥&+")
_SLOT: Final = re.compile(r"\{([^{}]*)\}")
_PLAIN: Final = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-"})
_QUOTED_SLOT: Final = re.compile(r"[\"'`*]{1,2}(\{[^{}]*\})[\"'`*]{1,2}")
_TEXT: Final = re.compile(r"\w|[ .,:;!'\"()\-/%°€$£¥&+]")
_WORDS: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_EDGES: Final = ".,:;!?'\"()"
_ENDS: Final = re.compile(r"[.!](?=\s|$)")
_MAX_SENTENCES: Final = 2
_ADDRESS: Final = re.compile(r"[^\W_][.!:;][^\W\d_]|(?<![^\W\d_])/|/(?![^\W\d_])")
_BEFORE: Final = re.compile(r"(?:^|(?<!\d)[ (€$£¥])$")
_SIGN: Final = re.compile(r"[-/][\s(€$£¥&+]*$")
"""Before a slot: the value after it could be read as a negative one, or as a part of one."""
_LIST_MARK: Final = re.compile(r"[.)](?: |$)")
"""After a slot at the beginning: Markdown shows ``5. words`` as an item of a list, with a number of its own."""
_LOOSE: Final = re.compile(r"(?<!\S)[^\w\s%°€$£¥&+:(]+(?=[\s(]|$)")
"""Punctuation that stands by itself between words or before a slot."""
_AFTER: Final = re.compile(r"(?: ?[%°])?(?:$|\)|[.,;:!](?= |$)| (?!\d))")

Pieces = tuple[str | int, ...]


class SentenceRejected(Exception):
    """The text is rejected; the message says why."""


def read_template(text: str, slots: Sequence[SentenceSlot], query: str) -> Pieces:
    """Parse a sentence into texts and slot numbers.

    Args:
        text: the model's text.
        slots: the slots; each must occur once.
        query: the request.

    Raises:
        SentenceRejected: the text is not a valid sentence.
    """
    line = _first_line(text)
    pieces = _parted(line, [slot.name for slot in slots])
    _check_form(pieces, line)
    _check_quotations(pieces, query)
    known, numbers = _allowed_words(query, (slot.words for slot in slots))
    for piece in pieces:
        if isinstance(piece, str):
            _check_words(piece, known, numbers)
    if not any(isinstance(piece, str) and _WORDS.search(piece) for piece in pieces):
        raise SentenceRejected("it has no words")
    _check_slots(pieces, slots)
    # What follows a slot may begin with the slot's punctuation.
    if any(isinstance(piece, str) and _LOOSE.search(piece, min(place, 1)) for place, piece in enumerate(pieces)):
        raise SentenceRejected("it has punctuation that belongs to no word")
    return pieces


def _first_line(text: str) -> str:
    lines = text[: 8 * MAX_TEMPLATE_CHARS].strip().splitlines()
    line = _plain(" ".join(lines[0].split())) if lines else ""
    if len(line) > 1 and line[0] == line[-1] == '"':
        line = line[1:-1].strip()
    line = _QUOTED_SLOT.sub(r"\1", line)
    if len(line) > MAX_TEMPLATE_CHARS:
        raise SentenceRejected("it is too long")
    return line if line.endswith((".", "!")) else f"{line}."


def _parted(line: str, names: Sequence[str]) -> Pieces:
    pieces: list[str | int] = []
    for position, part in enumerate(_SLOT.split(line)):
        if position % 2:
            name = part.strip()
            if name not in names:
                raise SentenceRejected("it has a slot that there is not")
            pieces.append(names.index(name))
        elif part:
            pieces.append(part)
    used = [piece for piece in pieces if isinstance(piece, int)]
    if sorted(used) != list(range(len(names))):
        raise SentenceRejected("it does not have every slot once")
    return tuple(pieces)


def _check_form(pieces: Pieces, line: str) -> None:
    if not all(_TEXT.fullmatch(char) for piece in pieces if isinstance(piece, str) for char in piece):
        raise SentenceRejected("it has characters that no sentence needs")
    if len(_ENDS.findall(line)) > _MAX_SENTENCES:
        raise SentenceRejected("it has too many sentences")
    if any(_ADDRESS.search(piece) for piece in pieces if isinstance(piece, str)):
        raise SentenceRejected("it has something like an address")


def _check_quotations(pieces: Pieces, query: str) -> None:
    """Check that quoted text occurs in the request, word for word."""
    asked = _plain(query)
    for piece in pieces:
        if isinstance(piece, str) and (
            '"' in _QUOTED.sub("", piece) or any(q not in asked for q in _QUOTED.findall(piece))
        ):
            raise SentenceRejected("it quotes what the request does not say")


def _check_slots(pieces: Pieces, slots: Sequence[SentenceSlot]) -> None:
    """Check that each slot stands alone: no text beside it may change its value."""
    for position, piece in enumerate(pieces):
        if isinstance(piece, str):
            continue
        before = pieces[position - 1] if position else ""
        after = pieces[position + 1] if position + 1 < len(pieces) else ""
        if isinstance(before, int) or isinstance(after, int) or not (_BEFORE.search(before) and _AFTER.match(after)):
            raise SentenceRejected("a slot does not stand by itself")
        if _SIGN.search(before) or (not position and _LIST_MARK.match(after)):
            raise SentenceRejected("a slot is shown as another value or as the number of an item")
        if slots[piece].is_boolean and not before.rstrip().endswith(":"):
            raise SentenceRejected("it claims what is to be a yes or no")


def _check_words(text: str, known: frozenset[str], numbers: frozenset[str]) -> None:
    for chunk in text.split():
        bare = chunk.strip(_EDGES)
        if any(char.isnumeric() or char == "_" for char in bare):
            if bare.casefold() not in numbers:
                raise SentenceRejected("it has a number or a code that the request does not say")
            continue
        for word in [*_WORDS.findall(bare), *(char for char in bare if char in _SYMBOLS)]:
            if word.casefold().removesuffix("'s") not in _COMMON and stem(word) not in known:
                raise SentenceRejected(f"it says {word[:40]!r}, which neither the request nor the API does")


def _allowed_words(query: str, texts: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The stems of all allowed words; and, for numbers and codes, the request's words as written."""
    query, documents = _plain(query), _plain(" ".join(texts))
    known = (_stems(documents) - _BY_REQUEST_ALONE) | _stems(query) | _SYMBOLS.intersection(query + documents)
    return known, frozenset(chunk.strip(_EDGES).casefold() for chunk in query.split())


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(_PLAIN)


def _stems(text: str) -> frozenset[str]:
    """Stems of the words as written, and of the parts of names written as one word."""
    words = _WORDS.findall(text)
    return frozenset(stem(part) for word in words for part in (word, *split_name(word)))
