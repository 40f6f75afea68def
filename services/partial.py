"""Tells which values come from lists that were not read to their end, also through the inputs of other steps."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from pydantic import JsonValue

from services.contracts.base import JsonPath, before_every
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Reference, Step, Value
from services.paths import value_at

_MAX_MEMBERS: Final = 100


class PartialValues:
    """The values of a run that come from lists that were not read to their end.

    An item of such a list is whole, as is what is made from it alone.

    Args:
        steps: the steps, each after those that it needs.
        outputs: the outputs of the steps that succeeded.
        cut: the steps whose lists go on.
        begun: the steps of whose outputs only the beginning is given. What may be a list there counts as one.
    """

    def __init__(
        self,
        steps: Iterable[Step],
        outputs: Mapping[str, JsonValue],
        cut: Collection[str],
        begun: Collection[str] = (),
    ) -> None:
        self._outputs, self._cut, self._begun = outputs, cut, begun
        self._mapped, self._made, self._repeated = set[str](), set[str](), set[str]()
        self._lists = dict[int, bool]()  # by the identity of values, which the outputs keep alive
        for step in steps:
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
        path = before_every(path)
        call = step in self._mapped and bool(path) and isinstance(path[0], int)
        if step in self._made or (step in self._repeated and not call):
            return True
        if step not in self._cut or any(isinstance(part, int) for part in (path[1:] if call else path)):
            return False
        found = value_at(self._outputs.get(step), path)
        if not path or step in self._begun:
            return not path or not isinstance(found, bool | int | float | None)
        if (known := self._lists.get(id(found))) is None:
            known = self._lists[id(found)] = _holds_list(found)
        return known

    def _any_in(self, values: Iterable[Value]) -> bool:
        return any(map(self._is_partial, values))

    def _is_partial(self, value: Value) -> bool:
        match value:
            case Reference():
                return self.holds(value.step, value.path)
            case LiteralValue():
                return value.partial
            case ListValue():
                return self._any_in(value.items)
            case ObjectValue():
                return self._any_in(value.fields.values())
            case _:
                return False


def _holds_list(value: Any, depth: int = 2) -> bool:
    """Whether a value is a list, or an object with one in it or in a member; what is larger or deeper may hold one."""
    if isinstance(value, dict) and value:
        if not depth or len(value) > _MAX_MEMBERS:
            return True
        return any(_holds_list(member, depth - 1) for member in value.values())
    return isinstance(value, list)
