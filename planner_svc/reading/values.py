"""Typed values in a request: numbers, moments, quoted text, codes, names, and what stands around each of them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from typing import Literal

from pydantic import JsonValue

from planner_svc.reading.dates import DateReader, Duration, Moment
from planner_svc.reading.numbers import DIGITS, NUMBER_WORD, number
from planner_svc.reading.text import NOT_NAMES, QUOTED, STOP, WORD, Word, singular, stem, word_set, words_of

Kind = Literal[
    "number", "duration", "moment", "quoted", "code", "name", "phrase", "thing", "email", "url", "phone", "list",
    "choice",
]  # fmt: skip
Role = Literal["from", "to"]

HARD: frozenset[Kind] = frozenset(
    ("number", "duration", "moment", "quoted", "code", "name", "thing", "email", "url", "phone", "list", "choice")
)
"""Kinds that nobody writes without wanting them used; a `phrase` may as well name what is asked for.

A `thing` is a phrase none of whose words any candidate API knows; a `choice` is named by an argument's listed values.
"""

MAX_SPANS = 80

_TELLING = re.compile(
    r"\b(?:text|sentence|message|note|title|headline|paragraph|phrase|following|quote|content)s?\s*:\s+"
    r"(?P<told>[^\"'\u201c`\s][^\"\u201c`]{1,3000}?)\s*$",
    re.IGNORECASE,
)
_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"']{2,500}[^\s<>\"'.,;:!?)]")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}")
_PHONE = re.compile(r"(?<![\w.])(?:\+\d[\d\s().-]{6,20}\d|0\d[\d\s()/-]{5,18}\d)(?![\w.]\d)")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_/:.+-]{0,80}[A-Za-z0-9_]|[A-Z0-9]")
_GROUPED = re.compile(r"(?<![\w-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){2,9}(?![\w-])")
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[$€£¥])?(?P<n>{DIGITS}(?:\s?(?:million|billion|thousand|hundred|k)\b)?|\b{NUMBER_WORD}\b)"
    r"(?P<after>\s?°\s?[CFNSEW]?|\s?[%€£]|[A-Za-z]{1,3}\b)?(?![\w]|\.\d|-[a-z])",
    re.IGNORECASE,
)
_CAPITALISED = r"[^\W\d_a-zß-ÿ](?:[\w'\u2019&-]|\.(?=\w)|(?<=\b\w)\.|(?<=\b\w\w)\.(?=\s+[A-Z]))*"
_NAME = re.compile(
    rf"(?<![\w]){_CAPITALISED}(?:\s+(?:(?:of|the|de|del|da|do|la|le|van|von|und|al|bin)\s+){{0,2}}{_CAPITALISED}){{0,7}}"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+|\n\s*)$")
_OWNER = re.compile(r"(?<=\w)['\u2019]s?(?=\s+[A-Z]{2,}\b)")
"""Where a name ends that something in capitals belongs to."""
_NOUN_AFTER = re.compile(r"\s+([a-z]{3,}(?<!ly))(?=\s*(?:[,.;:?!)]|$)|\s+(?:and|or|to|in|into|for|is|are|as)\b)")
_STANDS_ALONE = re.compile(r"\s*\?|\s+[-\u2013]\s|,?\s+(?:and|or|&|vs\.?|to)\s+[A-Z]")
"""What follows a name that begins a sentence, but hardly an imperative."""
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_COMPASS = {
    "north": ("latitude", 1),
    "south": ("latitude", -1),
    "east": ("longitude", 1),
    "west": ("longitude", -1),
}
_COORDINATED = re.compile(
    r"\s*(?:,|;|,?\s*(?:and|or|&|plus)|versus|vs\.?)\s*(?:(?:in|of|for|at|from|to|the|also|on|with|about)\s+){0,2}",
    re.IGNORECASE,
)
_ELSEWHERE = word_set("in on at for by with about near within during as")
_POINT = re.compile(rf"[(\[]\s*({DIGITS})\s*[,;/]\s*({DIGITS})\s*[)\]]")
_POINTS = re.compile(rf"{_POINT.pattern}(?:\s*(?:,|;|and|,\s*and)?\s*{_POINT.pattern}){{1,200}}")
_FROM = word_set("from between since starting above over least minimum")
_TO = word_set("to into until till towards through below under most maximum")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the request that may be a value.

    Attributes:
        value: What it means: text, a number, a ``Moment``, a ``Duration`` or a list of texts or numbers.
        unit: Stem of what is counted or measured ("12 stone"); for compass points the coordinate's name; "sum" for a
            moment that was added up, "term" for the one that something is added to, "part" for a phrase inside a
            longer one, "named" for one with an article, "noun" for a name with the noun after it ("Danish krone").
        role: Which end of a pair the words before it say it is ("from", "to").
        weak_role: The same, only guessed from its place.
        near: Stems of the words around it, nearest first.
        group: Spans joined by "and" or commas share a number above 0.
    """

    kind: Kind
    start: int
    end: int
    text: str
    value: JsonValue | tuple[JsonValue, ...] | Moment | Duration
    unit: str = ""
    role: Role | None = None
    weak_role: Role | None = None
    near: tuple[str, ...] = field(default=())
    group: int = 0

    def overlaps(self, other: "Span") -> bool:
        """Whether the two share a character. Values given by the context stand nowhere and overlap nothing."""
        return self.start < other.end and other.start < self.end


