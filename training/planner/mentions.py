"""Mentions of values together with their nouns: "the order with ID 17", "with a budget of $500"."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner_svc.reading.profile import Slot
from planner_svc.reading.text import word_set
from training.planner.meanings import Sense, meaning_of
from training.planner.pieces import Mark, Piece, Text, and_list, fill, text
from training.planner.samples import SampledValue
from training.planner.wording import SlotMention, is_plural

_QUOTES = (('"', '"'), ("'", "'"), ('"', '"'), ("\u201c", "\u201d"))
_QUOTED: dict[Sense, float] = {"message": 0.75, "named": 0.3, "topic": 0.2, "text": 0.15, "id": 0.15, "person": 0.05}
"""Share of values in quotes."""
_TRUE_PREFIX = word_set("include with show return has have is are only enable allow use send auto should can")
_NUMERIC: frozenset[Sense] = frozenset(("money", "percent", "measure", "number", "count", "duration", "age"))
_MENTION_FORMS: dict[Sense, tuple[str, ...]] = {
    "id": (
        "{noun} {value}",
        "{noun} {value}",
        "the {noun} with ID {value}",
        "the {noun} with the ID {value}",
        "{noun} ID {value}",
        "the {noun} {value}",
    ),
    "uuid": ("{noun} {value}", "the {noun} with ID {value}", "{value}"),
    "person": ("{value}", "{value}", "{noun} {value}", "the {noun} {value}", "our {noun} {value}"),
    "named": ("{value}", "{value}", "the {noun} {value}", "the {noun} called {value}", "the {value} {noun}"),
    "place": ("{value}", "{value}", "{value}"),
    "message": ("the {noun} {value}", "{value}", "this {noun}: {value}", "the following {noun}: {value}"),
}


def value_text(
    slot: Slot, said: SampledValue, calls: Iterable[int], rng: random.Random, *, quotes: bool = True
) -> Text:
    """The value's text, marked as the argument of these calls; with ``quotes`` some texts are quoted."""
    calls = tuple(calls)
    if said.listed:
        mark = "'" if rng.random() < 0.15 else ""
        items = [
            text(mark, Piece(words, tuple(("value", call, slot.name, number) for call in calls)), mark)
            for number, (words, _) in enumerate(said.items)
        ]
        return and_list(items, rng.choice(("and", "and", "and", "or")))
    marks: tuple[Mark, ...] = tuple(("value", call, slot.name, -1) for call in calls)
    whole = text(said.before, Piece(said.text, marks), said.after)
    sense = meaning_of(slot).sense
    share = _QUOTED.get(sense, 0.0)
    if quotes and rng.random() < (share if " " in said.text or sense == "id" else share / 2):
        opening, closing = rng.choice(_QUOTES)
        return text(opening, whole, closing)
    return whole


def mention_text(
    mention: SlotMention, slot: Slot, value: Text, rng: random.Random, *, creates: bool, before: str
) -> Text:
    """The value in place of the words for its object: "the order with ID 17" for "an order".

    Args:
        mention: the place of those words.
        slot: the parameter.
        value: its value in words.
        rng: source of randomness.
        creates: whether the call creates the object, so that the value names it.
        before: the replaced words.
    """
    sense = meaning_of(slot).sense
    forms = _MENTION_FORMS.get(sense, ("{value}", "{value}", "the {noun} {value}"))
    if creates and sense == "id":
        forms = ("{whole} with the ID {value}", "{whole} {value}")
    elif creates and sense in ("named", "person"):
        forms = ("{whole} called {value}", "{whole} named {value}", "{whole} {value}")
    elif sense == "place" and mention.noun.split()[-1] in ("city", "country", "state", "region", "town"):
        forms = (*forms, "the {noun} of {value}")
    return fill(rng.choice(forms), noun=mention.noun, value=value, whole=before)


def flag_text(slot: Slot, value: bool, calls: Iterable[int], rng: random.Random) -> Text:
    """Words that request a boolean: "including archived ones", "without pets", "and make it public"."""
    chosen = rng.choice(_wishes(list(meaning_of(slot).words) or [slot.name[:40]], value))
    lead = re.match(r"(?:and|but)\s+", chosen)
    start = lead.end() if lead else 0
    return text(chosen[:start], Piece(chosen[start:], tuple(("value", call, slot.name, -1) for call in calls)))


def _wishes(words: list[str], value: bool) -> tuple[str, ...]:
    head = words[0] if words[0] in _TRUE_PREFIX and len(words) > 1 else ""
    rest = " ".join(words[1:] if head else words)
    yes: tuple[str, ...]
    no: tuple[str, ...]
    if head in ("include", "with", "show", "return"):
        yes, no = (f"including {rest}", f"with {rest}", f"and include {rest}"), (f"without {rest}", f"excluding {rest}")
    elif head in ("is", "are", "only", "should", "can"):
        yes, no = (f"and it should be {rest}", rest), (f"but not {rest}", f"and it should not be {rest}")
    elif head in ("enable", "allow", "use", "send", "auto"):
        yes, no = (f"and {head} {rest}", f"with {rest}"), (f"but don't {head} {rest}", f"without {rest}")
    elif words[-1].endswith("ed"):
        yes, no = (rest,), (f"not {rest}", f"no {rest}")
    else:
        yes, no = (f"with {rest}", f"with {rest} on", f"{rest} enabled"), (f"without {rest}", f"{rest} disabled")
    return yes if value else no


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to state values with their parameters' names.

    Attributes:
        lead: text before all values.
        each: template of each value; ``first`` replaces it for the first one.
        end: text after all values.
        alone: whether the result is a separate sentence.
    """

    lead: str
    each: str
    end: str = ""
    first: str = ""
    alone: bool = False


_A_OF = _Form("with ", "{a} {label} of {value}")
_FORMS = (
    _Form("with ", "{label} {value}"),
    _Form("with ", "{label} {value}"),
    _Form("with ", "{label} {value}"),
    _Form("with ", "the {label} {value}"),
    _Form("using ", "{value} as the {label}"),
    _Form("where ", "the {label} {be} {value}"),
    _Form("(", "{label}: {value}", end=")"),
    _Form(", ", "{label} {value}"),
    _Form("The ", "the {label} {be} {value}", end=".", first="{label} {be} {value}", alone=True),
    _Form("The ", "the {label} {be} {value}", end=".", first="{label} {be} {value}", alone=True),
    _Form("The ", "the {label} {value}", end=".", first="{label} should be {value}", alone=True),
    _Form("", "use {value} as the {label}", end=".", first="Use {value} as the {label}", alone=True),
)


def labelled(parts: Sequence[tuple[Slot, Text]], rng: random.Random) -> tuple[Text, bool]:
    """Values with their parameters' names, and whether the result is a separate sentence."""
    numeric = all(meaning_of(slot).sense in _NUMERIC for slot, _ in parts)
    form = rng.choice((_A_OF, _A_OF, *_FORMS) if numeric else _FORMS)
    said: list[Text] = []
    for slot, value in parts:
        label = meaning_of(slot).label
        each = form.each if said or not form.first else form.first
        be, article = "are" if is_plural(label) else "is", "an" if label[:1].lower() in "aeiou" else "a"
        said.append(fill(each, label=label, value=value, be=be, a=article))
    listed = and_list(said) if form.end != ")" else and_list(said, ",")
    return text(form.lead, listed, form.end), form.alone
