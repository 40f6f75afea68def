"""Labels of calls that have none."""

from collections.abc import Iterator

from pydantic import JsonValue

from services.codecs import nestful
from services.codecs.calls import Labels


class Counted(str):
    """A label that counts how often any of them is compared with another text."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_no_label_is_looked_at_twice() -> None:
    labels = Labels(map(Counted, names(1, 1_000)))
    assert [labels.free(position) for position in range(1, 1_001)] == list(names(1_001, 2_000))
    assert 0 < Counted.compared < 3_000


def test_calls_without_a_label_get_a_free_one() -> None:
    calls: JsonValue = [
        {"name": "a.b"},
        {"name": "a.b", "label": "var1"},
        {"name": "a.b"},
        {"name": "a.b", "label": "var3"},
    ]
    assert [step.id for step in nestful.decode(calls).steps] == ["var2", "var1", "var4", "var3"]


def names(first: int, last: int) -> Iterator[str]:
    return (f"var{number}" for number in range(first, last + 1))
