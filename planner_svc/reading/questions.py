"""Whether a request only asks what is or was the case: then nothing is changed for it.

Grammar decides, not the verb: the verbs of changes are as many as there are operations. "Was it paused?" asks for a
fact, "could you pause it?" asks for a change in the form of a question.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

from planner_svc.reading.text import without_quotes

_SENTENCE: Final = re.compile(r"(?:[^.!?;\n]|[.!?;](?=\w))++[.!?;]*+")
"""A sentence with its stops. A stop inside a word, a number or an address ends nothing."""
_FILLER: Final = r"(?:(?:also|and|but|dear|hello|hey|hi|maybe|now|ok|okay|or|perhaps|so|then|well)\b\W*+){0,8}+"
_ANY_QUESTION: Final = re.compile(r"\?(?!\w)")
_PLEASE: Final = r"(?:(?:kindly|please)\W++)?"
_FACT: Final = re.compile(
    r"\W*+"
    + _FILLER
    + _PLEASE
    + r"(?:(?:when|where)(?=\s+(?:am|are|can|did|do|does|had|has|have|is|should|was|were|will)\b)"
    r"|am|any|anybody|anyone|are|did|do|does|had|has|have|how|is|was|were|what|which|who|whom|whose|why)\b",
    re.IGNORECASE,
)
"""The beginning of a question for a fact. In the first sentence, its question mark may be missing."""
_SOMEBODY: Final = r"(?:anybody|anyone|somebody|someone|u|you)"
_POLITE: Final = re.compile(
    r"(?:^\W*+|[,:;(\u2013\u2014]\s*+|\s-\s++|\b(?:and|but|or|so|then)\s++)" + _FILLER + _PLEASE + r"(?:"
    r"(?:can|can['\u2019]?t|could|couldn['\u2019]?t|may|might)\s+(?:i|we|" + _SOMEBODY + r")(?:\s+mind)?"
    r"|(?:will|won['\u2019]?t|would|wouldn['\u2019]?t|do)\s+" + _SOMEBODY + r"\s+mind"
    r"|(?:will|won['\u2019]?t|would|wouldn['\u2019]?t)\s+" + _SOMEBODY +
    r"|(?:is|would)\s+it\s+(?:be\s+)?(?:all\s+right|alright|fine|ok|okay|possible)\s+(?:for\s+you\s+to|if\s+(?:we|you)|to)"
    r"|(?:is\s+there\s+)?(?:a|any|some)\s+(?:chance|way)\s+(?:of|to|(?:that\s+)?(?:i|we|you)\s+(?:can|could|might|would))"
    r"|(?:are|would)\s+(?:we|you)\s+(?:be\s+)?able\s+to"
    r"|(?:how|what)\s+about(?=\s+[a-z]+ing\b)"
    r"|why\s+(?:don['\u2019]?t\s+(?:we|you)|not)"
    r"|let['\u2019]?s|let\s+us|(?:kindly|please)(?=\W)"
    r")\W++(?P<asked>[a-z][^.!?;\n]{0,80})",
    re.IGNORECASE,
)  # fmt: skip
"""A change asked for in the form of a question, at the beginning of a clause; what is asked for follows."""
_WISH: Final = re.compile(
    r"(?:\b(?:like|love|need|needs|want|wants|wish)\s+(?:\w+\s+)?to|\b(?:has|have|need|needs|ought)\s+to\s+be"
    r"|\b(?:must|should)\s+be|\bneeds?(?=\s+[a-z]+ing\b)"
    r"|\b(?:like|need|want)(?:\s+to\s+have)?\s+(?:her|him|it|that|them|these|this|those)(?=\s+[a-z]+ed\b))"
    r"\s+(?P<asked>[a-z][^.!?;\n]{0,80})",
    re.IGNORECASE,
)
"""A change that is wished for, in a sentence that does not begin as a question."""
_TELLING: Final = re.compile(
    r"(?:(?:also|all|go\s+ahead\s+and|guys|help\s+(?:me|us)(?:\s+to)?|just|kindly|maybe|perhaps|please|possibly|quickly)\W++){0,8}+"
    r"(?:(?:ask|check|compar|describ|download|explain|find|hav\w*\s+[a-z]+ed\b|know|learn|list|look|read|say|see|show|tell)(?:e|ing)?\b"
    r"|(?:be|being)\b(?!\s+so\s+kind)|let(?:ting)?\s+(?:me|us)\s+know\b|confirm(?:ing)?\s+(?:if|that|whether)\b"
    r"|(?:get|getting|give|giving)\s+(?:me|us)\s+(?:all|her|his|its|more|some|that|the|their|this)\b"
    r"|(?:are|did|do|does|has|how|if|is|was|were|what|when|where|whether|which|who|why)\b)",
    re.IGNORECASE,
)
"""The beginning of what asks to be told something: nothing else is to be done."""


def polite_requests(text: str) -> Iterator[tuple[str, str]]:
    """The first words of what is asked to be done in the form of a question, in lower case, each with what follows."""
    for sentence in _SENTENCE.finditer(without_quotes(text)):
        for match in _POLITE.finditer(sentence[0]):
            if _TELLING.match(match["asked"]) is None and (verb := re.match("[a-z]+", match["asked"], re.IGNORECASE)):
                yield verb[0].lower(), match["asked"][verb.end() :]


@lru_cache(maxsize=16)
def asks_only_for_facts(text: str) -> bool:
    """Whether a request has a question for a fact, and no part that asks to do something.

    Quoted text asks for nothing. A request without any question may ask for anything ("that order has to go").
    """
    facts = False
    for number, match in enumerate(_SENTENCE.finditer(without_quotes(text))):
        sentence = match[0]
        begins = _FACT.match(sentence) is not None
        wishes = () if begins else _WISH.finditer(sentence)
        if any(_TELLING.match(one["asked"]) is None for one in chain(_POLITE.finditer(sentence), wishes)):
            return False
        facts |= (begins and number == 0) or _ANY_QUESTION.search(sentence) is not None
    return facts
