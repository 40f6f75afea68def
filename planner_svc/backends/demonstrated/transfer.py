"""The plan of a demonstration for a new request: unchanged for the same request, else with new values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from planner_svc.backends.demonstrated.leaves import Leaf, leaves
from planner_svc.backends.demonstrated.mentions import Mention, MentionFinder, nearness, relative
from planner_svc.backends.demonstrated.pattern import Pattern
from planner_svc.backends.demonstrated.readers import MomentReader
from planner_svc.backends.demonstrated.times import part_of, parts_said, writings
from planner_svc.backends.demonstrated.wording import MAX_TOKENS, Run, Wording
from planner_svc.reading.moments import Moment
from planner_svc.reading.profile import Profile
from planner_svc.reading.readings import moment_of
from planner_svc.reading.text import STOP, split_name
from services.compute import checkpoint
from services.contracts.demo import Demo
from services.contracts.plan import Plan, step_references

_MAX_LEAVES: Final = 500
"""Most texts and numbers of a plan, including items of lists, that are searched for in a request."""
_MAX_LOOKED: Final = _MAX_LEAVES * MAX_TOKENS
"""The same multiplied by the request's tokens: the longer the request, the fewer values are searched for."""
_COINCIDENT: Final = (0, 1)
"""Numbers that may be a constant of one argument although the request says them for another."""


@dataclass(frozen=True, slots=True)
class TransferredPlan:
    """The plan that a demonstration gives for a request.

    Attributes:
        plan: the plan for the new request.
        same: whether the request is the demonstration's own.
    """

    plan: Plan
    same: bool


def transfer_plan(
    demo: Demo, asked: Wording, profiles: Mapping[str, Profile], given: Mapping[str, JsonValue]
) -> TransferredPlan | None:
    """The demonstration's plan for a request; None if the question differs, or a value cannot be determined.

    Args:
        demo: the demonstration.
        asked: the new request.
        profiles: profiles of the demonstration's APIs, by id.
        given: the application's values, by argument name.
    """
    shown = Wording(demo.query, asked.now)
    if not shown.tokens or not asked.tokens:
        return None
    same = shown.keys((0, len(shown.tokens))) == asked.keys((0, len(asked.tokens)))
    if not same and max(len(shown.tokens), len(asked.tokens)) > MAX_TOKENS:
        return None
    document = demo.plan.model_dump(mode="json", exclude={"id"})
    if not same:
        document = _without_matches(document)
    found = list(leaves(document, profiles))
    if same and _is_as_it_was(shown, found, given):
        return TransferredPlan(demo.plan, same=True)
    count = sum(len(leaf.values) for leaf in found)
    if count > _MAX_LEAVES or count * len(shown.tokens) > _MAX_LOOKED:
        return None
    transfer = _Transfer(demo.plan, document, found, shown, asked, given)
    if same:
        plan = transfer.plan({hole: hole for hole in transfer.holes})
        return None if plan is None else TransferredPlan(plan, same=True)
    if not transfer.is_unambiguous:
        return None
    fills = islice(transfer.pattern.matches(asked.tokens, transfer.fits), 2)
    plans = {None if plan is None else plan.id: plan for plan in map(transfer.plan, fills)}
    plan = next(iter(plans.values()), None)
    return None if plan is None or len(plans) > 1 else TransferredPlan(plan, same=False)


