"""A bounded memory: what was used last is kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, ValuesView
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values of the keys that were asked for most recently, weighing ``size`` together at most: 1 each by default.

    The last one is kept whatever it weighs.
    """

    def __init__(self, size: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._size, self._weigh, self._weight = size, weigh, 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[V]:
        """All of them, without counting as asked for."""
        return self._values.values()

    def peek(self, key: K) -> V | None:
        """The value of this key if there is one, without counting as asked for. Safe to use from any thread."""
        return self._values.get(key)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of this key, made where there is none."""
        try:
            value = self._values[key]
        except KeyError:
            value = self._values[key] = make()
            self._weight += self._weigh(value)
            while self._weight > self._size and len(self._values) > 1:
                self._weight -= self._weigh(self._values.popitem(last=False)[1])
            return value
        self._values.move_to_end(key)
        return value
