"""Ways to ask for a call: "cancel the order 17", "What is the weather in Paris tomorrow?", "flights to Rome"."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

from planner_svc.reading.profile import Field, Slot
from planner_svc.reading.text import stems, word_set
from services.contracts.base import JsonPath
from training.planner.adjuncts import adjunct
from training.planner.clause_frames import framed, fronted_phrase, only_field, trimmed
from training.planner.drafts import FedParameter, Use
from training.planner.meanings import label_of, meaning_of
from training.planner.mentions import flag_text, labelled, mention_text, value_text
from training.planner.pieces import Part, Text, and_list, fill, of_clause, plain, text
from training.planner.referring import again, nested, referred, referred_together
from training.planner.wording import SlotMention, Wording, is_plural

_SAME_FOR = (
    "Same for {value}.", "And the same for {value}.", "Do the same for {value}.", "Also for {value}.",
    "And {value}, please.", "Then also {value}.", "I need it for {value} as well.", "And what about {value}?",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PhrasedCall:
    """A call in words.

    Attributes:
        body: the request itself, without punctuation at its end.
        kind: an order ("cancel ..."), a question, or only the name of what is wanted.
        tail: sentences with the rest.
        answer: the outputs that it asks for by name.
    """

    body: Text
    kind: str
    tail: tuple[Text, ...] = ()
    answer: tuple[tuple[int, JsonPath], ...] = field(default=())


class CallPhraser:
    """Puts calls into words.

    Args:
        rng: source of randomness.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def phrase(self, use: Use, *, terse: bool = False) -> PhrasedCall:
        """One way to ask for the calls.

        Args:
            use: what to ask for.
            terse: as short as possible.
        """
        rng = self._rng
        wording = use.entry.wordings[0] if rng.random() < 0.7 else rng.choice(use.entry.wordings)
        wanted = self._output(use, wording)
        telling = wanted is not None and (len(wanted.words) > 1 or bool(set(wanted.words) & use.entry.profile.title))
        if wanted is not None and telling and rng.random() < 0.3:
            asked = self._by_output(use, wording, wanted)
        else:
            asked = self._by_action(use, wording, wanted, terse)
        if len(use.calls) > 1 and not use.flags and rng.random() < 0.3 and (first := self._first_of(use)) is not None:
            one, others, value = first
            asked = self._by_action(one, wording, None, terse)
            more = fill(rng.choice(_SAME_FOR), value=value)
            return replace(
                asked,
                body=of_clause(asked.body, one.calls[:1]),
                tail=(*(of_clause(t, one.calls[:1]) for t in asked.tail), of_clause(more, others)),
            )
        return replace(
            asked, body=of_clause(asked.body, use.calls), tail=tuple(of_clause(one, use.calls) for one in asked.tail)
        )

    def _first_of(self, use: Use) -> tuple[Use, tuple[int, ...], Text] | None:
        """The first of several calls, the others, and the values that distinguish them."""
        name = next((n for n, said in use.said.items() if len(said) > 1), None)
        if name is None:
            return None
        given = use.said[name]
        rest = and_list([value_text(use.slot(name), said, calls, self._rng, quotes=False) for said, calls in given[1:]])
        one = replace(use, said={**use.said, name: given[:1]})
        return one, tuple(call for _, calls in given[1:] for call in calls), rest

    def _by_action(self, use: Use, wording: Wording, wanted: Field | None, terse: bool) -> PhrasedCall:
        target, rest = self._target(use, wording)
        target = trimmed(self._rng, target, rest)
        phrases, tail = self._phrases(use, rest, terse)
        whole = text(target, *(part for phrase in phrases for part in (" ", phrase)))
        fronted = fronted_phrase(self._rng, phrases) if not terse and not use.flags else None
        if fronted is not None:
            whole = text(target, *(part for phrase in phrases if phrase is not fronted for part in (" ", phrase)))
        kind, body = framed(self._rng, wording, whole, target, terse)
        if fronted is not None:
            kind, body = "need" if kind == "order" else kind, text(fronted, ", ", body)
        answer: tuple[tuple[int, JsonPath], ...] = ()
        if wanted is not None and len(use.calls) == 1 and self._rng.random() < 0.15:
            said, ends = only_field(self._rng, label_of(wanted.name), joins=kind == "order")
            answer = ((use.calls[0], wanted.path),)
            tail, body = ((*tail, text(said)), body) if ends else (tail, text(body, said))
        return PhrasedCall(body, kind, tail, answer)

    def _by_output(self, use: Use, wording: Wording, wanted: Field) -> PhrasedCall:
        """A question about a field of the response: "What is the balance of account 17?"."""
        label = label_of(wanted.name)
        mentions = wording.mentions.items()
        name = next(
            (n for n, h in mentions if (n in use.said or n in use.fed) and _speaks(wording, use.slot(n), h)), None
        )
        parts: list[Part] = []
        rest = [slot for slot in use.entry.slots if _is_told(use, slot)]
        if name is not None:
            slot = use.slot(name)
            rest.remove(slot)
            parts = [self._rng.choice((" of ", " of ", " for ")), self._mention_text(use, wording, slot)]
        phrases, tail = self._phrases(use, rest, False)
        whole = text(label, *parts, *(part for phrase in phrases for part in (" ", phrase)))
        be = "are" if is_plural(label) else "is"
        form = self._rng.choice(
            (
                "what {be} the {whole}",
                "what {be} the {whole}",
                "tell me the {whole}",
                "I need the {whole}",
                "I'd like to know the {whole}",
                "do you know the {whole}",
                "the {whole}",
            )
        )
        kind = (
            "question"
            if form.startswith(("what", "do"))
            else "noun"
            if form.startswith("the")
            else "need"
            if form.startswith("I")
            else "order"
        )
        answer = tuple((call, wanted.path) for call in use.calls)
        return PhrasedCall(fill(form, be=be, whole=whole), kind, tail, answer)

    def _output(self, use: Use, wording: Wording) -> Field | None:
        """A response field that a user might ask for by name."""
        if wording.effect == "act":
            return None
        known = {slot.words for slot in use.entry.profile.slots}
        said = frozenset(stems(wording.target))
        fields = [
            one
            for one in use.entry.profile.fields
            if _is_askable(one) and one.words not in known and not frozenset(one.words) <= said
        ]
        return self._rng.choice(fields) if fields else None

    def _target(self, use: Use, wording: Wording) -> tuple[Text, list[Slot]]:
        """The target with the values that belong in it, and the remaining parameters."""
        rest = [slot for slot in use.entry.slots if _is_told(use, slot)]
        parts: list[Part] = []
        at = 0
        for name, mention in sorted(wording.mentions.items(), key=lambda one: one[1].start):
            slot = next((s for s in rest if s.name == name), None)
            if slot is None or mention.start < at or not _speaks(wording, slot, mention):
                continue
            rest.remove(slot)
            parts += [wording.target[at : mention.start], self._mention_text(use, wording, slot)]
            at = mention.end
        parts.append(wording.target[at:])
        return text(*parts), rest

    def _mention_text(self, use: Use, wording: Wording, slot: Slot) -> Text:
        mention = wording.mentions[slot.name]
        if slot.name in use.shared:
            return text(again(self._rng, slot, mention.noun))
        if slot.name in use.fed:
            return self._fed_text(use, slot, use.fed[slot.name], mention.noun)
        before = wording.target[mention.start : mention.end]
        if wording.effect == "act" and mention.start < 3 and meaning_of(slot).sense not in _HEADS:
            return fill("{whole} to {value}", whole=before, value=self._value(use, slot))
        said = use.said[slot.name]
        if len(said) > 1 and said[0][0].option is False and meaning_of(slot).sense in ("id", "uuid"):
            return text(f"{mention.noun}s ", self._value(use, slot))
        return mention_text(
            mention,
            slot,
            self._value(use, slot),
            self._rng,
            creates=wording.creates and mention.start < 3,
            before=before,
        )

    def _fed_text(self, use: Use, slot: Slot, fed: FedParameter, noun: str) -> Text:
        if fed.inside is not None:
            return nested(self._rng, use, slot, fed, noun, lambda inner, one: self._value(inner, one))
        return referred(self._rng, use, slot, fed, noun)

    def _value(self, use: Use, slot: Slot) -> Text:
        given = use.said[slot.name]
        return and_list([value_text(slot, said, calls, self._rng, quotes=len(given) == 1) for said, calls in given])

    def _phrases(self, use: Use, rest: list[Slot], terse: bool) -> tuple[list[Text], tuple[Text, ...]]:
        """The parameters that are not in the target, as phrases and as sentences after it."""
        rng = self._rng
        natural: list[Text] = []
        named: list[tuple[Slot, Text]] = []
        handed = [slot for slot in rest if slot.name in use.fed and use.fed[slot.name].inside is None]
        if len(handed) > 1:
            natural.append(referred_together(rng, use, handed))
            rest = [slot for slot in rest if slot not in handed]
        order = rest[:] if rng.random() < 0.6 else rng.sample(rest, len(rest))
        for slot in order:
            if slot.name in use.shared:
                natural.append(text(again(rng, slot, "")))
                continue
            if slot.name in use.fed:
                natural.append(
                    text(
                        self._linking(slot, use.fed[slot.name]),
                        self._fed_text(use, slot, use.fed[slot.name], meaning_of(slot).noun or meaning_of(slot).label),
                    )
                )
                continue
            value = self._value(use, slot)
            said = use.said[slot.name][0][0]
            phrase = None if said.option else adjunct(slot, said, value, rng)
            if phrase is None:
                named.append((slot, value))
            else:
                natural.append(phrase)
        if terse and named and rng.random() < 0.5:
            natural += [text(meaning_of(slot).label, " ", value) for slot, value in named]
            named = []
        tail: list[Text] = []
        if named:
            told, alone = self._named(named)
            tail, natural = ([told], natural) if alone else ([], [*natural, told])
        natural += [text(", ", flag_text(use.slot(name), value, use.calls, rng)) for name, value in use.flags.items()]
        return natural, tuple(tail)

    def _named(self, named: list[tuple[Slot, Text]]) -> tuple[Text, bool]:
        if len(named) == 1 and self._rng.random() < 0.3:
            slot, value = named[0]
            said = plain(value)
            if meaning_of(slot).sense == "choice" and said.islower() and len(said) < 20:
                return text("with ", value, " ", meaning_of(slot).label), False
        return labelled(named, self._rng)

    def _linking(self, slot: Slot, fed: FedParameter) -> str:
        sense = meaning_of(slot).sense
        if slot.role == "from" and sense in ("place", "id", "code", "currency", "language", "text", "date", "moment"):
            return "from "
        if slot.role == "to" and sense in ("place", "id", "code", "currency", "language", "text", "date", "moment"):
            return "to "
        if sense in ("id", "uuid", "person", "named"):
            return self._rng.choice(("for ", "for ", "with ", "using "))
        if sense == "place":
            return self._rng.choice(("in ", "at ", "for "))
        return self._rng.choice(("with ", "using ", "based on ", "for "))


