"""What a parameter means, from its name, type, format and description: a place, a date, an id, a text, a flag."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from planner_svc.reading.profile import Slot
from planner_svc.reading.text import singular, split_name, word_set
from services.contracts.api import Location
from training.planner.banks import PEOPLE, SIZES

Sense = Literal[
    "flag", "choice", "date", "moment", "time", "year", "email", "phone", "url", "uuid", "id", "person", "named",
    "place", "language", "currency", "topic", "message", "money", "percent", "age", "count", "limit", "duration",
    "measure", "number", "code", "text", "object",
]  # fmt: skip

_TECHNICAL = re.compile(
    r"(?:access|oauth|auth|refresh|session|csrf|page|next|continuation|sync|security|relay)?token|alt|callback"
    r"|prettyprint|quotauser|upload(?:protocol|type)|xgafv|apiversion|fields|(?:api)?key|apisecret|authorization"
    r"|accept.*|content(?:type|length)|cursor|expand|embed|select|(?:update|read)mask|idempotencykey|useragent"
    r"|cachecontrol|client(?:secret|requestid)|signature|nonce|locale|raw|passthrough|rowversion|etag|testclockid|offset|skip|startindex"
)
_OF = re.compile(
    r"(?:name|title|id|identifier|identification number|number|code|type|address|username|email)s? (?:\(\w+\) )?"
    r"(?:of|for) (?:the |a |an |this |your )?(?:specific |new |given |particular )?(?P<noun>[a-z]+(?: [a-z]+)?)\b",
    re.IGNORECASE,
)
_DIRECTIONS = word_set(
    """
    from to in by start end min max new old first last current target source origin destination given
    """
)
_GENERIC = word_set("id ids name key code number no num identifier title uuid slug ref reference")
_IDS = word_set("id ids identifier uuid guid sku isbn number key ref reference serial")
_PLACES = word_set(
    """
    city town country state region province location place destination origin address venue area airport station
    """
)
_TOPICS = word_set("query q search keyword keywords term topic subject theme filter interest")
_TEXTS = word_set(
    """
    message text content body comment description note notes summary question caption feedback prompt sentence
    memo
    """
)
_MONEY = word_set(
    """
    price amount budget cost salary income fee payment revenue balance fare expense expenses deposit
    """
)
_PERCENT = word_set("percent percentage rate ratio discount")
_COUNTS = word_set(
    """
    quantity count number guests people adults children seats tickets passengers items size copies
    """
)
_LIMITS = word_set("limit page top offset skip per_page max_results results maxresults pagesize first")
_TIMES = word_set("duration minutes hours days weeks months years seconds")
_UNITS = re.compile(
    r"\bin (?P<unit>kilograms?|kg|grams?|pounds|meters?|metres?|kilometers?|km|miles|centimeters?|cm|square meters?|"
    r"liters?|litres?|degrees? celsius|celsius|hours?|minutes?|days?|weeks?|months?|years?|seconds?|watts?|volts?|"
    r"inches)\b",
    re.IGNORECASE,
)
_ACRONYMS = word_set("id url uri ip iban sku isbn vat api pdf html sms qr ssh dns faq ceo gpa bmi dna iso utc")
MAX_WORDS = 5


@dataclass(frozen=True, slots=True)
class Meaning:
    """The properties of a parameter that its wording needs.

    Attributes:
        sense: the kind of its values.
        noun: the object it identifies or names ("customer" for ``customer_id``); empty if none.
        label: its name in words ("customer ID").
        unit: the unit of its numbers, in words.
        words: its name in lower-case words.
    """

    sense: Sense
    noun: str
    label: str
    unit: str
    words: tuple[str, ...]


@lru_cache(maxsize=10_000)
def meaning_of(slot: Slot) -> Meaning:
    """The meaning of a parameter."""
    words = tuple(slot.said.split())[:8]
    described = slot.parameter.description or str(slot.parameter.json_schema.get("description") or "")
    noun = _noun(words, described)
    sense = _sense(slot, words, noun, described)
    unit = _UNITS.search(described)
    said = unit["unit"].lower() if unit else words[-1] if words and words[-1] in _TIMES - {"duration"} else ""
    return Meaning(sense, noun, _label(slot.said, words, described), said, words)


def is_technical(slot: Slot) -> bool:
    """Whether users never state it in a request: tokens, versions, headers, paging cursors, selections of fields."""
    if slot.parameter.location in (Location.HEADER, Location.COOKIE):
        return True
    name = slot.parameter.name.lower()
    plain = re.sub(r"[^a-z0-9]", "", name)
    return _TECHNICAL.fullmatch(plain) is not None or name.startswith(("$", "x-"))


def label_of(name: str) -> str:
    """An identifier in readable words: ``customerId`` is "customer ID"."""
    words = split_name(name)[:MAX_WORDS]
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words) or name[:40].strip()


def _label(name: str, words: tuple[str, ...], described: str) -> str:
    if len(words) == 1 and len(words[0]) <= 2 and words[0] not in _ACRONYMS:
        short = re.match(r"(?:the |a |an )?([a-z]+(?: [a-z]+)?)\b(?=[ .,(]|$)", described, re.IGNORECASE)
        return short[1].lower() if short else words[0]
    return label_of(name)


def _noun(words: tuple[str, ...], described: str) -> str:
    """The identified object, from the name, or from "the name of the patient"."""
    own = [word for word in words if word not in _DIRECTIONS]
    rest = [word for word in own if word not in _GENERIC]
    if own and own[-1] in _GENERIC and rest:
        return " ".join([*rest[:-1], singular(rest[-1])])
    if own and not rest:
        match = _OF.search(described)
        found = match["noun"].lower().split() if match else []
        while found and found[-1] in ("to", "for", "that", "is", "you", "being", "in", "of", "as", "or", "and", "who"):
            found.pop()
        return " ".join(found)
    return ""


def _sense(slot: Slot, words: tuple[str, ...], noun: str, described: str) -> Sense:
    if slot.children or slot.kinds == {"object"} or ("object" in slot.kinds and "string" not in slot.kinds):
        return "object"
    if slot.kinds == {"boolean"}:
        return "flag"
    if slot.choices:
        return "choice"
    last = words[-1] if words else ""
    formats = {
        str(s.get("format", "")) for branch in [slot.parameter.json_schema] for s in [branch] if isinstance(s, dict)
    }
    timed = _timed(slot, words, formats, described)
    if timed is not None:
        return timed
    if slot.kinds & {"integer", "number"} and "string" not in slot.kinds:
        return _numeric(slot, words, noun)
    for name in ("email", "phone", "uuid"):
        if name in formats or name in words or (name == "email" and "mail" in words):
            return name
    if formats & {"uri", "url"} or {"url", "uri", "link", "website"} & set(words):
        return "url"
    return _textual(words, last, noun, described)


def _timed(slot: Slot, words: tuple[str, ...], formats: set[str], described: str) -> Sense | None:
    last = words[-1] if words else ""
    if "year" in words[-1:] and "date" not in words:
        return "year"
    if not slot.temporal or "string" not in slot.kinds or "zone" in words or last in _TIMES:
        return None
    if "date-time" in formats:
        return "moment"
    if "date" in formats or "date" in words or last in ("day", "birthday"):
        return "moment" if "time" in words else "date"
    if last in ("time", "hour") or "time" in formats:
        return "moment" if re.search(r"\bdate\b|%Y|YYYY|ISO|timestamp", described) else "time"
    if last in ("month", "week", "period"):
        return None
    return "date"


def _numeric(slot: Slot, words: tuple[str, ...], noun: str) -> Sense:
    found = set(words)
    is_limit = words[-1:] in (("limit",), ("page",)) and not found & _MONEY
    if slot.parameter.name.lower() in _LIMITS or is_limit or slot.paging:
        return "limit"
    if found & {"id", "identifier", "number"} and noun and not found & {"of"}:
        return "id"
    for names, sense in ((_MONEY, "money"), (_PERCENT, "percent"), ({"age"}, "age"), (_TIMES, "duration")):
        if found & names:
            return sense  # type: ignore[return-value]
    if "integer" in slot.kinds and "number" not in slot.kinds and found & _COUNTS:
        return "count"
    return "measure" if found & SIZES.keys() else "number"


def _textual(words: tuple[str, ...], last: str, noun: str, described: str) -> Sense:
    found = set(words)
    bare = words[:-1] if last in ("name", "names") else words
    person = (bool(bare) and bare[-1] in PEOPLE) or noun.split(" ")[-1] in PEOPLE
    counted = words[:2] in (("number", "of"), ("num", "of"), ("no", "of"))
    if counted or last in _MONEY or last in _TIMES - {"days", "hours"} or (last in _TIMES and len(words) > 1):
        return "money" if last in _MONEY else "duration" if last in _TIMES and not counted else "count"
    if found & {"currency"}:
        return "currency"
    if found & {"language", "lang", "locale"}:
        return "language"
    if last == "number" and re.search(r"phone\b|fax", described, re.IGNORECASE):
        return "phone"
    if last in _IDS:
        return "id"
    if last == "code":
        return "code"
    if person and not found & {"type", "status", "email", "role"}:
        return "person"
    if found & _PLACES or noun in _PLACES:
        return "place"
    if found & _TEXTS:
        return "message"
    if last in _TOPICS or words[:1] == ("q",):
        return "topic"
    if words == ("name",) and not noun:
        return "person" if re.search(r"\b(?:person|your|user|full) ", described) else "named"
    return "named" if last in ("name", "title") or words[-1:] == ("names",) else "text"
