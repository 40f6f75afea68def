"""A bounded LRU cache."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, ValuesView
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """An LRU cache. The total weight of its values is at most ``size``; by default each value weighs 1.

    The value added last is kept whatever its weight.
    """

    def __init__(self, size: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._size, self._weigh, self._weight = size, weigh, 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[V]:
        """All values. Does not count as a use."""
        return self._values.values()

    def peek(self, key: K) -> V | None:
        """The value of this key, or None. Does not count as a use. Thread-safe."""
        return self._values.get(key)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of this key. If there is none, ``make`` creates it."""
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