class _Transfer:
    """A demonstration matched against a request."""

    def __init__(
        self,
        plan: Plan,
        document: Mapping[str, Any],
        found: Sequence[Leaf],
        shown: Wording,
        asked: Wording,
        given: Mapping[str, JsonValue],
    ) -> None:
        self._plan, self._document = plan, document
        self._shown, self._asked, self._given = shown, asked, given
        finder = MentionFinder(shown, found)
        self._relative = finder.relative
        mentions = _disambiguated({leaf: finder.mentions(leaf) for leaf in found}, shown)
        self._fixed = _overlapping({one.run for places in mentions.values() for one in places})
        self._mentions = {
            leaf: [one for one in places if one.run not in self._fixed] for leaf, places in mentions.items()
        }
        self._mentioned = frozenset(leaf for leaf, places in mentions.items() if places)
        self._at: dict[Run, list[tuple[Leaf, Mention]]] = defaultdict(list)
        for leaf, places in self._mentions.items():
            for one in places:
                self._at[one.run].append((leaf, one))
        self.holes = sorted(self._at)
        counted = frozenset(run for run, there in self._at.items() if any(one.kind == "number" for _, one in there))
        self.pattern = Pattern(shown.tokens, self.holes, counted)

    @property
    def is_unambiguous(self) -> bool:
        """Whether enough words identify the request, and something separates adjacent free texts."""
        free = {run for run, there in self._at.items() if any(one.kind == "text" for _, one in there)}
        joined = (left for left, right in pairwise(self.holes) if {left, right} <= free and left[1] == right[0])
        return self.pattern.is_telling and all(self._shown.tokens[left[1] - 1].stopped for left in joined)

    def fits(self, hole: Run, run: Run) -> bool:
        """Whether every reader of the hole can read the run."""
        checkpoint()
        return self._is_unchanged(hole, run) or all(
            any(reader(self._asked, run) is not None for reader in one.readers) for _, one in self._at[hole]
        )

    def plan(self, fill: Mapping[Run, Run]) -> Plan | None:
        """The plan with the values from the runs; None if anything is ambiguous."""
        changed = [hole for hole, run in fill.items() if not self._is_unchanged(hole, run)]
        if any(self._is_coincidence(hole) or not self._is_like_moment(hole, fill[hole]) for hole in changed):
            return None
        values: dict[Leaf, JsonValue] = {}
        for leaf, places in self._mentions.items():
            if not places:
                continue
            read = _distinct(value for one in places for value in self._read(leaf, one, fill[one.run]))
            if len(read) != 1:
                return None
            values[leaf] = read[0]
        kept = [leaf for leaf in self._mentions if leaf not in values]
        new = {leaf: value for leaf, value in values.items() if not _equal(value, leaf.value)}
        if self._is_stale(kept, new) or self._leaks(kept, [(hole, fill[hole]) for hole in changed], new):
            return None
        new |= self._known_values_for([leaf for leaf in kept if leaf not in self._mentioned])
        if any(_is_secret(leaf) for leaf in kept if leaf not in self._mentioned and leaf not in new):
            return None
        return self._with_values(new)

    def _read(self, leaf: Leaf, one: Mention, run: Run) -> Iterator[JsonValue]:
        """The values that the run may be for this literal."""
        if self._is_unchanged(one.run, run) and not (one.kind == "moment" and one.run in self._relative):
            yield leaf.value
        else:
            yield from (value for reader in one.readers if (value := reader(self._asked, run)) is not None)

    def _is_unchanged(self, hole: Run, run: Run) -> bool:
        """Whether the run has the same words with the same meaning: a time may now be on another day."""
        if self._shown.keys(hole) != self._asked.keys(run):
            return False
        moments = (w.moments(month_first=False).get(r) for w, r in ((self._shown, hole), (self._asked, run)))
        return len(set(moments)) == 1

    def _is_coincidence(self, hole: Run) -> bool:
        there = [leaf for leaf, one in self._at[hole] if one.kind == "number" and leaf.value in _COINCIDENT]
        return len({_name(leaf) for leaf in there}) > 1

    def _is_like_moment(self, hole: Run, run: Run) -> bool:
        """Whether a moment specifies the demonstration's parts, and no changed part that no literal uses."""
        readers = [r for _, one in self._at[hole] for r in one.readers if isinstance(r, MomentReader)]
        if not readers:
            return True
        month_first = readers[0].month_first
        old = self._shown.moments(month_first=month_first).get(hole)
        new = self._asked.moments(month_first=month_first).get(run)
        if old is None or new is None or (old.last is None) != (new.last is None):
            return False
        used = frozenset[str]().union(*(reader.writing.parts for reader in readers))
        said = [_own_parts(*pair) for pair in ((self._shown, hole, old), (self._asked, run, new))]
        return said[0] <= said[1] and all(part_of(old, part) == part_of(new, part) for part in said[1] - used)

    def _is_stale(self, kept: Sequence[Leaf], new: Mapping[Leaf, JsonValue]) -> bool:
        """Whether a moment is kept that the request does not say, although another one changed."""
        if not any(_is_temporal(leaf) for leaf in kept):
            return False
        unread = self._relative - {run for run, there in self._at.items() if there}
        return bool(unread) or any(one.kind == "moment" for leaf in new for one in self._mentions[leaf])

    def _leaks(self, kept: Sequence[Leaf], changed: Sequence[tuple[Run, Run]], new: Mapping[Leaf, JsonValue]) -> bool:
        """Whether a replaced value remains somewhere: in a literal that was derived from it, a label, or a path."""
        gone: set[str] = set()
        for hole, run in changed:
            gone |= _words(self._shown.said(hole)) - _words(self._asked.said(run))
        gone = {word for word in gone if len(word) > 2 and word not in STOP}
        texts = [item for leaf in kept for item in leaf.values]
        if any(gone & _words(text) for text in texts if isinstance(text, str)):
            return True
        old = {tuple(split_name(item)) for leaf in new for item in _texts(leaf.value)} - {()}
        return any(tuple(split_name(part)) in old for part in _labels(self._plan))

    def _known_values_for(self, unsaid: Sequence[Leaf]) -> dict[Leaf, JsonValue]:
        """The application's values for arguments that the request does not say."""
        found = {}
        for leaf in unsaid:
            name = _own_name(leaf)
            if name is not None and name in self._given and leaf.accepts(self._given[name]):
                found[leaf] = self._given[name]
        return found

    def _with_values(self, new: Mapping[Leaf, JsonValue]) -> Plan | None:
        document: Any = deepcopy(self._document)
        for leaf, value in new.items():
            place = document
            for part in leaf.path[:-1]:
                place = place[part]
            place[leaf.path[-1]] = value
        try:
            return Plan.model_validate(document)
        except ValidationError:
            return None


