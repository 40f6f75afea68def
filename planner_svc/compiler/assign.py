"""The type rule for references: whether a value of one schema fits where another schema is required.

The rule compares *types*, since there are no values yet:

- an integer fits a number; a number fits an integer with a warning (it may have a fraction);
- ``null`` is ignored: most responses declare nullable fields, and the executor reports a null that arrives;
- where an argument travels as text (path, query, header, cookie; OpenAPI 3.1, section 4.8.12), numbers and booleans fit
  a string, because they serialise to the same bytes, and a string fits a number with a warning. In a JSON body
  neither fits;
- a list never fits a single value, nor a single value a list; lists fit by their items, objects by required properties;
- listed values without a common one do not fit; partly common ones, and formats that differ, are warnings;
- what a schema does not specify is assumed to fit, and counted as assumed.

Schemas may refer to themselves, so each pair is compared once: a pair that occurs inside itself is taken to fit.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node, shown
from planner_svc.compiler.schemas import Schemas
from services.compute import checkpoint
from services.contracts.planning import DiagnosticCode

MAX_DEPTH = 8
COMPARISON_BUDGET = 20_000
"""Most flat schemas, fields and listed values that one comparison checks; the rest is assumed to fit."""
_TEXTUAL = frozenset({"boolean", "integer", "number", "string"})
_NUMERIC = frozenset({"integer", "number"})


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why one type does not fit another. It is an error if ``certain``, otherwise a warning."""

    code: DiagnosticCode
    message: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two types to compare, ``depth`` steps inside the outermost pair; ``words`` describe the place in messages."""

    given: Node
    wanted: Node
    as_text: bool
    depth: int = 0
    words: str = ""


class _Comparison:
    """One comparison. It is breadth-first, so that only the deepest parts are unknown if the budget runs out.

    Visited pairs are identified by the identity of their schemas, which ``schemas`` keeps alive.
    """

    def __init__(self, schemas: Schemas, pair: _Pair) -> None:
        self.schemas = schemas
        self._waiting = deque([pair])
        self._met: set[tuple[int, int, bool]] = set()
        self._left = COMPARISON_BUDGET

    def pairs(self) -> Iterator[_Pair]:
        """The waiting pairs, each once, including pairs added during iteration."""
        while self._waiting:
            checkpoint()
            pair = self._waiting.popleft()
            key = (id(pair.given.schema), id(pair.wanted.schema), pair.as_text)
            if key not in self._met:
                self._met.add(key)
                yield pair

    def add(self, pair: _Pair, given: Node, wanted: Node, as_text: bool, words: str) -> None:
        """Add a pair from inside another pair."""
        self._waiting.append(_Pair(given, wanted, as_text, pair.depth + 1, f"{pair.words}{words} not fit: "))

    def affords(self, steps: int) -> bool:
        """Whether the budget allows this many more steps. If not, the rest is assumed to fit."""
        self._left -= steps
        if self._left < 0:
            self.schemas.assumed += 1
            self._waiting.clear()
        return self._left >= 0


def mismatch(schemas: Schemas, given: Node, wanted: Node, *, as_text: bool) -> Mismatch | None:
    """Why a value of type ``given`` does not fit ``wanted``; None if it fits."""
    comparison = _Comparison(schemas, _Pair(given, wanted, as_text))
    for pair in comparison.pairs():
        wrong = _mismatch(comparison, pair)
        if wrong is not None and pair.words:
            return Mismatch(DiagnosticCode.TYPE_MISMATCH, pair.words + wrong.message, wrong.certain)
        if wrong is not None:
            return wrong
    return None


def _mismatch(comparison: _Comparison, pair: _Pair) -> Mismatch | None:
    """Why two types do not fit, apart from their contents, which are queued for comparison."""
    schemas, given, wanted, as_text = comparison.schemas, pair.given, pair.wanted, pair.as_text
    if schemas.is_anything(wanted):
        return None
    if schemas.is_anything(given) or pair.depth > MAX_DEPTH:
        schemas.assumed += 1
        return None
    has, takes = schemas.kinds(given) - {"null"}, schemas.kinds(wanted)
    if not has:
        return Mismatch(DiagnosticCode.TYPE_MISMATCH, "it never has a value")
    if not has & takes:
        return _disjoint(schemas, given, wanted, as_text)
    if not comparison.affords(_size(schemas, given) + _size(schemas, wanted)):
        return None
    if has == {"array"}:
        _lists(comparison, pair)
        return None
    if has == {"object"}:
        return _objects(comparison, pair)
    return _values(comparison, given, wanted, as_text) or _leftover(schemas, given, wanted, as_text)


def _size(schemas: Schemas, node: Node) -> int:
    """How many flat schemas a node expands to: it can double with each level of a recursive type."""
    return sum(len(branch) for branch in schemas.branches(node))


def _disjoint(schemas: Schemas, given: Node, wanted: Node, as_text: bool) -> Mismatch | None:
    has, takes = schemas.kinds(given) - {"null"}, schemas.kinds(wanted) - {"null"}
    is_text, asks = schemas.describe(given), schemas.describe(wanted)
    if as_text and "string" in takes and has <= _TEXTUAL:
        return None
    if as_text and "string" in has and takes & _NUMERIC:
        return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"it is text, and {asks} is asked for", certain=False)
    if has == {"array"}:
        return Mismatch(DiagnosticCode.LIST_FOR_SINGLE, f"it is a list, and {asks} is asked for")
    if takes == {"array"}:
        return Mismatch(DiagnosticCode.SINGLE_FOR_LIST, f"it is {is_text}, and a list is asked for")
    return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"it is {is_text}, and {asks} is asked for")


def _lists(comparison: _Comparison, pair: _Pair) -> None:
    has = comparison.schemas.child(pair.given, 0, strict=True)
    takes = comparison.schemas.child(pair.wanted, 0, strict=False)
    if isinstance(has, Node) and isinstance(takes, Node):  # otherwise one of the lists is always empty
        comparison.add(pair, has, takes, pair.as_text, "its items do")


def _objects(comparison: _Comparison, pair: _Pair) -> Mismatch | None:
    schemas = comparison.schemas
    names = schemas.required(pair.wanted)
    if not comparison.affords(len(names)):
        return None
    for name in sorted(names):
        has, takes = schemas.child(pair.given, name, strict=True), schemas.child(pair.wanted, name, strict=False)
        if not isinstance(has, Node):
            return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"it has no field {shown(name)!r}, which is asked for")
        if isinstance(takes, Node):
            comparison.add(pair, has, takes, False, f"its field {shown(name)!r} does")
    return None


def _values(comparison: _Comparison, given: Node, wanted: Node, as_text: bool) -> Mismatch | None:
    """Compare listed values and formats."""
    schemas = comparison.schemas
    has, takes = schemas.enumeration(given), schemas.enumeration(wanted)
    if has is not None and takes is not None and comparison.affords(len(has) + len(takes)):
        allowed = {_key(value, as_text) for value in takes}
        fitting = [value for value in has if value is not None and _key(value, as_text) in allowed]
        choices = ", ".join(shown(str(value)) for value in takes[:10])
        if not fitting:
            return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"none of its values is one of {choices}")
        if len(fitting) < len([value for value in has if value is not None]):
            return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"not all of its values are among {choices}", certain=False)
    formats, asked = schemas.formats(given), schemas.formats(wanted)
    if formats and asked and not formats & asked and "string" in schemas.kinds(given) & schemas.kinds(wanted):
        message = f"its format is {', '.join(sorted(formats))}, and {', '.join(sorted(asked))} is asked for"
        return Mismatch(DiagnosticCode.TYPE_MISMATCH, message, certain=False)
    return None


def _leftover(schemas: Schemas, given: Node, wanted: Node, as_text: bool) -> Mismatch | None:
    """Warn about types of the value that are not accepted, if at least one type is."""
    takes = schemas.kinds(wanted)
    rest = schemas.kinds(given) - takes - {"null"}
    if not rest or (as_text and "string" in takes and rest <= _TEXTUAL):
        return None
    if rest == {"number"}:
        return Mismatch(DiagnosticCode.TYPE_MISMATCH, "it may have a fraction, and a whole number is asked for", False)
    message = f"it may be {schemas.describe(given)}, and {schemas.describe(wanted)} is asked for"
    return Mismatch(DiagnosticCode.TYPE_MISMATCH, message, certain=False)


def _key(value: JsonValue, as_text: bool) -> str:
    return str(value).lower() if as_text and isinstance(value, bool) else str(value) if as_text else repr(value)
