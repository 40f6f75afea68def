"""Phrases that state a value without its parameter's name: "in Paris", "from 5 May", "by Ann Lee", "for two guests"."""

from __future__ import annotations

import random
import re

from planner_svc.reading.profile import Slot
from planner_svc.reading.text import word_set
from training.planner.banks import WEEKDAYS
from training.planner.meanings import Meaning, Sense, meaning_of
from training.planner.pieces import Text, fill
from training.planner.samples import SampledValue

Forms = tuple[str, ...]

_RELATIVE = re.compile(rf"^(?:today|tomorrow|day after|next|this|{'|'.join(WEEKDAYS)})")
_BY = word_set(
    """
    author artist director composer creator writer publisher sender singer band photographer
    """
)
_TO = word_set("recipient recipients receiver assignee destination guest")
_COUNTABLE = word_set("guests people adults children seats tickets passengers copies")
_SPOKEN = word_set("message text content body comment")
_BARE_DATES = frozenset(
    tuple(words.split())
    for words in (
        "date", "day", "time", "datetime", "date time", "when", "start", "start date", "end date", "start time",
        "end time", "check in date", "year", "from", "to",
    )
)  # fmt: skip
"""Names of parameters that only mean a time: "on 5 May" can state them, but not a due date."""
_SIMPLE: dict[Sense, Forms] = {
    "topic": ("about {value}", "on {value}", "for {value}", "related to {value}", "matching {value}"),
    "age": ("aged {value}", "of age {value}", "at age {value}"),
    "email": ("to {value}", "for {value}", "at {value}"),
}


def adjunct(slot: Slot, said: SampledValue, value: Text, rng: random.Random) -> Text | None:
    """A phrase that states the value with a preposition; None if it needs the parameter's name."""
    meant = meaning_of(slot)
    found = _forms(slot, meant, said)
    if not found or (len(meant.words) > 2 and rng.random() < 0.4):
        return None
    return fill(rng.choice(found), value=value, noun=meant.noun or meant.label, label=meant.label)


def _forms(slot: Slot, meant: Meaning, said: SampledValue) -> Forms:
    match meant.sense:
        case "place":
            return _placed(slot, meant)
        case "date" | "moment" | "time" | "year":
            return _timed(slot, meant, said)
        case "language" | "currency":
            return _directed(slot)
        case "person" | "id" | "uuid":
            return _identified(meant)
        case "limit" | "count" | "duration" | "money":
            return _counted(meant, said)
        case "message":
            spoken = ("saying {value}", ": {value}", "that says {value}")
            return spoken if _SPOKEN & set(meant.words) else ()
    return _SIMPLE.get(meant.sense, ())


def _placed(slot: Slot, meant: Meaning) -> Forms:
    last = meant.words[-1]
    if slot.role == "from" or {"origin", "source"} & set(meant.words):
        return ("from {value}",)
    if slot.role == "to" or "destination" in meant.words:
        return ("to {value}",)
    if len(meant.words) > 1 and last not in ("name", "code"):
        return ()
    if last in ("address", "venue", "station", "airport"):
        return ("at {value}", "for {value}")
    near = "near {value}" if last == "location" else "in {value}"
    return ("in {value}", "in {value}", "for {value}", "for the {label} {value}", near)


def _directed(slot: Slot) -> Forms:
    if slot.role is None:
        return ("in {value}",)
    return ("from {value}",) if slot.role == "from" else ("to {value}", "into {value}")


def _identified(meant: Meaning) -> Forms:
    words = set(meant.words)
    if meant.sense != "person":
        known = ("for {noun} {value}", "for the {noun} with ID {value}", "of {noun} {value}")
        return known if meant.noun else ("with ID {value}", "with the ID {value}")
    if words & _BY:
        return ("by {value}",)
    if words & _TO:
        return ("to {value}", "for {value}")
    return ("for {value}", "for {noun} {value}", "with {value}") if meant.noun or len(words) == 1 else ()


def _timed(slot: Slot, meant: Meaning, said: SampledValue) -> Forms:
    words = meant.words
    if len(words) == 2 and words[-1] in ("at", "on", "by"):
        return ("{label} {value}",) if words[0] != "due" else ("due {value}", "for {value}")
    relative = _RELATIVE.match(said.text) is not None
    if slot.role == "from" and set(words) & {"start", "from", "begin", "since", "after"}:
        starting = "starting on {value}" if meant.sense == "date" and not relative else "starting {value}"
        return ("from {value}", starting, "from {value} on")
    if slot.role == "to" and set(words) & {"end", "to", "until", "before", "till"}:
        return ("to {value}", "until {value}", "till {value}")
    if words not in _BARE_DATES:
        return ()
    if meant.sense == "year":
        return ("in {value}", "for {value}", "for the year {value}")
    if meant.sense == "time":
        return ("at {value}",)
    return ("{value}", "for {value}") if relative else ("on {value}", "for {value}", "on {value}")


def _counted(meant: Meaning, said: SampledValue) -> Forms:
    words = meant.words
    if meant.sense == "limit":
        if "page" in words and not {"size", "per"} & set(words):
            return ("page {value}",)
        return ("(at most {value})", "limited to {value} results", "up to {value} of them", "(no more than {value})")
    if meant.sense == "money":
        return ("for {value}",) if words in (("price",), ("amount",)) and said.before else ()
    if said.after:  # the unit is stated
        long = meant.label in ("duration", "length") or meant.sense == "count"
        alone = said.after.strip() == meant.label
        return ("for {value}",) if long else ("{value}",) if alone else ()
    thing = (
        " ".join(words[2:]) if words[:1] in (("number",), ("num",)) else words[-1] if words[-1] in _COUNTABLE else ""
    )
    return (f"for {{value}} {thing}", f"with {{value}} {thing}") if thing and meant.sense == "count" else ()
