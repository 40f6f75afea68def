"""Words in a request for the output of another call: "that order", "the resulting price", "Ann's home town"."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from planner_svc.reading.profile import Field, Slot
from training.planner.adjuncts import adjunct
from training.planner.drafts import FedParameter, Use
from training.planner.meanings import Meaning, label_of, meaning_of
from training.planner.mentions import mention_text
from training.planner.pieces import Mark, Piece, Text, and_list, fill, of_clause, text
from training.planner.wording import SlotMention, is_plural

Value = Callable[[Use, Slot], Text]
_IDS = frozenset(
    ("id", "identifier", "code", "number", "key", "uuid", "iata", "sku", "ref", "reference", "name", "symbol", "slug")
)
_PLACED = frozenset(
    ("airport", "city", "country", "place", "location", "station", "region", "origin", "destination", "town")
)
_NAMING = frozenset(("person", "named", "place", "topic", "id", "uuid", "email", "text", "phone", "url", "code"))


def is_identity(field: Field, slot: Slot) -> bool:
    """Whether the output only identifies an object: users name the object, not its id."""
    last = label_of(field.name).lower().split()[-1:] or [""]
    return last[0] in _IDS or meaning_of(slot).sense in ("id", "uuid")


def referred(rng: random.Random, use: Use, slot: Slot, fed: FedParameter, noun: str) -> Text:
    """Words for the output of an earlier call, marked as the reference."""
    label = label_of(fed.field.name)
    noun = noun or label
    listed = fed.field.listed > 0
    if is_identity(fed.field, slot):
        forms = [
            "that {noun}",
            "that {noun}",
            "this {noun}",
            "the {noun}",
            "the same {noun}",
            "the {noun} you get",
            "the resulting {noun}",
            "the {noun} from before",
        ]
        forms += (
            ["the first {noun}", "the first {noun} you find", "the {noun} found"]
            if listed
            else ["the new {noun}"]
            if _creates(fed, use)
            else []
        )
        forms += ["the {label} from the previous step"] if label.lower() != noun else []
    else:
        forms = [
            "that {label}",
            "the {label}",
            "this {label}",
            "the resulting {label}",
            "the {label} you get",
            "the {label} from the first step",
            "the {label} obtained",
            "its {label}",
            "the {label} above",
            "the returned {label}",
            "the obtained {label}",
            "the {label} from the previous call",
            "the {label} mentioned before",
        ]
        forms += ["the first {label}"] if listed else []
    said = rng.choice(forms).format(noun=noun, label=label)
    if is_plural(label) and not is_identity(fed.field, slot):
        said = re.sub(r"^that\b", "those", re.sub(r"^this\b", "these", said))
    return text(Piece(said, tuple(("ref", call, slot.name, -1) for call in use.calls)))


def _names(key: Slot, fed: FedParameter, slot: Slot) -> bool:
    return meaning_of(key).sense != "text" or not is_identity(fed.field, slot)


def can_be_nested(use: Use, fed: FedParameter, slot: Slot) -> bool:
    """Whether a call can be described in place of the parameter that it feeds."""
    if use.entry.wordings[0].effect == "act":
        return False  # a user who wants an order cancelled says so explicitly
    if is_passed_on(use):
        return not is_identity(fed.field, slot)
    key = naming_slot(use)
    return key is not None and _names(key, fed, slot)


def referred_together(rng: random.Random, use: Use, slots: list[Slot]) -> Text:
    """Several outputs of earlier calls together: "using its latitude and longitude"."""
    pieces = []
    for slot in slots:
        marks = tuple(("ref", call, slot.name, -1) for call in use.calls)
        pieces.append(text(Piece(label_of(use.fed[slot.name].field.name), marks)))
    lead = rng.choice(("using the ", "with the ", "based on the ", "with its ", "for that "))
    tail = (
        "" if lead.startswith(("with its", "for")) else rng.choice(("", " you get", " from before", " found", " above"))
    )
    return text(lead, and_list(pieces), tail)


def nested(rng: random.Random, use: Use, slot: Slot, fed: FedParameter, noun: str, value: Value) -> Text:
    """The producing call, described in place of the parameter: "customer Anna Chen", "the home town of Anna Chen".

    Nothing else in the request asks for that call.
    """
    inner = fed.inside
    assert inner is not None
    mark = tuple(("ref", call, slot.name, -1) for call in use.calls)
    if inner.fed:
        (name, deeper), *_ = inner.fed.items()
        below = nested(rng, inner, inner.slot(name), deeper, meaning_of(inner.slot(name)).noun, value)
        whole = fill(
            "the {label} {of} {below}",
            label=_of_thing(fed.field, noun),
            of=rng.choice(("of", "of", "for")),
            below=below,
        )
        return of_clause(_marked(whole, mark), inner.calls)
    key = naming_slot(inner)
    assert key is not None
    others = [text(" ", phrase) for phrase in _other_phrases(rng, inner, key, value)]
    meant = meaning_of(key)
    own = value(inner, key)
    if is_identity(fed.field, slot) and meant.sense == "place" and not _PLACED & set((noun or meant.noun).split()):
        whole = fill("the {thing} in {own}", thing=noun or label_of(fed.field.name), own=own)
    elif is_identity(fed.field, slot) and _is_kin(inner, key, noun):
        thing = noun or meant.noun
        said = rng.choice(
            ("{own}", "{thing} {own}", "the {thing} {own}", "our {thing} {own}")
            if meant.sense != "id"
            else ("{thing} {own}", "the {thing} of {kind} {own}")
        )
        whole = fill(said if thing else "{own}", own=own, thing=thing, kind=meant.noun or meant.label)
    else:
        label = _of_thing(fed.field, noun)
        mention = SlotMention(0, 0, meant.noun or meant.label)
        known = mention_text(mention, key, own, rng, creates=False, before="")
        whole = fill("the {label} {of} {known}", label=label, of=rng.choice(("of", "of", "for")), known=known)
        if meant.sense in ("person", "place", "named") and not others and rng.random() < 0.3:
            whole = fill("{own}'s {label}", own=own, label=label)
    return of_clause(_marked(text(whole, *others), mark), inner.calls)


def _marked(whole: Text, mark: tuple[Mark, ...]) -> Text:
    return tuple(Piece(p.text, (*p.marks, *mark), p.clauses) for p in whole)


def _is_kin(inner: Use, key: Slot, noun: str) -> bool:
    """Whether the call's key also names the wanted object: its name does, a product number does not."""
    if not noun:
        return True
    known = f"{meaning_of(key).noun} {inner.entry.profile.noun} {inner.entry.wordings[0].thing}".lower().split()
    return noun.lower().split()[-1] in known


