"""Whether what one schema allows fits where another one asks: the type rule for references.

The rule is about *types*, since values are not there yet:

- an integer fits a number; a number fits an integer with a warning (it may have a fraction);
- ``null`` is set aside: most responses declare nullable fields, and a null that arrives is the executor's to report;
- where an argument travels as text (path, query, header, cookie; OpenAPI 3.1, section 4.8.12), numbers and booleans fit
  a string, because they serialise to the same bytes, and a string fits a number with a warning. In a JSON body
  neither does;
- a list never fits a single value, nor the other way round; lists fit by their items, objects by required properties;
- listed values that have none in common do not fit; others that need not match, and formats that differ, are warnings;
- what a schema does not say is assumed and counted as such.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from planner_svc.compiler.schemas import Node, Schemas
from services.contracts.planning import DiagnosticCode

MAX_DEPTH = 8
_TEXTUAL = frozenset({"boolean", "integer", "number", "string"})
_NUMERIC = frozenset({"integer", "number"})


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why one type does not fit another; ``certain`` ones are errors, the others warnings."""

    code: DiagnosticCode
    message: str
    certain: bool = True


def mismatch(schemas: Schemas, given: Node, wanted: Node, *, as_text: bool, depth: int = 0) -> Mismatch | None:
    """Why a value of type ``given`` does not fit ``wanted``; None where it does."""
    if schemas.is_anything(wanted):
        return None
    if schemas.is_anything(given) or depth > MAX_DEPTH:
        schemas.assumed += 1
        return None
    has, takes = schemas.kinds(given) - {"null"}, schemas.kinds(wanted)
    if not has:
        return Mismatch(DiagnosticCode.TYPE_MISMATCH, "it never has a value")
    if not has & takes:
        return _disjoint(schemas, given, wanted, as_text)
    if has == {"array"}:
        return _lists(schemas, given, wanted, as_text, depth)
    if has == {"object"}:
        return _objects(schemas, given, wanted, depth)
    return _values(schemas, given, wanted, as_text) or _leftover(schemas, given, wanted, as_text)


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


def _lists(schemas: Schemas, given: Node, wanted: Node, as_text: bool, depth: int) -> Mismatch | None:
    has, takes = schemas.child(given, 0, strict=True), schemas.child(wanted, 0, strict=False)
    if not isinstance(has, Node) or not isinstance(takes, Node):
        return None  # one of them is always empty
    inner = mismatch(schemas, has, takes, as_text=as_text, depth=depth + 1)
    if inner is None:
        return None
    return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"its items do not fit: {inner.message}", inner.certain)


def _objects(schemas: Schemas, given: Node, wanted: Node, depth: int) -> Mismatch | None:
    for name in sorted(schemas.required(wanted)):
        has, takes = schemas.child(given, name, strict=True), schemas.child(wanted, name, strict=False)
        if not isinstance(has, Node):
            return Mismatch(DiagnosticCode.TYPE_MISMATCH, f"it has no field {name!r}, which is asked for")
        if isinstance(takes, Node):
            inner = mismatch(schemas, has, takes, as_text=False, depth=depth + 1)
            if inner is not None:
                message = f"its field {name!r} does not fit: {inner.message}"
                return Mismatch(DiagnosticCode.TYPE_MISMATCH, message, inner.certain)
    return None


def _values(schemas: Schemas, given: Node, wanted: Node, as_text: bool) -> Mismatch | None:
    """Listed values and formats."""
    has, takes = schemas.enumeration(given), schemas.enumeration(wanted)
    if has is not None and takes is not None:
        allowed = {_key(value, as_text) for value in takes}
        fitting = [value for value in has if value is not None and _key(value, as_text) in allowed]
        choices = ", ".join(map(str, takes[:10]))
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
    """Types the value may have that are not asked for, beside one that is."""
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
