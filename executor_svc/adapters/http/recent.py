"""A bounded memory: what was used last is kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, ValuesView
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values of the ``size`` keys that were asked for most recently."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[V]:
        """All of them, without counting as asked for."""
        return self._values.values()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of this key, made where there is none."""
        try:
            value = self._values[key]
        except KeyError:
            value = self._values[key] = make()
            if len(self._values) > self._size:
                self._values.popitem(last=False)
            return value
        self._values.move_to_end(key)
        return value
