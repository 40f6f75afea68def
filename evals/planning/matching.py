"""Matches predicted calls with calls of the reference solution, and defines when two values are equal.

Calls are matched one to one, and only with calls of the same API. If an API is called several times, pairs with the
most equal arguments are matched first. Ties go to the pair with the fewest unequal arguments, then to the first one. A
reference is equal if it takes the same field of matched calls. Since that depends on the match, the first round only
requires the same API, and matching is repeated until it is stable.

Values are compared as in Seal-Tools' published evaluation: exactly, as Python's ``str`` writes them. So ``5`` equals
``"5"``, but neither ``5.0`` nor ``"5 "``. The members of objects may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from evals.planning.calls import CallGraph, Link, Node, link_of
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Reference, Value

_ROUNDS = 5
_TRIES = 5_000

SameCall = Callable[[int, int], bool]
"""Whether the gold call at the first place and the predicted one at the second are the same call."""
Matches = Mapping[int, int]
"""Places of predicted calls, mapped to the places of the matching gold calls."""


def match_calls(gold: CallGraph, predicted: CallGraph) -> dict[int, int]:
    """Match the calls of a plan with those of the reference solution. Unmatched calls are in no pair."""

    def same_api(place: int, other: int) -> bool:
        return gold.nodes[place].api == predicted.nodes[other].api

    matches = _matched(gold, predicted, same_api)
    for _ in range(_ROUNDS):
        again = _matched(gold, predicted, by_match(matches))
        if again == matches:
            break
        matches = again
    return matches


def made_in_order(gold: CallGraph, predicted: CallGraph) -> bool:
    """Whether each gold call can get its own predicted call of the same API, such that each waits for its producers.

    Only some thousands of assignments are tried.
    """
    awaited = [_awaited(predicted, place) for place in range(len(predicted.nodes))]
    producers = [node.needs - {place} for place, node in enumerate(gold.nodes)]
    same = [[n for n, node in enumerate(predicted.nodes) if node.api == wanted.api] for wanted in gold.nodes]
    partners: list[int] = []

    def fits(other: int) -> bool:
        place = len(partners)
        before = all(partners[one] in awaited[other] for one in producers[place] if one < place)
        after = all(other in awaited[partner] for one, partner in enumerate(partners) if place in producers[one])
        return other not in partners and before and after

    untried = [iter(others) for others in same[:1]]
    for _ in range(_TRIES):
        if len(partners) == len(gold.nodes):
            return True
        other = next(untried[-1], None)
        if other is not None and fits(other):
            partners.append(other)
            untried += [iter(others) for others in same[len(partners) : len(partners) + 1]]
        elif other is None:
            untried.pop()
            if not partners:
                return False
            partners.pop()
    return False


def by_match(matches: Matches) -> SameCall:
    """Calls are the same if they are matched."""
    return lambda place, other: matches.get(other) == place


def equal_arguments(gold: Node, predicted: Node, same_call: SameCall) -> int:
    """The number of arguments that have the same name and value in both."""
    return sum(
        name in gold.arguments and same_value(gold.arguments[name], value, same_call)
        for name, value in predicted.arguments.items()
    )


def same_node(gold: Node, predicted: Node, same_call: SameCall) -> bool:
    """Whether the API, the names of the arguments and all values are the same."""
    return (
        gold.api == predicted.api
        and len(gold.arguments) == len(predicted.arguments)
        and equal_arguments(gold, predicted, same_call) == len(gold.arguments)
    )


def same_value(gold: Value, predicted: Value, same_call: SameCall) -> bool:
    """Whether two arguments are equal; see the module's docstring."""
    if isinstance(gold, LiteralValue) and isinstance(predicted, LiteralValue):
        return text_of(gold.value) == text_of(predicted.value)
    if isinstance(gold, Reference) and isinstance(predicted, Reference):
        return same_link(link_of(gold), link_of(predicted), same_call)
    if isinstance(gold, ListValue) and isinstance(predicted, ListValue):
        pairs = zip(gold.items, predicted.items, strict=False)
        return len(gold.items) == len(predicted.items) and all(same_value(g, p, same_call) for g, p in pairs)
    if isinstance(gold, ObjectValue) and isinstance(predicted, ObjectValue):
        if gold.fields.keys() != predicted.fields.keys():
            return False
        return all(same_value(field, predicted.fields[name], same_call) for name, field in gold.fields.items())
    return False


def same_link(gold: Link, predicted: Link, same_call: SameCall) -> bool:
    """Whether two references take the same field of the same call."""
    if gold.place is None or predicted.place is None or gold.path != predicted.path:
        return False
    return same_call(gold.place, predicted.place)


def text_of(value: JsonValue) -> str:
    """The text by which literals are compared."""
    return str(_sorted(value))


def _awaited(graph: CallGraph, place: int) -> set[int]:
    """The places of all calls that have finished when the call at this place starts."""
    found: set[int] = set()
    waiting = [place]
    while waiting:
        more = graph.nodes[waiting.pop()].needs - found
        found |= more
        waiting.extend(more)
    return found


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _matched(gold: CallGraph, predicted: CallGraph, same_call: SameCall) -> dict[int, int]:
    pairs = []
    for other, node in enumerate(predicted.nodes):
        for place, wanted in enumerate(gold.nodes):
            if wanted.api == node.api:
                equal = equal_arguments(wanted, node, same_call)
                unequal = len(wanted.arguments) + len(node.arguments) - 2 * equal
                pairs.append((-equal, unequal, other, place))
    matches: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, other, place in sorted(pairs):
        if other not in matches and place not in taken:
            matches[other] = place
            taken.add(place)
    return dict(sorted(matches.items()))
