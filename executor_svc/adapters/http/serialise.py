"""Parameter values as text: the styles of OpenAPI 3.1 (section 4.8.12), which are RFC 6570's and four more.

All characters but the unreserved ones are percent-encoded (RFC 6570, simple expansion), so no value can change the
structure of a URL. `allowReserved` is ignored: an encoded reserved character means the same data (RFC 3986, section
2.4), and an unencoded one may end the value.
"""

import re
from collections.abc import Container, Iterable, Iterator
from typing import AnyStr, Final
from urllib.parse import quote, unquote_plus

import orjson
from pydantic import JsonValue

from services.contracts.api import Location, Style

MAX_PARTS: Final = 20_000
"""Most pairs, or parts of a body, that a request is built from."""
_PIECE: Final = 65_536
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PATH_STYLES: Final = frozenset({Style.SIMPLE, Style.LABEL, Style.MATRIX})
_QUERY_STYLES: Final = frozenset({Style.FORM, Style.SPACE_DELIMITED, Style.PIPE_DELIMITED, Style.DEEP_OBJECT})
_DELIMITERS: Final = {Style.SPACE_DELIMITED: " ", Style.PIPE_DELIMITED: "|"}


class Unserialisable(ValueError):
    """The value cannot be written in this style. The message says why."""


def encode(text: str) -> str:
    """Percent-encode all but the unreserved characters of RFC 3986."""
    if text.isalnum() and text.isascii():
        return text
    # `quote` makes an object for each byte: in pieces, this takes no memory in addition.
    return "".join(quote(text[start : start + _PIECE], safe="") for start in range(0, len(text), _PIECE))


def scalar(value: JsonValue) -> str:
    """A string, number or boolean as text; numbers and booleans as in JSON.

    Raises:
        Unserialisable: null, a list, an object, or a string with a lone surrogate.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unserialisable("the text contains a lone surrogate, which UTF-8 cannot encode") from None
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return orjson.dumps(value).decode()
    kind = "null" if value is None else "a list" if isinstance(value, list) else "an object"
    raise Unserialisable(f"{kind} inside a parameter has no text")


def effective_style(location: Location, style: Style) -> Style:
    """The given style if it exists for this location, else the location's default."""
    if location is Location.PATH:
        return style if style in _PATH_STYLES else Style.SIMPLE
    if location is Location.QUERY:
        return style if style in _QUERY_STYLES else Style.FORM
    return Style.FORM if location is Location.COOKIE else Style.SIMPLE


def path_text(name: str, value: JsonValue, style: Style, explode: bool) -> str:
    """A path parameter, percent-encoded: `simple`, `label` or `matrix`."""
    match effective_style(Location.PATH, style):
        case Style.LABEL:
            return "." + _expand(value, "." if explode else ",", explode, encoded=True)
        case Style.MATRIX:
            return _matrix(encode(name), value, explode)
        case _:
            return _expand(value, ",", explode, encoded=True)


def header_text(value: JsonValue, explode: bool) -> str:
    """A header parameter: `simple`, not percent-encoded (OpenAPI 3.1.1, appendix D).

    Raises:
        Unserialisable: it holds a control character, such as a line end.
    """
    text = _expand(value, ",", explode, encoded=False)
    if _CONTROL.search(text):
        raise Unserialisable("a header cannot contain control characters or line ends")
    return text


def query_pairs(name: str, value: JsonValue, style: Style, explode: bool) -> Iterator[str]:
    """A query parameter as ``name=value`` pairs, percent-encoded. An empty list or object gives none.

    Made one by one, for :func:`bounded`: the pairs may take far more room than the value.
    """
    style = effective_style(Location.QUERY, style)
    key = encode(name)
    if style is Style.DEEP_OBJECT and isinstance(value, (dict, list)):
        _check_count(value)
        yield from _deep((key,), value)
    elif not isinstance(value, (dict, list)):
        yield f"{key}={encode(scalar(value))}"
    elif isinstance(value, list) and explode:
        yield from (f"{key}={encode(scalar(element))}" for element in value)
    elif isinstance(value, dict) and explode:
        yield from (f"{encode(member)}={encode(scalar(element))}" for member, element in value.items())
    elif value:
        yield f"{key}={_delimited(value, style)}"


def bounded(parts: Iterable[AnyStr], most: int) -> list[AnyStr]:
    """These parts of a request. Reads no more of them than fit: a name is repeated for each value inside it.

    Raises:
        Unserialisable: there are more than :data:`MAX_PARTS`, or they are longer than ``most`` together.
    """
    found: list[AnyStr] = []
    length = 0
    for part in parts:
        found.append(part)
        length += len(part)
        if length > most or len(found) > MAX_PARTS:
            raise Unserialisable("it would be too long")
    return found


def cookie_pairs(name: str, value: JsonValue, explode: bool) -> Iterator[str]:
    """A cookie parameter: `form`, each pair a cookie of its own."""
    return query_pairs(name, value, Style.FORM, explode)


def without(pairs: Iterable[str], names: Container[str]) -> list[str]:
    """The encoded ``name=value`` pairs that have none of these names."""
    return [pair for pair in pairs if unquote_plus(pair.partition("=")[0]) not in names]


def _delimited(value: list[JsonValue] | dict[str, JsonValue], style: Style) -> str:
    delimiter = _DELIMITERS.get(style)
    parts = list(_flat(value))
    if delimiter is None:
        return ",".join(map(encode, parts))
    if any(delimiter in part for part in parts):
        raise Unserialisable(f"{style} cannot encode a value that contains {delimiter!r}")
    return encode(delimiter).join(map(encode, parts))


def _expand(value: JsonValue, delimiter: str, explode: bool, *, encoded: bool) -> str:
    text = encode if encoded else str
    if isinstance(value, dict) and explode:
        return delimiter.join(f"{text(name)}={text(scalar(member))}" for name, member in value.items())
    if isinstance(value, (dict, list)):
        return delimiter.join(text(part) for part in _flat(value))
    return text(scalar(value))


def _matrix(name: str, value: JsonValue, explode: bool) -> str:
    if isinstance(value, dict) and explode:
        pairs = [(encode(member), encode(scalar(element))) for member, element in value.items()]
    elif isinstance(value, list) and explode:
        pairs = [(name, encode(scalar(element))) for element in value]
    else:
        pairs = [(name, _expand(value, ",", explode, encoded=True))]
    return "".join(f";{key}={text}" if text else f";{key}" for key, text in pairs)


def _flat(value: list[JsonValue] | dict[str, JsonValue]) -> Iterable[str]:
    _check_count(value)
    if isinstance(value, list):
        return [scalar(element) for element in value]
    return [text for name, element in value.items() for text in (scalar(name), scalar(element))]


def _deep(keys: tuple[str, ...], value: JsonValue) -> Iterator[str]:
    """``name[member]=value``. The specification defines one level; deeper levels nest brackets, as servers expect."""
    if isinstance(value, dict):
        for member, element in value.items():
            yield from _deep((*keys, encode(f"[{member}]")), element)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _deep((*keys, encode(f"[{index}]")), element)
    else:
        yield f"{''.join(keys)}={encode(scalar(value))}"


def _check_count(value: JsonValue) -> None:
    """Raises Unserialisable if more than :data:`MAX_PARTS` values are inside the value."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(inner)
        if count > MAX_PARTS:
            raise Unserialisable("it would be too long")
        waiting += inner
