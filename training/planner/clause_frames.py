"""The frame of a clause: an order, a question or a bare name, with a phrase in front or a sentence after it."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from planner_svc.reading.profile import Slot
from training.planner.meanings import meaning_of
from training.planner.pieces import Text, plain, text
from training.planner.wording import Wording, is_plural

_VAGUE = re.compile(r"^(?:(?:the|some|any|detailed|basic|more|further|all) )*(?:information|info|details?|data)\b")
_SOMEWHERE = re.compile(
    r"\s+(?:at|in|of|for|from|to|near|within|around) (?:an?|the|some) "
    r"(?:location|place|city|area|region|country|destination)(?: of choice)?\b"
)
_SOMETIME = re.compile(
    r"\s+(?:on|at|for|of|in) (?:an? |the |some )?(?:dates?|times?|day|time and date|date and time|time period)\b"
)
_ANY = re.compile(r"\s+(?:of|for|in|on|about|at) an? (?:[a-z-]+ ?){1,3}$")


def framed(rng: random.Random, wording: Wording, whole: Text, target: Text, terse: bool) -> tuple[str, Text]:
    """Phrase the call as an order, a question, a need or a bare name.

    Args:
        rng: source of randomness.
        wording: the API's wording.
        whole: what is wanted, with all phrases.
        target: the same without the phrases.
        terse: whether to use as few words as possible.

    Returns:
        The kind (``order``, ``question``, ``need`` or ``noun``) and the words.
    """
    said = plain(target)
    asks = wording.effect == "read" or (
        wording.effect == "compute" and wording.verb in ("calculate", "estimate", "determine", "predict")
    )
    draw = rng.random()
    if asks and terse and draw < 0.7:
        return "noun", _without_article(whole)
    if asks and draw < 0.2 and re.match(r"(?:the|my) ", said) and not _VAGUE.match(said):
        opening = "what are " if is_plural(said) else rng.choice(("what is ", "what is ", "what's "))
        return "question", text(opening, whole)
    if asks and wording.effect == "read" and draw < 0.42:
        return rng.choice(
            (
                ("need", text("I need ", whole)),
                ("need", text("I need ", whole)),
                ("need", text("I'd like ", whole)),
                ("need", text("I'm looking for ", whole)),
                ("need", text("I'd like to see ", whole)),
                ("need", text("I'm interested in ", whole)),
                ("question", text("can I get ", whole)),
                ("question", text("do you have ", whole)),
                ("noun", whole),
            )
        )
    verb = rng.choice(wording.verbs)
    return "order", text(verb, " ", whole)


def _without_article(whole: Text) -> Text:
    if whole[0].marks:
        return whole
    return text(re.sub(r"^(?:the|a|an) ", "", whole[0].text), whole[1:])


def trimmed(rng: random.Random, target: Text, rest: list[Slot]) -> Text:
    """Remove "on a date" and "of a community" if a value states which one."""
    last = target[-1]
    senses = {meaning_of(slot).sense for slot in rest}
    found = []
    for piece in target:
        said = piece.text
        if not piece.marks:
            said = _SOMEWHERE.sub("", said) if "place" in senses else said
            said = _SOMETIME.sub("", said) if senses & {"date", "moment", "time"} else said
        if piece is last and not piece.marks and senses & {"place", "id", "person", "named"} and rng.random() < 0.7:
            said = _ANY.sub("", said)
        found.append(replace(piece, text=said))
    return tuple(piece for piece in found if piece.text) or target


def fronted_phrase(rng: random.Random, phrases: list[Text]) -> Text | None:
    """A phrase to begin with: "In Paris, ..."."""
    able = [phrase for phrase in phrases if re.match(r"(?:in|on|at|for|from) \S", plain(phrase))]
    return rng.choice(able) if able and rng.random() < 0.08 else None


def only_field(rng: random.Random, label: str, *, joins: bool) -> tuple[str, bool]:
    """A request for one field of the answer, and whether it is a separate sentence."""
    if joins and rng.random() < 0.35:
        return rng.choice((f" and tell me the {label}", f" and give me the {label}")), False
    return rng.choice(
        (
            (f"I only need the {label}.", True),
            (f"What{' are' if is_plural(label) else chr(39) + 's'} the {label}?", True),
            (f"Just the {label}, please.", True),
            (f"I want to know the {label}.", True),
        )
    )
