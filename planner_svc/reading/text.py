"""Words: splitting names, light stemming, and lists of English function words."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

MAX_CHARS = 4_000
"""Most characters of a request that are read."""
_MAX_KEPT = 100
"""Stems of longer words, which a request may hold, are not kept in memory."""
_LOOK_ALIKES = {0x17F: "s", 0x212A: "k", 0x130: "I", 0x131: "i"}
WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
QUOTED = re.compile(
    r"\"([^\"\n]{0,1000})\"|(?<![\w'])'([^'\n]{1,1000})'(?!\w)|`([^`\n]{1,1000})`|“([^”\n]{1,1000})”|«([^»\n]{1,1000})»"
)
"""A text in quotation marks, on one line; the group that matched is the text inside."""
_ALL_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|«[^»]*»|(?<!\w)'[^']*'(?!\w)")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_IRREGULAR = {
    "feet": "foot", "inches": "inch", "people": "person", "children": "child", "men": "man", "women": "woman",
    "geese": "goose", "mice": "mouse", "teeth": "tooth",
    "lives": "life", "celsius": "celsius", "is": "is", "was": "was", "this": "this", "its": "its", "status": "status",
    "address": "address", "analysis": "analysis", "series": "series", "news": "news", "heavy": "weight",
    "weighs": "weight", "weigh": "weight", "long": "length", "far": "distance", "high": "height", "tall": "height",
    "cost": "price", "costs": "price", "closest": "nearest", "close": "near", "average": "mean", "money": "currency",
    "correct": "valid", "kind": "type", "sort": "type", "old": "age", "elevation": "height", "altitude": "height",
    "pieces": "quantity",
    "metre": "meter", "litre": "liter", "spelt": "spelling", "fast": "speed", "due": "due", "does": "do", "has": "have",
}  # fmt: skip
"""Irregular plurals, and everyday words for the nouns that fields are named by ("how heavy" asks for a weight)."""


def word_set(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


STOP = word_set(
    """
    a an the this that these those and or but nor so if then than as at by for from in into of off on onto out
    over to up with without within between about against during until till since per via after before versus
    what's that's it's i i'd i'm i'll i've me my mine we us our ours you your he him his she her they them their
    it its be is are am was were been being do does did done doing have has had having can could will would
    shall should may might must not no yes please kindly just also too very really exactly currently right there
    here when where which what who whom whose why how many much any some all each every both either more most
    other another such same own again ever let let's thanks thank hello hi hey dear want wants need needs like
    likes know knows tell give show find get gets look see say says help using use uses used make come comes go
    goes going now ok okay called call one's d'accord till per it'll you're isn't aren't doesn't write would've
    wish wanted needed something anything everything
    """
)
"""Function words and question words, which name nothing."""

NOT_NAMES = word_set(
    """
    cost costs weigh weighs mean means start starts end ends begin begins take takes belong belongs lie lies
    live lives stand stands happen happens fall falls work works convert check calculate compute list count book
    create add cancel delete remove update change remind schedule order buy set put mark rename send search
    compare translate format analyze summarize estimate open close available yet already still today tomorrow
    long far high heavy big tall deep fast cheap expensive old nearest closest next last first latest new
    cheaper larger smaller bigger less higher lower longer shorter under above below
    """
)
"""Words that are not part of a name, or of a noun phrase that names a thing."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the request: its stem and its characters ``start`` to ``end``."""

    text: str
    stem: str
    start: int
    end: int


def stem(word: str) -> str:
    """A word without case, possessive, plural, -ed and -ing: for comparison, not for display."""
    return _kept_stem(word) if len(word) <= _MAX_KEPT else _stem(word)


def _stem(word: str) -> str:
    low = word.lower().replace("\u2019", "'").removesuffix("'s").strip("'")
    low = singular(_IRREGULAR.get(low, low))
    low = _IRREGULAR.get(low, low)
    for suffix in ("ing", "ed"):
        base = low.removesuffix(suffix)
        if base != low and len(base) >= 3 and re.search("[aeiouy]", base):
            low = base[:-1] if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "ls" else base
            break
    return low[:-1] if len(low) > 4 and low.endswith("e") else low


_kept_stem = lru_cache(maxsize=20_000)(_stem)


def singular(low: str) -> str:
    """A lower-case noun without its plural ending."""
    if len(low) > 4 and low.endswith("ies"):
        return low[:-3] + "y"
    if len(low) > 4 and low.endswith(("ches", "shes", "sses", "xes", "zes")):
        return low[:-2]
    if len(low) > 3 and low.endswith("s") and not low.endswith(("ss", "us", "is")):
        low = low[:-1]
    return low[:-2] + "er" if low.endswith(("metre", "litre")) else low


def split_name(name: str) -> list[str]:
    """The words of a name: ``countryCode`` and ``country_code`` give country and code."""
    return [part.lower() for part in _NAME_PART.findall(name)]


def name_parts(text: str) -> list[Word]:
    """The words of the names in a text, with their places: ``metadata.countryCode`` gives three."""
    return [Word(m[0], stem(m[0]), m.start(), m.end()) for m in _NAME_PART.finditer(text)]


def stems(text: str) -> list[str]:
    """The stems of a text's content words, in order. Hyphenated words are split."""
    found = []
    for match in WORD.finditer(text):
        found += [stem(part) for part in match[0].split("-") if part.lower() not in STOP]
    return found


def words_of(text: str, offset: int = 0) -> list[Word]:
    """All words of a text with their places; ``offset`` is added to both ends."""
    return [Word(m[0], stem(m[0]), m.start() + offset, m.end() + offset) for m in WORD.finditer(text)]


def without_look_alikes(text: str) -> str:
    """The text with s, k and i in place of letters that a pattern takes for them if it ignores case, such as U+017F.

    Case conversion does not make these equal, so what such a pattern found would not be in a table. Lengths are kept.
    """
    return text.translate(_LOOK_ALIKES)


def without_quotes(text: str, mark: str = "Q") -> str:
    """The text with every character of a quotation replaced by ``mark``; quotations may span lines."""
    return _ALL_QUOTED.sub(lambda match: mark * len(match[0]), text)


def without(text: str, places: Iterable[tuple[int, int]]) -> str:
    """The text with a comma for each character at these places, from one character to another."""
    for start, end in places:
        text = text[:start] + "," * (end - start) + text[end:]
    return text


def stem_set(words: str) -> frozenset[str]:
    """The stems of the words in a text, for lists that are compared with stems."""
    return frozenset(stem(word) for word in words.split())


def shape(text: str) -> str:
    """The form of a text: ``A`` for runs of capitals, ``a`` for lower case, ``9`` for digits; others are kept."""
    return re.sub(r"(.)\1+", r"\1", re.sub(r"[a-z]", "a", re.sub(r"[A-Z]", "A", re.sub(r"[0-9]", "9", text))))
