"""Tells which values come from lists that were not read to their end, also through the inputs of other steps."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from pydantic import JsonValue

from executor_svc.references import Unresolved, walk
from services.contracts.base import JsonPath
from services.contracts.plan import Step, Value, references

_MAX_MEMBERS: Final = 100


class PartialValues:
    """The values of a run that come from lists that were not read to their end.

    An item of such a list is whole, as is what is made from it alone.

    Args:
        steps: the steps, each after those that it needs.
        outputs: the outputs of the steps that succeeded.
        cut: the steps whose lists go on.
    """

    def __init__(self, steps: Iterable[Step], outputs: Mapping[str, JsonValue], cut: Collection[str]) -> None:
        self._outputs, self._cut = outputs, cut
        self._mapped, self._made, self._repeated = set[str](), set[str](), set[str]()
        self._lists = dict[int, bool]()  # by the identity of values, which the outputs keep alive
        for step in steps if cut else ():
            sides = () if step.when is None else (step.when.left, step.when.right)
            if self._any_in((*step.arguments.values(), *sides)):
                self._made.add(step.id)
            if step.foreach is not None:
                self._mapped.add(step.id)
                if self._any_in((step.foreach.items,)):
                    self._repeated.add(step.id)

    def holds(self, step: str, path: JsonPath) -> bool:
        """Whether the value at a path of a step's output comes from such a list, without being one item of it.

        A plan may name the same value thousands of times, so what is found out about it is kept.
        """
        call = step in self._mapped and bool(path) and isinstance(path[0], int)
        if step in self._made or (step in self._repeated and not call):
            return True
        if step not in self._cut or any(isinstance(part, int) for part in (path[1:] if call else path)):
            return False
        try:
            value = walk(self._outputs.get(step), path, step)
        except Unresolved:
            return False
        if (known := self._lists.get(id(value))) is None:
            known = self._lists[id(value)] = _holds_list(value)
        return known

    def _any_in(self, values: Iterable[Value]) -> bool:
        return any(self.holds(one.step, one.path) for value in values for one in references(value))


def _holds_list(value: JsonValue, depth: int = 2) -> bool:
    """Whether a value is a list, or an object with one in it or in a member, as in an answer with metadata."""
    if isinstance(value, dict) and depth:
        return any(_holds_list(member, depth - 1) for member in islice(value.values(), _MAX_MEMBERS))
    return isinstance(value, list)
