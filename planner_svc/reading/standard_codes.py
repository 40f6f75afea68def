"""Codes of public standards for the names that people use: "euros" is EUR where an argument takes ISO 4217 codes.

A network that copies values out of a request cannot know these. The names are those of Unicode's CLDR, in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Literal

from babel import Locale
from babel.core import get_global
from babel.numbers import get_currency_name, get_currency_symbol, get_territory_currencies

from planner_svc.reading.leaves import flat
from planner_svc.reading.profile import Slot, profile_of
from planner_svc.reading.text import MAX_CHARS, stem, without_quotes
from services.contracts.planning import PlanRequest, Question

Standard = Literal["currency", "country", "country, three letters", "language"]
_STATED: Final[dict[Standard, re.Pattern[str]]] = {
    "currency": re.compile(r"\bISO[ -]?4217\b|\bcurrency[ _-]?code", re.IGNORECASE),
    "country, three letters": re.compile(r"\balpha-?3\b|\b(?:three|3)[ -]letter (?:ISO )?country", re.IGNORECASE),
    "country": re.compile(r"\bISO[ -]?3166\b|\balpha-?2\b|\bcountry[ _-]?code", re.IGNORECASE),
    "language": re.compile(r"\bISO[ -]?639\b|\blanguage[ _-]?code|\bBCP[ -]?47\b", re.IGNORECASE),
}
"""How a document states that an argument takes codes of a standard. The first that matches counts."""
_ELSE: Final = re.compile(
    r"\b(?:address|area|cit(?:y|ies)|location|mobile|name|phone|place|street|telephone|town)s?\b", re.IGNORECASE
)
"""What a description may tell of that only mentions such a code: "City, see country_code for the country code"."""
_NAMED: Final[dict[str, Standard]] = {
    stem("currency"): "currency",
    stem("country"): "country",
    stem("language"): "language",
    "lang": "language",
}
"""What an argument is called that may take codes of a standard; an example has to show that it does."""
_SHORT: Final = {"UK": "GB", "USA": "US"}
"""Common abbreviations of countries' names that are no codes."""
_THREE_CAPITALS: Final = "^[A-Z]{3}$"
_MAX_NAME: Final = 60
_MAX_CHOICES: Final = 300
_WORD: Final = re.compile(r"[^\W\d_]+(?:[.'\u2019-][^\W\d_]+)*")
_LONGEST: Final = 6
"""Words of the longest name that is looked for."""

Names = dict[tuple[str, ...], str]
Edit = tuple[int, int, str]
"""Start and end of characters, and what takes their place."""


def standard_of(slot: Slot) -> Standard | None:
    """The standard whose codes an argument takes, if its name or its description says so, or an example is one.

    A pattern of three capitals shows a currency, too.
    """
    text = f"{slot.name} {slot.said} {slot.text}"
    described = slot.parameter.description[:MAX_CHARS]
    named = next((standard for name, standard in _NAMED.items() if slot.words[-1:] == (name,)), None)
    text = f"{text} {described}" if named or not _ELSE.search(described) else text
    stated = next((standard for standard, pattern in _STATED.items() if pattern.search(text)), None)
    if stated is not None or slot.kinds != {"string"}:
        return stated
    if named is None:
        return None
    shown = {*slot.examples, *map(str, slot.choices[:_MAX_CHOICES])}
    schema = slot.node.schema
    written = named == "currency" and isinstance(schema, dict) and schema.get("pattern") == _THREE_CAPITALS
    return named if written or shown & set(_names(named).values()) else None


def code_named(slot: Slot, text: str) -> str | None:
    """The code for which an argument's text is the name: "EUR" for "euros". None if it takes no codes, or is one."""
    standard = standard_of(slot)
    if standard is None or len(text) > _MAX_NAME:
        return None
    return _names(standard).get(_words(text)) or (_SHORT.get(text) if standard == "country" else None)


def may_be_code(slot: Slot, text: str) -> bool:
    """Whether a text may be what an argument takes: where that is a currency's code, a word of other form is none."""
    if standard_of(slot) != "currency" or slot.kinds != {"string"}:
        return True
    return text.isupper() or text.upper() in _current()


def with_codes(request: PlanRequest, questions: Sequence[Question]) -> PlanRequest:
    """The request with the codes that are asked for in place of names: "100 dollars in euros", "100 USD in EUR".

    Quotations stay. The request itself is returned if no codes are asked for, or it names nothing that has one.

    Args:
        request: what was asked, with the candidates.
        questions: about arguments that the request seems to say nothing about.
    """
    known = {one.api.id: one.api for one in request.candidates}
    wanted = {(one.api, one.argument.rpartition(".")[2]) for one in questions if one.api in known}
    slots = ((api, slot) for api in {api for api, _ in wanted} for slot in flat(profile_of(known[api])).slots)
    standards = {standard_of(slot) for api, slot in slots if (api, slot.name) in wanted}
    text = without_quotes(request.query[:MAX_CHARS])
    edits = sorted(edit for standard in standards if standard is not None for edit in _edits(text, standard))
    if not edits:
        return request
    clauses = []
    for one in request.clauses:
        start, end = _moved(one.start, edits), _moved(one.end, edits)
        clauses.append(one.model_copy(update={"start": start, "end": end}))
    said = _applied(request.query, edits)
    clauses = [one.model_copy(update={"text": said[one.start : one.end]}) for one in clauses]
    return request.model_copy(update={"query": said, "clauses": tuple(clauses)})