_HEADS = frozenset(("id", "uuid", "person", "named", "place", "message"))
"""Senses whose value can replace the verb's object: "cancel order 17", but not "set blue"."""


def _is_askable(one: Field) -> bool:
    """Whether a user would ask for a field by name: a single value near the top, no link and no paging."""
    if one.listed or one.paging or len(one.path) > 2 or not 0 < len(one.words) <= 4:
        return False
    if not one.name.isascii() or len(one.name) >= 30 or not one.kinds & {"string", "number", "integer"}:
        return False
    return not _TECHNICAL.search(one.name.lower()) and label_of(one.name).lower() not in _DULL


def _is_told(use: Use, slot: Slot) -> bool:
    return slot.name in use.said or slot.name in use.fed or slot.name in use.shared


def _speaks(wording: Wording, slot: Slot, mention: SlotMention) -> bool:
    """Whether a value can replace the words; not "the status" in "get the status"."""
    if mention.start >= 3 or meaning_of(slot).sense in _HEADS or wording.effect == "compute":
        return True
    return wording.effect == "act" and wording.verb in ("set", "update", "change", "modify", "adjust")


_TECHNICAL = re.compile(r"page|token|link|next|cursor|etag|uri|self|href|^from|^number_")
_DULL = word_set(
    """
    id status message success name type result results code kind etag self link object url data error title
    description value
    """
)
