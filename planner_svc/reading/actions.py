"""Whether the words of a request ask for a change, and for which: nothing is changed without such words."""

import re
from collections.abc import Iterator
from functools import lru_cache

from planner_svc.reading.profile import Effect, Profile
from planner_svc.reading.text import MAX_CHARS, split_name, stem, stem_set, without_quotes

_VERBS: dict[Effect, frozenset[str]] = {
    "create": stem_set(
        """
        add append book build buy create draft enter file generate hire log make note open order organise organize
        place plan post produce put record register remind reserve save schedule send set start store submit subscribe
        upload write
        """
    ),
    "change": stem_set(
        """
        adjust change correct edit extend finish fix mark modify move postpone reassign rename replace reschedule set
        shift shorten switch tick update
        """
    ),
    "destroy": stem_set("cancel clear close delete discard drop end erase remove revoke stop terminate void withdraw"),
}
_BEGINNING = re.compile(
    r"(?:^|(?:[.!?;,:]|(?<!\s))\s*\n)[\s\-*\u2022\d.)(]*|[.!?;,:]\s+(?:-\s+)?|\s-\s+|\band\s+|\bthen\s+|\d[.)]\s+"
)
"""Where an imperative may stand: at a beginning, of a line of a list too, after a stop, after "and"."""
_QUESTION = re.compile(
    r"\W*+(?:(?:and|but|hello|hey|hi|ok|okay|please|so)\W++)*(?:am|any|anybody|anyone|are|did|do|does|had|has|have|how|is|was|were|"
    r"what|when|where|which|who|whom|whose|why)\b",
    re.IGNORECASE,
)
_CALL_OFF = re.compile(r"\bcall(?=\s+off\b)", re.IGNORECASE)
_WANTED = re.compile(
    r"\b(?:i|we)(?:['\u2019]d\s+like|\s+(?:would\s+like|want|need))\s+(?:an?|the|one|\d+)\s", re.IGNORECASE
)
_ASKING = re.compile(
    r"(?:(?:and|then|also|please|kindly|now|first|finally|(?:i|we)\s+(?:want|need|would\s+like)\s+(?:you\s+)?to|(?:i|we)'d\s+like\s+(?:you\s+)?to|"
    r"(?:can|could|would|will)\s+you|let's|let\s+us|help\s+me(?:\s+to)?|go\s+ahead\s+and)(?:\s++(?:,\s++)?+|,\s++))*(?P<verb>[a-z]+)",
    re.IGNORECASE,
)


def asks_for_change(verb: str) -> bool:
    """Whether a verb tells to change something."""
    return any(stem(verb) in verbs for verbs in _VERBS.values())


def may_call(profile: Profile, text: str) -> bool:
    """Whether the words ask for what the API does. What only reads may always be called.

    A call that changes something needs an imperative for just that ("book", "cancel"), outside quoted text; what
    creates something may also be wished for ("I need a room").
    """
    if profile.effect in ("read", "compute"):
        return True
    if profile.effect == "create" and _WANTED.search(without_quotes(text)):
        return True
    own = stem((split_name(profile.api.name) or [""])[0])
    return any(verb in _VERBS[profile.effect] or verb == own for verb in _imperatives(text[:MAX_CHARS]))


def may_be_meant(profile: Profile, text: str) -> bool:
    """Whether the words leave room for what the API does: people put what they want in more words than are listed.

    "That order has to go" may cancel it. A question changes nothing ("Was the order cancelled?"), unless something in
    it tells to.
    """
    bare = without_quotes(text)
    return may_call(profile, text) or not ("?" in bare or _QUESTION.match(bare))


def asks_for_action(text: str) -> bool:
    """Whether a part of a request tells to change something."""
    return any(asks_for_change(verb) for verb, _ in told(text))


def told(text: str) -> Iterator[tuple[str, str]]:
    """The words that stand where an imperative would, in small letters, each with the text that follows it.

    What is quoted is left out of both.
    """
    bare = _CALL_OFF.sub("cancel", without_quotes(text))
    for match in _BEGINNING.finditer(bare):
        asking = _ASKING.match(bare, match.end())
        if asking is not None:
            yield asking["verb"].lower(), bare[asking.end() :]


@lru_cache(maxsize=16)
def _imperatives(text: str) -> frozenset[str]:
    """Stems of the words that stand where an imperative would; kept, as it is asked of every candidate."""
    return frozenset(stem(verb) for verb, _ in told(text))
