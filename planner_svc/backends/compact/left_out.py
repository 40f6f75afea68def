"""Look-ups of words that no call uses, for arguments that nothing else gives.

"Which invoices has Tulip & Stone got?" lists invoices. Nobody says that a search by name tells the customer's id, and
since the list can do without the id, no gap shows it: everybody's invoices would be the answer. What a change needs is
looked up in the same way; what it can do without is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.filling import Filler, reference_argument
from planner_svc.backends.compact.links import LinkCandidate
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import Task
from services.compute import checkpoint

PROBABLY: Final = 0.5
"""Smallest probability that the words are what is looked up, and that its answer is the argument of the other call."""
_Link = tuple[ParameterTarget, LinkCandidate, float]


def add_look_ups(
    task: Task, filler: Filler, calls: dict[int, list[DraftCall]], draft: Callable[[int], Sequence[DraftCall]]
) -> None:
    """Add the likeliest look-up of words that no call uses, if there is one, and feed the other calls from it.

    Args:
        task: what is decoded.
        filler: tells what an argument's value may be.
        calls: calls by candidate; the look-up and arguments are added.
        draft: drafts the calls of a candidate.
    """
    used = [place for own in calls.values() for call in own for place in call.places]
    links = [link for link in _links(task, filler, calls) if link[2] >= PROBABLY]
    found = {link.api: _with_new_words(draft(link.api), used) for _, link, _ in links}
    likely = [
        (said[0] * sure, target, link)
        for target, link, sure in links
        if (said := found[link.api]) is not None and said[0] * sure >= PROBABLY
    ]
    if not likely:
        return
    supplier = max(likely, key=lambda one: one[0])[2].api
    for probability, target, link in likely:
        if link.api == supplier:
            for call in calls[target.number]:
                call.arguments.setdefault(target.slot.name, reference_argument(target.slot, link, probability))
                call.missing[:] = [name for name in call.missing if name != target.slot.name]
    said = found[supplier]
    if said is not None:
        calls[supplier] = [said[1]]


def _links(task: Task, filler: Filler, calls: Mapping[int, Sequence[DraftCall]]) -> Iterator[_Link]:
    """The fields of other answers that may be arguments which the calls lack, with their probability."""
    others = [n for n, api in enumerate(task.apis) if n not in calls and not api.profile.api.mutating]
    for number, own in calls.items():
        changes = task.apis[number].profile.api.mutating
        for target in filler.targets(number):
            checkpoint()
            fed = any(target.slot.name in call.arguments for call in own)
            if not fed and (target.slot.required or not changes):
                links = filler.links(target, len(own), [*calls, *others])
                yield from ((target, link, sure) for link, sure in links if link.api in others)


def _with_new_words(calls: Sequence[DraftCall], used: Sequence[tuple[int, int]]) -> tuple[float, DraftCall] | None:
    """The call and how likely its surest new words are its value; None if it has none, or needs more than words."""
    if len(calls) != 1 or calls[0].missing or calls[0].fed_by():
        return None
    said = [
        (one.place, one.sure)
        for one in calls[0].arguments.values()
        if isinstance(one, LiteralArgument) and one.place is not None
    ]
    new = [sure for place, sure in said if not any(place[0] < end and start < place[1] for start, end in used)]
    return (max(new), calls[0]) if new else None
