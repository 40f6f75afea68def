"""Resolves the values of a plan with the outputs of earlier steps. Works on native JSON types.

There are no string templates, and substituted values are not resolved again. Outputs are shared, not copied, and never
changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue
from pydantic_core import to_json

from executor_svc.choosing import MAX_ITEMS, best, fields_of, is_exact, label
from executor_svc.equality import equal
from services.contracts.base import EVERY, JsonPath
from services.contracts.evidence import written_path, written_said
from services.contracts.plan import ItemReference, ListValue, LiteralValue, Match, ObjectValue, Reference, Value
from services.paths import MAX_EVERY, MISSING, value_at
from services.size_budget import SizeBudget


class Unresolved(Exception):
    """A reference points to a missing value. The message names the step and the path."""


class Several(Unresolved):
    """Several items with different values match equally well. ``choices``: the values, each with its item's label."""

    def __init__(self, message: str, choices: list[tuple[JsonValue, str]]) -> None:
        super().__init__(message)
        self.choices = choices


class Unmatched(Several):
    """No item matches the words. ``choices``: the values of the items that there are; there may be only one."""


@dataclass(frozen=True, slots=True)
class Item:
    """The current element of a `foreach`."""

    value: JsonValue


Use = Literal["shown", "read", "change"]
"""What a value is used for: only shown in the answer, to read something else, or, in the end, for a change."""

MAX_CHOICES: Final = 10
_MAX_CHOICE_CHARS: Final = 200


def resolve(
    value: Value,
    outputs: Mapping[str, JsonValue],
    item: Item | None = None,
    budget: SizeBudget | None = None,
    use: Use = "change",
) -> JsonValue:
    """The JSON value of ``value``. The size of referenced values is taken from ``budget``, if given.

    Raises:
        Unresolved: a step gave no output, a path does not exist, or there is no current item.
        Several: several items with different values match equally well.
        Unmatched: no item matches (see :func:`chosen`).
        SizeExceeded: the referenced values are larger than the budget that is left.
    """
    match value:
        case LiteralValue():
            return value.value
        case Reference():
            if value.step not in outputs:
                raise Unresolved(f"step {value.step} has no output")
            output, what = outputs[value.step], f"the output of {value.step}"
            path = value.path if value.match is None else chosen(output, value, use, budget)
            found = taken(output, path, what, budget)
        case ItemReference():
            if item is None:
                raise Unresolved("there is no current item outside a foreach")
            found = taken(item.value, value.path, "the current item", budget)
        case ListValue():
            return [resolve(element, outputs, item, budget, use) for element in value.items]
        case ObjectValue():
            return {name: resolve(field, outputs, item, budget, use) for name, field in value.fields.items()}
    if budget is not None:
        budget.take(found)
    return found


def parts(value: Value | JsonValue, *, literals: bool) -> int:
    """The number of values in a plan's value, itself included. ``literals``: count the values inside literals, too."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, ListValue):
            waiting += one.items
        elif isinstance(one, ObjectValue):
            waiting += one.fields.values()
        elif isinstance(one, LiteralValue) and literals:
            waiting.append(one.value)
        elif isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
    return count


def literal_bytes(values: Iterable[Value]) -> int:
    """The size of the literals in a plan's values, in bytes of JSON."""
    size, waiting = 0, list(values)
    while waiting:
        one = waiting.pop()
        if isinstance(one, ListValue):
            waiting += one.items
        elif isinstance(one, ObjectValue):
            waiting += one.fields.values()
        elif isinstance(one, LiteralValue):
            size += len(to_json(one.value))
    return size


def chosen(output: JsonValue, reference: Reference, use: Use, budget: SizeBudget | None = None) -> JsonPath:
    """The path to the item that the reference's match selects.

    The path is as written if there is no list, or if no item matches and the first may be taken: to be shown, or to be
    read with if all items have the same value, such as the only one that a search returned for these words. Nothing is
    changed with an item that does not match, nor, unless any may be taken, with one that only the request's other words
    distinguish, or that is the best of a list that is not compared to its end.

    Args:
        output: the step's output.
        reference: a reference with a match.
        use: what the value is used for. A value that is only shown is that of the first of the best matches.
        budget: caches the result: comparing the words of a list is slow, and a plan may need it a thousand times.

    Raises:
        Several: several best matches have different values.
        Unmatched: no item matches, and none may be taken.
    """

    def choose() -> JsonPath | Several:
        try:
            return _chosen(output, reference, use, budget)
        except Several as several:
            return several

    found = choose() if budget is None else budget.cached(output, (reference, use), choose)
    if isinstance(found, Several):
        raise found
    return found