def find_spans(text: str, now: datetime, *, month_first: bool = False) -> list[Span]:
    """Every value the text may hold, in order; they may overlap where the text can be read in several ways."""
    taken: list[Span] = []
    for found in (_literals(text), _told(text), _moments(text, now, month_first), _codes(text), _numbers(text)):
        taken += _free(found, taken)
    taken += [_counted(span) for span in taken if isinstance(span.value, Duration)]
    names = list(_names(text, taken))
    phrases = [p for p in _phrases(text, taken) if not any(n.start <= p.start and p.end <= n.end for n in names)]
    spans = [*taken, *names, *phrases]
    spans.sort(key=lambda span: (span.start, -span.end))
    spans = _grouped(text, _in_context(text, spans[:MAX_SPANS]))
    pairs = list(_pairs(text))
    return [*spans, *pairs, *_free(_lists(text, spans), pairs)]


def _free(found: Iterable[Span], taken: list[Span]) -> list[Span]:
    """Those that overlap nothing that was found before."""
    return [span for span in found if not any(span.overlaps(other) for other in taken)]


def _literals(text: str) -> Iterator[Span]:
    found: list[Span] = []
    for match in QUOTED.finditer(text):
        inner = next(group for group in match.groups() if group is not None)
        if inner:
            found.append(Span("quoted", match.start(), match.end(), inner, inner.strip()))
    for kind, pattern in (("url", _URL), ("email", _EMAIL), ("code", _GROUPED), ("phone", _PHONE)):
        spans = [Span(kind, m.start(), m.end(), m[0], m[0]) for m in pattern.finditer(text)]  # type: ignore[arg-type]
        found += _free((s for s in spans if kind != "phone" or _is_phone(s.text)), found)
    yield from found


def _told(text: str) -> Iterator[Span]:
    """What follows "the text:" to the end, as if it were quoted."""
    match = _TELLING.search(text)
    if match is not None and len(match["told"]) > 1:
        yield Span("quoted", match.start("told"), match.end("told"), match["told"], match["told"])