def _of_thing(field: Field, noun: str) -> str:
    """The field's label, or the object that it identifies."""
    label = label_of(field.name)
    return noun if noun and label.lower().split()[-1:] and label.lower().split()[-1] in _IDS else label


def again(rng: random.Random, slot: Slot, noun: str) -> str:
    """Words that refer to an already stated value, with a preposition unless they replace a noun."""
    meant = meaning_of(slot)
    thing = noun or meant.noun or (meant.words[-1] if meant.words else "one")
    if meant.sense == "place" and not noun:
        return rng.choice(("there", "there", f"in the same {thing}", f"for that {thing}"))
    if meant.sense in ("date", "year") and not noun:
        return rng.choice((f"on that same {thing}", f"for the same {thing}", "then too"))
    own = rng.choice((f"that {thing}", f"the same {thing}", f"this {thing}"))
    return own if noun else f"for {own}"


def is_passed_on(use: Use) -> bool:
    """Whether the call's only input is the output of one call that is itself described in place of this one."""
    return (
        not use.said
        and not use.flags
        and not use.shared
        and [fed.inside is not None for fed in use.fed.values()] == [True]
    )


def naming_slot(use: Use) -> Slot | None:
    """The parameter whose value can identify a call in words: a name, a place, an id; None if there is none."""
    if not use.said or use.flags or use.fed or len(use.said) > 2:
        return None
    slots = [use.slot(name) for name in use.said if not use.said[name][0][0].listed and not use.said[name][0][0].option]
    found = [slot for slot in slots if meaning_of(slot).sense in _NAMING]
    return found[0] if found and len(found) >= len(use.said) - 1 else None


def _other_phrases(rng: random.Random, use: Use, key: Slot, value: Value) -> list[Text]:
    found = []
    for name, said in use.said.items():
        slot = use.slot(name)
        if slot is not key:
            own = value(use, slot)
            found.append(adjunct(slot, said[0][0], own, rng) or _plainly(meaning_of(slot), own))
    return found


def _plainly(meant: Meaning, own: Text) -> Text:
    return fill("with {label} {own}", label=meant.label, own=own)


def _creates(fed: FedParameter, use: Use) -> bool:
    return fed.producer >= 0 and use.entry.api.mutating
