"""Whether the words of a request ask for a change, and for which one: without such words nothing is changed."""

import re
from collections.abc import Iterator
from functools import lru_cache

from planner_svc.reading.effects import Effect
from planner_svc.reading.profile import Profile
from planner_svc.reading.questions import asks_only_for_facts
from planner_svc.reading.text import MAX_CHARS, WORD, split_name, stem, stem_set, without_quotes

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
"""Where an imperative may stand: at the start of a text, line or list item, after a stop, after "and" or "then"."""
_CALL_OFF = re.compile(r"\bcall(?=\s+off\b)", re.IGNORECASE)
_WANTED = re.compile(
    r"\b(?:i|we)(?:['\u2019]d\s+like|\s+(?:would\s+like|want|need))\s+(?:an?|the|one|\d+)\s", re.IGNORECASE
)
_ASKING = re.compile(
    r"(?:(?:and|then|also|please|kindly|now|first|finally|(?:i|we)\s+(?:want|need|would\s+like)\s+(?:you\s+)?to|(?:i|we)'d\s+like\s+(?:you\s+)?to|"
    r"(?:can|could|would|will)\s+you|let's|let\s+us|help\s+me(?:\s+to)?|go\s+ahead\s+and)(?:\s++(?:,\s++)?+|,\s++))*(?P<verb>[a-z]+)",
    re.IGNORECASE,
)
_LOOKING = stem_set("compare find list look search show")
"""Imperatives that change nothing, unless the operation does just that."""


def asks_for_change(verb: str) -> bool:
    """Whether a verb asks for a change."""
    return any(stem(verb) in verbs for verbs in _VERBS.values())


def may_call(profile: Profile, text: str) -> bool:
    """Whether the words ask for what the API does. An API that only reads may always be called.

    A call that changes something needs a matching imperative ("book", "cancel") outside quoted text. A call that
    creates something may also follow from a wish ("I need a room").
    """
    if profile.effect in ("read", "compute"):
        return True
    if profile.effect == "create" and _WANTED.search(without_quotes(text)):
        return True
    own = stem((split_name(profile.api.name) or [""])[0])
    return any(verb in _VERBS[profile.effect] or verb == own for verb in _imperatives(text[:MAX_CHARS]))


def may_be_meant(profile: Profile, text: str) -> bool:
    """Whether the words may mean what the API changes: requests use more words than the lists contain.

    "That order has to go" may mean cancelling it, and "could you pause it?" may mean an update. A question for a fact
    ("Was the order cancelled?") changes nothing, unless a part of the request asks for what the operation does, in the
    operation's own verb or in one of the lists. The same holds if it only says to look something up.
    """
    verbs = _imperatives(text[:MAX_CHARS])
    only_looks = bool(verbs) and verbs <= _LOOKING
    if not (only_looks or asks_only_for_facts(text)) or may_call(profile, text):
        return True
    return not _said_verbs(profile).isdisjoint(verbs)


def _said_verbs(profile: Profile) -> frozenset[str]:
    """Stems of the words that a document begins its summary and description with: "Pauses a subscription"."""
    api = profile.api
    return frozenset(stem(match[0]) for text in (api.summary, api.description) if (match := WORD.search(text)))


def asks_for_action(text: str) -> bool:
    """Whether a part of a request asks for a change."""
    return any(asks_for_change(verb) for verb, _ in find_imperatives(text))


def find_imperatives(text: str) -> Iterator[tuple[str, str]]:
    """The words in the places of imperatives, in lower case, each with the text that follows it.

    Quoted text is left out of both.
    """
    bare = _CALL_OFF.sub("cancel", without_quotes(text))
    for match in _BEGINNING.finditer(bare):
        asking = _ASKING.match(bare, match.end())
        if asking is not None:
            yield asking["verb"].lower(), bare[asking.end() :]


@lru_cache(maxsize=16)
def _imperatives(text: str) -> frozenset[str]:
    """Stems of the words in the places of imperatives; cached, as every candidate needs them."""
    return frozenset(stem(verb) for verb, _ in find_imperatives(text))