def codes_in(text: str, standard: Standard) -> set[str]:
    """The codes of a standard in a text, as a document writes them: "EUR", not "eur"."""
    known = set(_names(standard).values())
    return known.intersection(word[0] for word in _WORD.finditer(text))


def currency_at(text: str, start: int, end: int) -> str | None:
    """The currency of the amount in these characters: the sign or code before it, or the sign, code or name after."""
    before, after = text[max(start - 4, 0) : start].rstrip(), text[end : end + _MAX_NAME]
    signs, codes = _signs(), set(_current())
    said = re.match(r"\s?([^\w\s]|[^\W\d_]+(?:\s[^\W\d_]+)?)", after)
    words = _words(said[1]) if said is not None else ()
    names = _names("currency")
    named = names.get(words) or names.get(words[:1])
    return (
        signs.get(before[-1:])
        or (before[-3:] if before[-3:] in codes else None)
        or named
        or (signs.get(said[1]) or (said[1][:3] if said[1].split()[0] in codes else None) if said is not None else None)
    )


def _edits(text: str, standard: Standard) -> Iterator[Edit]:
    """Where a text names something of the standard, and the codes; no two places overlap."""
    names = _names(standard)
    words = list(_WORD.finditer(text))
    at = 0
    while at < len(words):
        folded = [word[0].casefold() for word in words[at : at + _LONGEST]]
        length = next((n for n in range(len(folded), 0, -1) if tuple(folded[:n]) in names), 0)
        if length and (standard == "currency" or not _is_in_name(text, words, at, at + length)):
            yield words[at].start(), words[at + length - 1].end(), names[tuple(folded[:length])]
        elif standard == "country" and (short := _SHORT.get(words[at][0])):
            yield words[at].start(), words[at].end(), short
        at += max(length, 1)
    if standard == "currency":
        signs = _signs()
        sign = f"[{re.escape(''.join(signs))}]"
        after = rf"(?P<after>(?<=\d)\s?{sign})(?!\s?\d)"
        for found in re.finditer(rf"(?P<before>{sign})\s?(?P<amount>\d[\d.,]*\b)|{after}", text):
            code = signs[(found["before"] or found["after"]).strip()]
            yield found.start(), found.end(), f"{found['amount']} {code}" if found["before"] else f" {code}"


def _is_in_name(text: str, words: Sequence[re.Match[str]], first: int, end: int) -> bool:
    """Whether a capitalized word stands beside these: "Israel Cohen", "Jane English". The text's first word is none."""
    before, after = words[1:first][-1:], words[end : end + 1]
    gaps = [(one, one.end(), words[first].start()) for one in before]
    gaps += [(one, words[end - 1].end(), one.start()) for one in after]
    return any(one[0][0].isupper() and text[start:stop].isspace() for one, start, stop in gaps)


def _moved(position: int, edits: Sequence[Edit]) -> int:
    """Where a position of the text is after the edits; a position inside one is moved to its end."""
    shift = 0
    for start, end, text in edits:
        if position <= start:
            break
        if position < end:
            return start + shift + len(text)
        shift += len(text) - (end - start)
    return position + shift


def _applied(text: str, edits: Sequence[Edit]) -> str:
    parts, last = [], 0
    for start, end, new in edits:
        if start >= last:
            parts += [text[last:start], new]
            last = end
    return "".join([*parts, text[last:]])


@cache
def _names(standard: Standard) -> Names:
    """Codes by the words of their names, folded."""
    if standard == "currency":
        return _currencies()
    english = Locale("en")
    known = english.languages if standard == "language" else english.territories
    names = {_words(name): code for code, name in known.items() if len(code) == 2 and code.isalpha()}
    if standard != "country, three letters":
        return names
    longer = {aliases[0]: code for code, aliases in get_global("territory_aliases").items() if _is_alpha3(code)}
    return {name: longer[code] for name, code in names.items() if code in longer}


def _is_alpha3(code: str) -> bool:
    return len(code) == 3 and code.isalpha()


def _currencies() -> Names:
    """Currencies in use, by their names in singular and plural, and by the last word where it tells which is meant.

    Of several dollars or pounds, the one that a bare sign stands for is meant.
    """
    names: Names = {}
    short: dict[str, set[str]] = {}
    for code in _current():
        for number in (1, 2):
            words = _words(get_currency_name(code, count=number, locale="en"))
            names[words] = code
            short.setdefault(words[-1], set()).add(code)
    signed = set(_signs().values())
    for word, codes in short.items():
        meant = codes if len(codes) == 1 else codes & signed
        if len(meant) == 1:
            names.setdefault((word,), *meant)
    return names


@cache
def _current() -> tuple[str, ...]:
    territories = get_global("territory_currencies")
    return tuple(sorted({code for territory in territories for code in get_territory_currencies(territory)}))


@cache
def _signs() -> dict[str, str]:
    """Currencies by the bare sign that stands for them in English."""
    signs = {get_currency_symbol(code, locale="en"): code for code in _current()}
    return {sign: code for sign, code in signs.items() if len(sign) == 1}


def _words(name: str) -> tuple[str, ...]:
    return tuple(word[0].casefold() for word in _WORD.finditer(name))
