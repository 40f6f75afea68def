"""Look-ups of a name for an id that a call needs: "schedule Mistral" finds the bird by its name, whatever a bird is.

The network knows neither the names of people's things nor which operation finds them. The documents tell: it reads,
takes a name or any text, and lists the ids of just this kind of thing. The user is asked for an id only if there is no
such operation, or the request has no name or several that no call uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.filling import Filler, reference_argument
from planner_svc.backends.compact.links import ID, LinkCandidate
from planner_svc.backends.compact.task import Task
from planner_svc.reading.code_kinds import thing_of
from planner_svc.reading.profile import Field, Profile, Slot
from planner_svc.reading.text import MAX_CHARS, STOP, stems, without_quotes
from services.compute import checkpoint

_SURE: Final = 0.5
"""Probability of a look-up that the network did not choose."""
_NAME: Final = re.compile(r"(?<![\w@./\u2019'-])[A-Z][\w\u2019'-]*[a-z][\w-]*(?:\s+[A-Z][\w\u2019'-]*)*")
_WORD: Final = re.compile(r"\S+")
_OWNER: Final = re.compile(r"['\u2019]s?$")


def add_named_look_ups(task: Task, filler: Filler, calls: dict[int, list[DraftCall]]) -> None:
    """Feed the only id that the calls lack from a search for the only name that no call uses.

    Args:
        task: what is decoded.
        filler: tells which words are moments.
        calls: calls by candidate; the look-up and its argument are added.
    """
    lacking = [
        (call, target)
        for number, own in calls.items()
        for call in own
        for target in filler.targets(number)
        if target.slot.name in call.missing
    ]
    if len(lacking) != 1:
        return
    call, target = lacking[0]
    thing = thing_of(task.apis[target.number].profile, target.slot)
    names = list(_unused_names(task, filler, calls)) if len(thing) > 1 and thing[-1] == ID else []
    found = _search(task, calls, thing[-2:-1]) if len(names) == 1 else None
    if found is None:
        return
    number, slot, output = found
    start, end = names[0]
    search = DraftCall(number, _SURE, {slot.name: LiteralArgument(task.query[start:end], (start, end), _SURE)})
    search.place = start
    calls[number] = [search]
    link = LinkCandidate(number, output, 0.0, _SURE, chosen=True, fits=True)
    call.arguments[target.slot.name] = reference_argument(target.slot, link, _SURE)
    call.missing.remove(target.slot.name)


def _unused_names(task: Task, filler: Filler, calls: Mapping[int, Sequence[DraftCall]]) -> Iterator[tuple[int, int]]:
    """The places of names that no call uses, that are no words of the called operations, and no days."""
    used = [place for own in calls.values() for call in own for place in call.places]
    used += [place for place, _ in filler.moments.dated()]
    known = frozenset[str]().union(*(task.apis[number].profile.vocabulary for number in calls))
    for match in _NAME.finditer(without_quotes(task.query[:MAX_CHARS])):
        checkpoint()
        words = list(dropwhile(lambda word: _is_plain(word[0], known), _WORD.finditer(_OWNER.sub("", match[0]))))
        if not words:
            continue
        start, end = match.start() + words[0].start(), match.start() + words[-1].end()
        if not any(start < last and first < end for first, last in used):
            yield start, end


def _is_plain(word: str, known: frozenset[str]) -> bool:
    """Whether a word is a function word or one of the operations: a request may begin with it."""
    return word.lower() in STOP or known.issuperset(stems(word))


def _search(
    task: Task, calls: Mapping[int, Sequence[DraftCall]], thing: tuple[str, ...]
) -> tuple[int, Slot, Field] | None:
    """The likeliest operation that is not called yet and finds such things by a name: its text and the id it lists."""
    found = [
        (number, slot, output)
        for number, api in enumerate(task.apis)
        if number not in calls and not api.profile.api.mutating
        for slot, output in _by_name(api.profile, thing)
    ]
    return max(found, key=lambda one: -one[0], default=None)


def _by_name(profile: Profile, thing: tuple[str, ...]) -> Iterator[tuple[Slot, Field]]:
    texts = [slot for slot in profile.slots if slot.samples]
    others = [slot for slot in profile.slots if slot.required and slot not in texts]
    ids = [
        field
        for field in profile.fields
        if field.listed == 1 and field.words == (ID,) and thing == tuple(stems(field.holder)[-1:])
    ]
    if len(texts) == 1 and not others and len(ids) == 1:
        yield texts[0], ids[0]