def _is_as_it_was(shown: Wording, found: Sequence[Leaf], given: Mapping[str, JsonValue]) -> bool:
    """Whether the plan of the same request applies unchanged: no literal may differ now, and none is secret.

    A time may differ if the request has a relative date, and an argument if the application has a value for it.
    """
    by_clock = bool(relative(shown))
    for leaf in found:
        checkpoint()
        if _is_secret(leaf) or _own_name(leaf) in given or (by_clock and _may_be_time(leaf)):
            return False
    return True


def _may_be_time(leaf: Leaf) -> bool:
    times = (value for value in leaf.values if isinstance(value, str | int) and not isinstance(value, bool))
    return _is_temporal(leaf) or any(map(writings, times))


def _own_name(leaf: Leaf) -> str | None:
    """The argument that the literal fills; None if it is a part of one, or in a loop or a condition."""
    name = leaf.path[3] if leaf.path[2] == "arguments" and len(leaf.path) == 5 else None
    return name if isinstance(name, str) else None


def _without_matches(document: Any) -> Any:
    """The plan's JSON without the matches of its references: these are the demonstration's own words."""
    if isinstance(document, dict) and document.get("kind") != "literal":
        left_out = "match" if document.get("kind") == "reference" else None
        return {key: _without_matches(value) for key, value in document.items() if key != left_out}
    return [_without_matches(item) for item in document] if isinstance(document, list) else document


def _disambiguated(mentions: Mapping[Leaf, list[Mention]], shown: Wording) -> dict[Leaf, list[Mention]]:
    """Assign to each literal that is said several times its own words.

    These are the words next to a word of its argument's name. Otherwise, if as many literals as places have the value,
    each in another step, they are assigned in order. If neither applies, all places stay: they must then be read alike.
    """
    found: dict[Leaf, list[Mention]] = {}
    shared: dict[tuple[Run, ...], list[Leaf]] = defaultdict(list)
    for leaf, places in mentions.items():
        near = [nearness(leaf, shown, one.run) for one in places]
        if len(places) > 1 and near.count(max(near)) == 1:
            places = [places[near.index(max(near))]]
        found[leaf] = places
        if len(places) > 1:
            shared[tuple(one.run for one in places)].append(leaf)
    for runs, them in shared.items():
        if len(them) == len(runs) == len({leaf.step for leaf in them}):
            for leaf, run in zip(them, runs, strict=True):
                found[leaf] = [one for one in found[leaf] if one.run == run]
    return found


def _overlapping(runs: set[Run]) -> frozenset[Run]:
    """The runs that share words with another. Their words are not split, so they must stay unchanged."""
    ordered, found = sorted(runs), set()
    for index, run in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if other[0] >= run[1]:
                break
            found |= {run, other}
    return frozenset(found)


def _own_parts(wording: Wording, run: Run, moment: Moment) -> frozenset[str]:
    """The parts that the words themselves specify: "11:30" specifies no day, even if one was said before."""
    text = wording.said(run)
    return parts_said(moment_of(text.removeprefix("the "), wording.now) or moment)


def _is_temporal(leaf: Leaf) -> bool:
    if leaf.slot is not None and leaf.slot.temporal:
        return leaf.value is not None
    whole = {"Y", "m", "d"}
    return any(whole <= way.parts for text in _texts(leaf.value) for way in writings(text))


def _is_secret(leaf: Leaf) -> bool:
    schema = leaf.slot.parameter.json_schema if leaf.slot is not None else {}
    return leaf.value is not None and (schema.get("format") == "password" or schema.get("writeOnly") is True)


def _name(leaf: Leaf) -> str:
    return leaf.slot.name if leaf.slot is not None else str(leaf.path)


def _labels(plan: Plan) -> Iterator[str]:
    """Names of outputs, and members that references lead to."""
    for output in plan.answer:
        yield output.name
        yield from (part for part in output.value.path if isinstance(part, str))
    for step in plan.steps:
        for reference in step_references(step):
            yield from (part for part in reference.path if isinstance(part, str))


def _texts(value: JsonValue) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _equal(left: JsonValue, right: JsonValue) -> bool:
    """Whether both are the same JSON value: 1 and True are not."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _distinct(values: Iterator[JsonValue]) -> list[JsonValue]:
    found: list[JsonValue] = []
    for value in values:
        if not any(_equal(value, other) for other in found):
            found.append(value)
    return found
