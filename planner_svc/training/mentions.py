"""How a parameter's value is mentioned: "in Paris", "from 5 May", "with a budget of $500", "the order with ID 17"."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from planner_svc.backends.compact.profile import Slot
from planner_svc.training.banks import WEEKDAYS
from planner_svc.training.pieces import Mark, Piece, Text, and_list, fill, text
from planner_svc.training.samples import Said
from planner_svc.training.senses import About, about
from planner_svc.training.wording import Hook, is_plural

_QUOTES = (('"', '"'), ("'", "'"), ('"', '"'), ("\u201c", "\u201d"))
_RELATIVE = re.compile(rf"^(?:today|tomorrow|day after|next|this|{'|'.join(WEEKDAYS)})")
_BY = frozenset("author artist director composer creator writer publisher sender singer band photographer".split())
_TO = frozenset("recipient recipients receiver assignee destination guest".split())
_BARE_DATES = frozenset({("date",), ("day",), ("time",), ("datetime",), ("when",), ("start",), ("start", "date"), ("end", "date"),
                         ("start", "time"), ("end", "time"), ("year",), ("from",), ("to",), ("check", "in", "date"), ("date", "time")})  # fmt: skip
_TRUE_PREFIX = frozenset("include with show return has have is are only enable allow use send auto should can".split())


def value_text(slot: Slot, said: Said, calls: Iterable[int], rng: random.Random, *, quotes: bool = True) -> Text:
    """The value's own words, marked as the argument of these calls; texts sometimes in ``quotes``."""
    meant = about(slot)
    if said.listed:
        quoted = rng.random() < 0.15
        items = []
        for number, (words, _) in enumerate(said.items):
            piece = Piece(words, tuple(("value", call, slot.name, number) for call in calls))
            items.append(text("'", piece, "'") if quoted else text(piece))
        return and_list(items, rng.choice(("and", "and", "and", "or"))) if len(items) > 1 else items[0]
    marks: tuple[Mark, ...] = tuple(("value", call, slot.name, -1) for call in calls)
    whole = text(said.before, Piece(said.text, marks), said.after)
    share = {"message": 0.75, "named": 0.3, "topic": 0.2, "text": 0.15, "id": 0.15, "person": 0.05}.get(meant.sense, 0.0)
    if quotes and rng.random() < (share if " " in said.text or meant.sense == "id" else share / 2):
        opening, closing = rng.choice(_QUOTES)
        return text(opening, whole, closing)
    return whole


def hooked(hook: Hook, slot: Slot, value: Text, rng: random.Random, *, creates: bool, before: str) -> Text:
    """The value in place of the words that speak of its thing: "the order with ID 17" for "an order"."""
    meant = about(slot)
    noun = hook.noun
    if creates:
        options = ("{whole} with the ID {value}", "{whole} {value}") if meant.sense == "id" else (
            "{whole} called {value}", "{whole} named {value}", "{whole} {value}")  # fmt: skip
        if meant.sense in ("id", "named", "person"):
            return fill(rng.choice(options), whole=before, value=value)
    forms: dict[str, tuple[str, ...]] = {
        "id": ("{noun} {value}", "{noun} {value}", "the {noun} with ID {value}", "the {noun} with the ID {value}", "{noun} ID {value}", "the {noun} {value}"),
        "uuid": ("{noun} {value}", "the {noun} with ID {value}", "{value}"),
        "person": ("{value}", "{value}", "{noun} {value}", "the {noun} {value}", "our {noun} {value}"),
        "named": ("{value}", "{value}", "the {noun} {value}", "the {noun} called {value}", "the {value} {noun}"),
        "place": ("{value}", "{value}", "{value}", "the {noun} of {value}"),
        "message": ("the {noun} {value}", "{value}", "this {noun}: {value}", "the following {noun}: {value}"),
    }
    options = forms.get(meant.sense, ("{value}", "{value}", "the {noun} {value}"))
    if meant.sense == "place" and noun.split()[-1] not in ("city", "country", "state", "region", "town"):
        options = options[:3]
    return fill(rng.choice(options), noun=noun, value=value)


