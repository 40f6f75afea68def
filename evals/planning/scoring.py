"""What is counted for one request: the papers' metrics before they are aggregated.

- *Tool* and *parameter* (Seal-Tools, appendix C): calls that match a gold call of the same API, and their arguments
  with the same name and value. These are micro averages: they are counted here and divided over all requests. A
  reference is an argument like any other.
- *As published*: the same as counted by Seal-Tools' own script. It compares every predicted call with the first gold
  call of its API, however often that was used before. References are the texts ``API_call_N``, where N counts the
  response slots of the calls in written order. It differs if an API is called twice, or if a call before the
  reference is missing or superfluous.
- *Reference*: a gold reference is found if the matching call has a reference at the same place of the same argument,
  to the same field of the call that matches the producer.
- *Sequence match* (NESTFUL, section 5.3, aligned as in its published script): lists of the same length are compared
  place by place. Others are aligned by the names of the APIs, gold first where they differ. Partial match is the share
  of equal calls among the aligned places. Full match means that all are equal. Equal calls have equal arguments.
- *In any order*: all calls have an equal partner in any position. Plans are graphs, so their order has no meaning.
- *Made* (the part of NESTFUL's execution pass rate, section 5.3, that does not depend on a run): every gold call is
  made. If one takes a value of another, its partner waits for the other's partner, directly or through further calls.
  Arguments and superfluous calls do not matter. So any calls of the right APIs qualify, not only those that are matched
  by their arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.planning.calls import CallGraph, Link, link_of, links_of
from evals.planning.matching import (
    by_match,
    equal_arguments,
    made_in_order,
    match_calls,
    same_link,
    same_node,
    text_of,
)
from services.codecs.seal import Outputs
from services.codecs.text import encode_value
from services.contracts.base import JsonPath
from services.contracts.plan import ItemReference, Reference, Value


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of right, predicted and gold items, for one request or many."""

    right: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.predicted + other.predicted, self.gold + other.gold)


@dataclass(frozen=True, slots=True)
class Score:
    """The counts of one request, as defined in the module's docstring. ``partial`` is a share, 0 to 1."""

    tool: Counts
    param: Counts
    reference: Counts
    published_tool: Counts
    published_param: Counts
    partial: float
    full: bool
    any_order: bool
    made: bool


def score(gold: CallGraph, predicted: CallGraph, outputs: Outputs) -> Score:
    """Compare a plan with the reference solution.

    Args:
        gold: the reference solution.
        predicted: the plan; no calls if there is none.
        outputs: the response fields of each API by id, in the order in which slots are numbered.
    """
    matches = match_calls(gold, predicted)
    same_call = by_match(matches)
    pairs = [(gold.nodes[place], predicted.nodes[other]) for other, place in matches.items()]
    equal = sum(same_node(wanted, node, same_call) for wanted, node in pairs)
    lengths = (len(predicted.nodes), len(gold.nodes))
    published = _published(gold, predicted, outputs)
    partial, full = _in_sequence(gold, predicted)
    return Score(
        tool=Counts(len(pairs), *lengths),
        param=Counts(sum(equal_arguments(*pair, same_call) for pair in pairs), _arguments(predicted), _arguments(gold)),
        reference=_references(gold, predicted, matches),
        published_tool=Counts(published[0], *lengths),
        published_param=Counts(published[1], _arguments(predicted), _arguments(gold)),
        partial=partial,
        full=full,
        any_order=equal == lengths[0] == lengths[1],
        made=made_in_order(gold, predicted),
    )


def _arguments(graph: CallGraph) -> int:
    return sum(len(node.arguments) for node in graph.nodes)


def _references(gold: CallGraph, predicted: CallGraph, matches: Mapping[int, int]) -> Counts:
    wanted = {(place, where): link for place, node in enumerate(gold.nodes) for where, link in links_of(node)}
    found: list[tuple[tuple[int, JsonPath], Link]] = []
    for other, node in enumerate(predicted.nodes):
        found += [((matches.get(other, -1), where), link) for where, link in links_of(node)]
    same_call = by_match(matches)
    right = sum(key in wanted and same_link(wanted[key], link, same_call) for key, link in found)
    return Counts(right, len(found), len(wanted))


def _in_sequence(gold: CallGraph, predicted: CallGraph) -> tuple[float, bool]:
    """Partial and full match of the two as sequences. Two empty graphs match."""
    if not gold.nodes and not predicted.nodes:
        return 1.0, True
    aligned = _aligned([node.api for node in gold.nodes], [node.api for node in predicted.nodes])
    partner = {other: place for place, other in aligned if place is not None and other is not None}
    same_call = by_match(partner)
    equal = sum(same_node(gold.nodes[place], predicted.nodes[other], same_call) for other, place in partner.items())
    return equal / len(aligned), equal == len(aligned)


def _aligned(gold: Sequence[str], predicted: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Pairs of places to compare; None if one list has no counterpart."""
    if len(gold) == len(predicted):
        return [(place, place) for place in range(len(gold))]
    pairs: list[tuple[int | None, int | None]] = []
    place = other = 0
    while place < len(gold) or other < len(predicted):
        both = place < len(gold) and other < len(predicted)
        if both and gold[place] == predicted[other]:
            pairs.append((place, other))
            place, other = place + 1, other + 1
        elif place < len(gold):
            pairs.append((place, None))
            place += 1
        else:
            pairs.append((None, other))
            other += 1
    return pairs


def _published(gold: CallGraph, predicted: CallGraph, outputs: Outputs) -> tuple[int, int]:
    """The numbers of right calls and right arguments as Seal-Tools' script counts them."""
    gold_slots, slots = _slots(gold, outputs), _slots(predicted, outputs)
    calls = arguments = 0
    for node in predicted.nodes:
        first = next((other for other in gold.nodes if other.api == node.api), None)
        if first is None:
            continue
        calls += 1
        for name, value in node.arguments.items():
            wanted = first.arguments.get(name)
            arguments += wanted is not None and _text(wanted, gold_slots) == _text(value, slots)
    return calls, arguments


def _slots(graph: CallGraph, outputs: Outputs) -> dict[tuple[int, JsonPath], str]:
    """The names of the response slots: one per field of every call, one for a call without known fields."""
    slots: dict[tuple[int, JsonPath], str] = {}
    for place, node in enumerate(graph.nodes):
        paths: list[JsonPath] = [(field,) for field in outputs.get(node.api, ())] or [()]
        for path in paths:
            slots[place, path] = f"API_call_{len(slots)}"
    return slots


def _text(value: Value, slots: Mapping[tuple[int, JsonPath], str]) -> str:
    def named(reference: Reference | ItemReference) -> str:
        assert isinstance(reference, Reference)  # a graph holds no item references
        link = link_of(reference)
        none = f"no slot: {link.place} {link.path}"
        return none if link.place is None else slots.get((link.place, link.path), none)

    return text_of(encode_value(value, named, lambda _: False))