def unmatched(output: JsonValue, reference: Reference, budget: SizeBudget) -> str | None:
    """The label of the item at the path as written, if the reference has a match and no item matches it; else None."""

    def as_written() -> str | None:
        at, items = _list(output, reference)
        index = reference.path[at]
        taken = reference.match is not None and reference.match.pick is None and index in range(len(items))
        return label(items[int(index)]) if taken and not _alike(output, reference, budget) else None

    return budget.cached(output, (reference, "unmatched"), as_written)


def best_so_far(output: JsonValue, reference: Reference, budget: SizeBudget, *, more: bool) -> str | None:
    """The label of the item that is shown or read with, if one that was not compared may be meant; else None.

    ``more``: whether the list goes on after the items in the output.
    """

    def found() -> str | None:
        match, (at, items) = reference.match, _list(output, reference)
        if match is None or not _may_miss(match, items, more=more):
            return None
        if match.pick == "extreme":
            index = reference.path[at]
            return label(items[int(index)]) if more and index in range(len(items)) else None
        alike = _alike(output, reference, budget)
        sure = not alike or is_exact(items[alike[0]], match) or _is_given(output, reference, alike)
        return None if sure else label(items[alike[0]])

    return budget.cached(output, (reference, "best so far", more), found)


def _may_miss(match: Match, items: Sequence[JsonValue], *, more: bool) -> bool:
    """Whether an item that is not compared may be meant: not if any item will do."""
    return match.pick != "any" and (more or len(items) > MAX_ITEMS)


def check_compared(output: JsonValue, reference: Reference, budget: SizeBudget, *, more: bool) -> None:
    """Raise Several, with the best items as choices, if a change must not use them: another one may match as well.

    An equal name is not enough, since an item that was not read may have it, too.
    """

    def check() -> Several | None:
        match, (at, items) = reference.match, _list(output, reference)
        if match is None or not _may_miss(match, items, more=more):
            return None
        alike = _alike(output, reference, budget, by_words=False)
        if not alike or _is_given(output, reference, alike):
            return None
        where = f"{render(reference.path[:at]) or 'the answer'} of {reference.step}"
        return Several(
            f"{where} goes on after the items that are compared",
            _choices(items, _different(output, reference, alike)) or [(None, label(items[alike[0]]))],
        )

    if (several := budget.cached(output, (reference, "compared", more), check)) is not None:
        raise several


def _chosen(output: JsonValue, reference: Reference, use: Use, budget: SizeBudget | None) -> JsonPath:
    path, match = reference.path, reference.match
    at, items = _list(output, reference)
    names = match is not None and match.pick is None and (match.said or match.given is not None)
    if match is None or not items or (not names and use != "change"):
        return path
    surely = use == "change" and match.pick != "any"
    alike = _alike(output, reference, budget, by_words=not surely)
    unseen = surely and len(items) > MAX_ITEMS and not _is_given(output, reference, alike)
    if (len(alike) != 1 or unseen) and use != "shown":
        # The item at the path as written is among them, also if it lies beyond those that are compared.
        among = alike or dict.fromkeys([*range(min(len(items), MAX_ITEMS)), int(path[at])])
        found = _different(output, reference, among)
        where = f"{render(path[:at]) or 'the answer'} of {reference.step}"
        choices = _choices(items, found)
        if not alike and (len(found) > 1 or (found and use == "change")):
            raise Unmatched(f"no item of {where} matches {written_said(match)}", choices)
        if alike and len(found) > 1 and match.pick != "any":
            raise Several(f"several items of {where} match equally well", choices)
        if alike and unseen:
            raise Several(f"{where} has more than the {MAX_ITEMS} items that are compared", choices)
    return (*path[:at], alike[0], *path[at + 1 :]) if alike else path


def _is_given(output: JsonValue, reference: Reference, indices: Sequence[int]) -> bool:
    """Whether the items at these indices have the value that was given."""
    given = reference.match.given if reference.match is not None else None
    return given is not None and all(_equals_given(value, given) for _, value in _values(output, reference, indices))


