"""How a request speaks of what an earlier call answers: "that order", "the resulting price", "the home town of Anna"."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from planner_svc.backends.compact.profile import Field, Slot
from planner_svc.training.drafts import Fed, Use
from planner_svc.training.mentions import adjunct, hooked
from planner_svc.training.pieces import Piece, Text, fill, of_clause, text
from planner_svc.training.senses import About, about, label_of
from planner_svc.training.wording import Hook, is_plural

Value = Callable[[Use, Slot], Text]
_IDS = frozenset(("id", "identifier", "code", "number", "key", "uuid", "iata", "sku", "ref", "reference", "name", "symbol", "slug"))
_NAMING = frozenset(("person", "named", "place", "topic", "id", "uuid", "email", "text", "phone", "url", "code"))


def is_identity(field: Field, slot: Slot) -> bool:
    """Whether what is handed on only identifies a thing: one speaks of the thing, not of its id."""
    last = label_of(field.name).lower().split()[-1:] or [""]
    return last[0] in _IDS or about(slot).sense in ("id", "uuid")


def referred(rng: random.Random, use: Use, slot: Slot, fed: Fed, noun: str) -> Text:
    """Words for the output of a call that was asked for before, marked as the reference."""
    label = label_of(fed.field.name)
    noun = noun or label
    listed = fed.field.listed > 0
    if is_identity(fed.field, slot):
        forms = ["that {noun}", "that {noun}", "this {noun}", "the {noun}", "the same {noun}", "the {noun} you get", "the resulting {noun}", "the {noun} from before"]
        forms += ["the first {noun}", "the first {noun} you find", "the {noun} found"] if listed else ["the new {noun}"] if _creates(fed, use) else []
        forms += ["its {label}", "the {label} from the previous step"] if label.lower() != noun else []
    else:
        forms = ["that {label}", "the {label}", "this {label}", "the resulting {label}", "the {label} you get", "the {label} from the first step",
                 "the {label} obtained", "its {label}", "the {label} above", "the returned {label}"]  # fmt: skip
        forms += ["the first {label}"] if listed else []
    said = rng.choice(forms).format(noun=noun, label=label)
    if is_plural(label) and not is_identity(fed.field, slot):
        said = re.sub(r"^that\b", "those", re.sub(r"^this\b", "these", said))
    return text(Piece(said, tuple(("ref", call, slot.name, -1) for call in use.calls)))


def nested(rng: random.Random, use: Use, slot: Slot, fed: Fed, noun: str, value: Value) -> Text:
    """The call that feeds, spoken of in the parameter's own place: "customer Anna Chen", "the home town of Anna Chen".

    Nothing else in the request asks for that call.
    """
    inner = fed.inside
    assert inner is not None
    key = naming_slot(inner)
    assert key is not None
    others = [text(" ", phrase) for phrase in _other_phrases(rng, inner, key, value)]
    meant = about(key)
    own = value(inner, key)
    if is_identity(fed.field, slot):
        thing = noun or meant.noun
        said = rng.choice(("{own}", "{thing} {own}", "the {thing} {own}", "our {thing} {own}") if meant.sense != "id" else ("{thing} {own}", "the {thing} of {kind} {own}"))
        whole = fill(said if thing else "{own}", own=own, thing=thing, kind=meant.noun or meant.label)
    else:
        held = inner.entry.speeches[0].thing
        hook = Hook(0, 0, meant.noun or (held if held else meant.label))
        known = hooked(hook, key, own, rng, creates=False, before="")
        whole = fill("the {label} {of} {known}", label=label_of(fed.field.name), of=rng.choice(("of", "of", "for")), known=known)
    mark = tuple(("ref", call, slot.name, -1) for call in use.calls)
    marked = tuple(Piece(p.text, (*p.marks, *mark), p.clauses) for p in text(whole, *others))
    return of_clause(marked, inner.calls)


def naming_slot(use: Use) -> Slot | None:
    """The parameter by whose value a call can be spoken of: a name, a place, an id; None where there is none."""
    if not use.said or use.flags or use.fed or len(use.said) > 2:
        return None
    slots = [use.slot(name) for name in use.said if not use.said[name][0][0].listed and not use.said[name][0][0].option]
    found = [slot for slot in slots if about(slot).sense in _NAMING]
    return found[0] if found and len(found) >= len(use.said) - 1 else None


def _other_phrases(rng: random.Random, use: Use, key: Slot, value: Value) -> list[Text]:
    found = []
    for name, said in use.said.items():
        slot = use.slot(name)
        if slot is not key:
            own = value(use, slot)
            found.append(adjunct(slot, said[0][0], own, rng) or _plainly(about(slot), own))
    return found


def _plainly(meant: About, own: Text) -> Text:
    return fill("with {label} {own}", label=meant.label, own=own)


def _creates(fed: Fed, use: Use) -> bool:
    return fed.producer >= 0 and use.entry.api.mutating