def adjunct(slot: Slot, said: Said, value: Text, rng: random.Random) -> Text | None:
    """A phrase that says the value with a preposition of its own; None where only the parameter's name tells it."""
    meant = about(slot)
    found = _adjuncts(slot, meant, said)
    if not found or (len(meant.words) > 2 and rng.random() < 0.4):
        return None
    return fill(rng.choice(found), value=value, noun=meant.noun or meant.label, label=meant.label)


def _adjuncts(slot: Slot, meant: About, said: Said) -> tuple[str, ...]:
    words = frozenset(meant.words)
    match meant.sense:
        case "place":
            return _placed(slot, meant)
        case "date" | "moment" | "time" | "year":
            return _timed(slot, meant, said)
        case "person":
            if words & _BY:
                return ("by {value}",)
            if words & _TO:
                return ("to {value}", "for {value}")
            return ("for {value}", "for {noun} {value}", "with {value}") if meant.noun or len(words) == 1 else ()
        case "id" | "uuid":
            return ("for {noun} {value}", "for the {noun} with ID {value}", "of {noun} {value}") if meant.noun else ("with ID {value}", "with the ID {value}")
        case "language":
            return ("in {value}",) if slot.role is None else ("from {value}",) if slot.role == "from" else ("to {value}", "into {value}")
        case "currency":
            return ("in {value}",) if slot.role is None else ("from {value}",) if slot.role == "from" else ("to {value}", "into {value}")
        case "topic":
            return ("about {value}", "on {value}", "for {value}", "related to {value}", "matching {value}")
        case "message":
            return ("saying {value}", ": {value}", "that says {value}") if words & {"message", "text", "content", "body", "comment"} else ()
        case "age":
            return ("aged {value}", "of age {value}", "at age {value}")
        case "limit":
            return ("page {value}",) if "page" in words and not words & {"size", "per"} else ("(at most {value})", "limited to {value} results", "up to {value} of them", "at most {value} results")
        case "count":
            return _counted(meant, said)
        case "duration":
            return ("for {value}",) if said.after and words & {"duration", "length", "time"} else ()
        case "money":
            return ("for {value}",) if meant.words in (("price",), ("amount",)) and said.before else ()
        case "email":
            return ("to {value}", "for {value}", "at {value}")
    return ()


def _placed(slot: Slot, meant: About) -> tuple[str, ...]:
    last = meant.words[-1]
    if slot.role == "from" or "origin" in meant.words or "source" in meant.words:
        return ("from {value}",)
    if slot.role == "to" or "destination" in meant.words:
        return ("to {value}",)
    if len(meant.words) > 1 and last not in ("name", "code"):
        return ()
    if last in ("address", "venue", "station", "airport"):
        return ("at {value}", "for {value}")
    return ("in {value}", "in {value}", "for {value}", "for the {label} {value}", "near {value}" if last == "location" else "in {value}")


def _timed(slot: Slot, meant: About, said: Said) -> tuple[str, ...]:
    if meant.words[-1:] in (("at",), ("on",), ("by",)) and len(meant.words) == 2:
        return ("{label} {value}",) if meant.words[0] != "due" else ("due {value}", "for {value}")
    if meant.words not in _BARE_DATES and slot.role is None and "date" not in meant.words[-1:] + meant.words[:1]:
        return ()
    relative = _RELATIVE.match(said.text) is not None
    if slot.role == "from" and set(meant.words) & {"start", "from", "begin", "since", "after"}:
        return ("from {value}", "starting {value}" if relative else "starting on {value}" if meant.sense == "date" else "from {value}", "from {value} on")
    if slot.role == "to" and set(meant.words) & {"end", "to", "until", "before", "till"}:
        return ("to {value}", "until {value}", "till {value}")
    if meant.words not in _BARE_DATES:
        return ()
    if meant.sense == "year":
        return ("in {value}", "for {value}", "for the year {value}")
    if meant.sense == "time":
        return ("at {value}", "at {value}") if not said.text.startswith("8 in") else ("at {value}",)
    if relative:
        return ("{value}", "for {value}")
    return ("on {value}", "for {value}", "on {value}")