def _equals_given(value: JsonValue, given: str | int | float) -> bool:
    """Whether an item's value is the given one. Command lines and forms give numbers as text, and texts as numbers."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return equal(value, given) or str(value) == str(given)


def _alike(output: JsonValue, reference: Reference, budget: SizeBudget | None, *, by_words: bool = True) -> list[int]:
    """The indices of the items that match best; without ``by_words``, whatever other words of the request they have.

    Whoever can write an item can write these words into it, so they choose no item of a change.
    """

    def found() -> list[int]:
        match, (_, items) = reference.match, _list(output, reference)
        if match is None:
            return []
        given = set[int]()
        if match.given is not None:
            among = _values(output, reference, range(min(len(items), MAX_ITEMS)))
            given = {index for index, value in among if _equals_given(value, match.given)}
        fields = fields_of(items) if budget is None else budget.cached(items, "fields", lambda: fields_of(items))
        return best(fields, match if by_words else match.model_copy(update={"words": ()}), given)

    return found() if budget is None else budget.cached(output, (reference, "alike", by_words), found)


def _list(output: JsonValue, reference: Reference) -> tuple[int, list[JsonValue]]:
    """Where the reference's first index is in its path, and the list that it chooses from; empty if there is none."""
    at = next(at for at, part in enumerate(reference.path) if isinstance(part, int))
    try:
        items = walk(output, reference.path[:at], reference.step)
    except Unresolved:
        items = None  # following the path raises the error later
    return at, items if isinstance(items, list) else []


def _different(output: JsonValue, reference: Reference, indices: Iterable[int]) -> list[tuple[JsonValue, int]]:
    """The different values that the reference has at these indices, each with its first index; at most a few."""
    found: list[tuple[JsonValue, int]] = []
    for index, value in _values(output, reference, indices):
        if not any(equal(value, other) for other, _ in found):
            found.append((value, index))
        if len(found) == MAX_CHOICES:
            break
    return found


def _values(output: JsonValue, reference: Reference, indices: Iterable[int]) -> Iterator[tuple[int, JsonValue]]:
    """The values that the reference has at these indices of its list. Items without the value are left out."""
    at, _ = _list(output, reference)
    for index in indices:
        try:
            yield index, walk(output, (*reference.path[:at], index, *reference.path[at + 1 :]), reference.step)
        except Unresolved:
            continue


def _choices(items: Sequence[JsonValue], found: Iterable[tuple[JsonValue, int]]) -> list[tuple[JsonValue, str]]:
    """The choices that these values and the indices of their items are."""
    return [(value if _is_small(value) else None, label(items[index])) for value, index in found]


def _is_small(value: JsonValue) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= _MAX_CHOICE_CHARS


def walk(
    value: JsonValue, path: JsonPath, what: str, *, gaps: bool = False, budget: SizeBudget | None = None
) -> JsonValue:
    """Follow a path: strings are members of objects, integers (from 0) are indices of lists.

    ``gaps``: of every item of a list, those that lack the value give None. ``budget`` counts these items, if given.

    Raises:
        Unresolved: the path does not exist. The message names ``what``, the whole path, and where it ended.
        SizeExceeded: something of too many items is taken.
    """
    found = value_at(value, path, gaps=gaps) if budget is None else value_at(value, path, gaps=gaps, look=budget.look)
    if found is MISSING:
        raise Unresolved(f"{what} has no {render(path)}: {_why_missing(value, path)}")
    return found  # type: ignore[no-any-return]


def taken(output: JsonValue, path: JsonPath, what: str, budget: SizeBudget | None, *, gaps: bool = False) -> JsonValue:
    """As :func:`walk`; a list of what every item has is made once for each path, and kept by the budget."""
    if EVERY not in path or budget is None:
        return walk(output, path, what, gaps=gaps)
    return budget.cached(output, (path, "every", gaps), lambda: walk(output, path, what, gaps=gaps, budget=budget))


def _why_missing(value: JsonValue, path: JsonPath) -> str:
    current: Any = value
    for depth, key in enumerate(path):
        where = render(path[:depth]) or "it"
        if isinstance(current, list) and key == EVERY:
            if len(current) > MAX_EVERY:
                return f"{where} has more than {MAX_EVERY} items"
            return f"not every item of {where} has it"
        following = value_at(current, (key,))
        if following is MISSING:
            found = f"{type_name(current)} of {len(current)}" if isinstance(current, list) else type_name(current)
            return f"{where} is empty" if current == [] else f"{where} is {found}, which has no {key!r}"
        current = following
    return "it is missing"


def render(path: JsonPath) -> str:
    """A path as readable text: ``items[0].name``."""
    return written_path(path).removeprefix(".")


def type_name(value: JsonValue) -> str:
    """The JSON type of a value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return {str: "a string", list: "a list", dict: "an object"}[type(value)]