def _is_phone(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    return 7 <= len(digits) <= 15 and not re.match(r"\d{4}-\d\d-\d\d|\d{1,2}[.]\d{1,2}[.]", text)


def _moments(text: str, now: datetime, month_first: bool) -> Iterator[Span]:
    for found in DateReader(now, month_first=month_first).find(text):
        part = text[found.start : found.end]
        if isinstance(found.value, Duration):
            yield Span("duration", found.start, found.end, part, found.value, unit=found.value.unit)
        else:
            yield Span("moment", found.start, found.end, part, found.value, unit=found.part)


def _counted(span: Span) -> Span:
    """The bare number of a duration: its unit may be named by another argument."""
    assert isinstance(span.value, Duration)
    length = len(re.split(r"[\s-]+(?=\w+$)", span.text)[0])
    unit = stem(span.value.unit)
    return Span("number", span.start, span.start + length, span.text[:length], span.value.amount, unit=unit)


def _codes(text: str) -> Iterator[Span]:
    for match in _CODE.finditer(text):
        code = match[0].rstrip(".:/+-")
        before = text[match.start() - 1 : match.start()]
        pair = re.fullmatch(r"([A-Z]{3,})[-/\u2013]([A-Z]{3,})", code)
        if pair:
            for group, end in ((1, "from"), (2, "to")):
                first, last = (match.start() + place for place in pair.span(group))
                yield Span("code", first, last, pair[group], pair[group], weak_role=end)  # type: ignore[arg-type]
        elif code and not before.isalnum() and before != "_" and _is_code(code, text):
            yield Span("code", match.start(), match.start() + len(code), code, code)


def _is_code(code: str, text: str) -> bool:
    """Letters with digits, an underscore, capitals only, or parts joined by signs with a capital among them."""
    has_letter, has_digit = any(c.isalpha() for c in code), any(c.isdigit() for c in code)
    if not has_letter or re.fullmatch(r"\d+(?:\.\d+)?[a-z]{1,3}", code):
        return False
    if code.isupper() and code.isalpha():
        return len(code) > 1 and not text.isupper()
    if re.fullmatch(r"[A-Z]\w+(?:-[A-Za-z]\w+)*", code) and not has_digit and "_" not in code:
        return False  # a name such as Jean-Luc
    return has_digit or "_" in code or (re.search(r"[/-]", code) is not None and not code.islower())


def _numbers(text: str) -> Iterator[Span]:
    for match in _NUMBER.finditer(text):
        value, suffix = number(match["n"]), (match["after"] or "").strip()
        if value is None or (match["n"][0].isalpha() and not _is_counted(text, match)):
            continue
        end = match.end("n")
        unit, value = _unit(text, end, suffix, value)
        yield Span("number", match.start("n"), end, match["n"], value, unit=unit)
        sign = match["sign"] or suffix
        if sign in _SIGNS:
            place = match.start("sign") if match["sign"] else match.end() - 1
            yield Span("code", place, place + 1, sign, _SIGNS[sign], weak_role="from")


def _is_counted(text: str, match: re.Match[str]) -> bool:
    """Whether a number in words counts something new: "the two" and "one of" do not, "one PX-20931" does."""
    if match["n"].lower() == "one":
        return re.match(r"\s+(?=\S*[A-Z])\S*\d", text[match.end("n") : match.end("n") + 40]) is not None
    return re.search(r"\b(?:the|all|these|those|both|which)\s+$", text[: match.start("n")][-8:], re.IGNORECASE) is None


def _unit(text: str, end: int, suffix: str, value: int | float) -> tuple[str, int | float]:
    """What a number counts, and its value: "16 west" is minus 16 of longitude."""
    words = [word for word in words_of(text[end : end + 60]) if word.text.lower() not in ("degrees", "degree", "of")]
    after = suffix.strip("° ") or (
        words[0].text if words and not re.search(r"[,;.!?]", text[end : end + words[0].start]) else ""
    )
    compass = {"N": "north", "S": "south", "E": "east", "W": "west"}.get(after, after.lower())
    if compass in _COMPASS:
        unit, sign = _COMPASS[compass]
        return stem(unit), value * sign
    return ("" if after.lower() in STOP else stem(after)), value


def _names(text: str, taken: list[Span]) -> Iterator[Span]:
    """Capitalised words that stand together; the first word of a sentence only where it cannot be a common one."""
    for match in _NAME.finditer(text):
        start, end = match.start(), match.end()
        while word := WORD.match(text, start, end):
            low = word[0].lower()
            starts = _SENTENCE_START.search(text[:start][-3:] if start > 3 else text[:start]) is not None
            alone = word.end() == end and not _STANDS_ALONE.match(text, end)
            if low in STOP or (starts and (low in NOT_NAMES or (alone and not low.endswith(("'s", "\u2019s"))))):
                start = word.end() + len(text[word.end() : end]) - len(text[word.end() : end].lstrip())
                if start >= end:
                    break
            else:
                break
        end = next((start + m.start() for m in _OWNER.finditer(text[start:end])), end)
        noun = _NOUN_AFTER.match(text, end)
        if noun is not None and start < end and noun[1].lower() not in STOP | NOT_NAMES and end == match.end():
            whole = f"{text[start:end]} {singular(noun[1])}"
            yield from _free([Span("name", start, noun.end(), text[start : noun.end()], whole, unit="noun")], taken)
        part = re.sub(r"['\u2019]s$|[.'\u2019-]+$", "", text[start:end])
        yield from _free(
            [Span("name", start, start + len(part), part, part)] if len(part) > 1 and part[0].isupper() else [], taken
        )


def _phrases(text: str, taken: list[Span]) -> Iterator[Span]:
    """Runs of content words, which may name a thing ("wireless headphones"), whole and without their first words."""
    run: list[Word] = []
    for word in [*words_of(text), None]:
        joined = word is not None and (not run or re.fullmatch(r"\s+", text[run[-1].end : word.start]) is not None)
        usable = word is not None and _is_content(word, taken) and not (not run and _is_verb(text, word))
        if run and not (joined and usable):
            yield from _runs(text, run, taken)
            run = []
        if word is not None and usable:
            run.append(word)


def _runs(text: str, run: list[Word], taken: Sequence[Span]) -> Iterator[Span]:
    """A run of words, and it without its first ones; participles at its end tell what is done to the thing."""
    before = words_of(text[max(run[0].start - 30, 0) : run[0].start])[-2:]
    named = bool(before) and before[-1].text.lower() in _ARTICLES
    named = named and not any(0 <= span.start - run[-1].end <= 1 for span in taken)  # "the three-letter ISO code"
    while len(run) > 1 and re.search(r"(?:ed|made|sold|built|sent)$", run[-1].text):
        run = run[:-1]
    yield replace(_phrase(text, run), unit="named" if named else "")
    yield from (replace(_phrase(text, run[first:]), unit="part") for first in range(1, min(len(run), 3)))


_ARTICLES = word_set("the a an our my your their his her its some any")


def _is_verb(text: str, word: Word) -> bool:
    """What somebody does: "do you sell"."""
    return (
        re.search(r"\b(?:you|we|they|i|people)\s+$", text[max(word.start - 8, 0) : word.start], re.IGNORECASE)
        is not None
    )


def _is_content(word: Word, taken: list[Span]) -> bool:
    low = word.text.lower()
    if low in STOP or low in NOT_NAMES or len(low) < 2 or low.isdigit():
        return False
    return not any(span.start < word.end and word.start < span.end for span in taken)


def _phrase(text: str, run: list[Word]) -> Span:
    part = text[run[0].start : run[-1].end]
    return Span("phrase", run[0].start, run[-1].end, part, part)


def _in_context(text: str, spans: list[Span]) -> list[Span]:
    """The spans with the words around them: what is near, and which end of a pair they are."""
    words = words_of(text)
    placed = []
    for span in spans:
        before = [word for word in words if word.end <= span.start][-4:][::-1]
        after = [word for word in words if word.start >= span.end][:2]
        near = tuple(dict.fromkeys(w.stem for pair in zip_longest(before, after) for w in pair if w is not None))
        role = _said_role(before)
        if role and any(
            other.overlaps(span) is False and before[0].start >= other.end > _role_place(before)
            for other in spans
            if other.kind in HARD
        ):
            role = None  # the preposition belongs to another value in between
        weak = span.weak_role
        placed.append(replace(span, near=near, role=role, weak_role=weak))
    return placed


def _said_role(before: Sequence[Word]) -> Role | None:
    """The end that the nearest preposition says, if it is one that says an end."""
    for word in before[:3]:
        low = word.text.lower()
        if low in _ELSEWHERE or _role(low) is not None:
            return _role(low)
    return None


def _role(word: str) -> Role | None:
    return "from" if word in _FROM else "to" if word in _TO else None


def _role_place(before: list[Word]) -> int:
    return next((word.start for word in before[:3] if _role(word.text.lower())), -1)


def _grouped(text: str, spans: list[Span]) -> list[Span]:
    """Numbers the groups of spans of one kind that are joined by commas or "and"; "between A and B" gives roles."""
    result = list(spans)
    count = 0
    for index, span in enumerate(result):
        for later in range(index + 1, len(result)):
            other = result[later]
            if other.kind != span.kind or other.start < span.end:
                continue
            if _COORDINATED.fullmatch(text, span.end, other.start):
                count += not result[index].group
                group = result[index].group or count
                ends = text[span.end : other.start].strip().lower() == "and"
                if ends and re.search(r"\bbetween\s+(?:the\s+)?$", text[: result[index].start][-13:], re.IGNORECASE):
                    other = replace(other, role="to")
                result[index] = replace(result[index], group=group)
                result[later] = replace(other, group=group)
            break
    return result


def _pairs(text: str) -> Iterator[Span]:
    """Points such as "(1, 2), (2, 4.1)": a list of their first numbers and one of their second.

    So that both can be used, each is given half of the place where the points stand.
    """
    for match in _POINTS.finditer(text):
        points = [(number(x), number(y)) for x, y in _POINT.findall(match[0])]
        middle = (match.start() + match.end()) // 2
        for start, end, values in ((match.start(), middle, 0), (middle, match.end(), 1)):
            listed = tuple(point[values] for point in points)
            if None not in listed:
                yield Span("list", start, end, text[start:end], listed, near=("x" if values == 0 else "y",))


def _lists(text: str, spans: list[Span]) -> Iterator[Span]:
    """Each group of two or more numbers, codes, names or quoted texts, as one list."""
    groups: dict[int, list[Span]] = {}
    for span in spans:
        if span.group and span.kind in ("number", "code", "name", "quoted"):
            groups.setdefault(span.group, []).append(span)
    for members in groups.values():
        if len(members) > 1:
            first, last = members[0], members[-1]
            values = tuple(member.value for member in members)
            near = first.near
            yield Span("list", first.start, last.end, text[first.start : last.end], values, near=near)  # type: ignore[arg-type]