def _counted(meant: About, said: Said) -> tuple[str, ...]:
    words = meant.words
    if said.after:
        return ("for {value}",)
    thing = " ".join(words[2:]) if words[:2] in (("number", "of"), ("num", "of")) else words[-1] if words[-1] in ("guests", "people", "adults", "children", "seats", "tickets", "passengers", "copies") else ""
    return (f"for {{value}} {thing}", f"with {{value}} {thing}") if thing else ()


def flag_text(slot: Slot, value: bool, calls: Iterable[int], rng: random.Random) -> Text:
    """Words that wish a truth value: "including archived ones", "without pets", "and make it public"."""
    words = list(about(slot).words)
    head = words[0] if words and words[0] in _TRUE_PREFIX else ""
    rest = " ".join(words[1:] if head else words) or slot.name[:40]
    if head in ("include", "with", "show", "return"):
        options = (f"including {rest}", f"with {rest}", f"and include {rest}") if value else (f"without {rest}", f"excluding {rest}", f"but no {rest}")
    elif head in ("is", "are", "only", "should", "can"):
        options = (f"and it should be {rest}", f"{rest}") if value else (f"but not {rest}", f"and it should not be {rest}")
    elif head in ("enable", "allow", "use", "send", "auto"):
        options = (f"and {head} {rest}", f"with {rest}") if value else (f"but don't {head} {rest}", f"without {rest}")
    else:
        options = (f"with {rest}", f"with {rest} on", f"{rest} enabled") if value else (f"without {rest}", f"no {rest}", f"{rest} disabled")
    chosen = rng.choice(options)
    lead = re.match(r"(?:and|but)\s+", chosen)
    start = lead.end() if lead else 0
    return text(chosen[:start], Piece(chosen[start:], tuple(("value", call, slot.name, -1) for call in calls)))


def labelled(parts: list[tuple[Slot, Text]], rng: random.Random) -> tuple[Text, bool]:
    """Values said with their parameters' names; and whether that is a sentence of its own."""
    named = [(about(slot).label, value) for slot, value in parts]
    numeric = all(about(slot).sense in ("money", "percent", "measure", "number", "count", "duration", "age") for slot, _ in parts)
    form = rng.choice(_FORMS if not numeric else ("a of", "a of", *_FORMS))
    match form:
        case "a of":
            return text("with ", and_list([fill(f"{_article(label)} {{label}} of {{value}}", label=label, value=value) for label, value in named])), False
        case "with":
            return text("with ", and_list([fill("{label} {value}", label=label, value=value) for label, value in named])), False
        case "with the":
            return text("with ", and_list([fill("the {label} {value}", label=label, value=value) for label, value in named])), False
        case "using":
            return text("using ", and_list([fill("{value} as the {label}", label=label, value=value) for label, value in named])), False
        case "where":
            return text("where ", and_list([fill("the {label} {be} {value}", be=_be(label), label=label, value=value) for label, value in named])), False
        case "colon":
            return text("(", _commas(named), ")"), False
        case "bare":
            return text(", ", and_list([fill("{label} {value}", label=label, value=value) for label, value in named])), False
        case "is":
            return text("The ", and_list([fill("{the}{label} {be} {value}", the="the " if i else "", be=_be(label), label=label, value=value) for i, (label, value) in enumerate(named)]), "."), True
        case "should":
            return text("The ", and_list([fill("{label} should be {value}" if i == 0 else "the {label} {value}", label=label, value=value) for i, (label, value) in enumerate(named)]), "."), True
    return text(and_list([fill("use {value} as the {label}" if i else "Use {value} as the {label}", label=label, value=value) for i, (label, value) in enumerate(named)]), "."), True


_FORMS = ("with", "with", "with", "with the", "using", "where", "colon", "bare", "is", "is", "should", "use")


def _commas(named: list[tuple[str, Text]]) -> Text:
    found: list[Piece] = []
    for index, (label, value) in enumerate(named):
        found += text(", " if index else "", fill("{label}: {value}", label=label, value=value))
    return tuple(found)


def _be(label: str) -> str:
    return "are" if is_plural(label) else "is"


def _article(label: str) -> str:
    return "an" if label[:1].lower() in "aeiou" else "a"
