"""Parses a text into a JSON value, within limits. No other module parses documents.

JSON and JSON lines are read by orjson. YAML is read as JSON-compatible YAML 1.2 (required by OpenAPI 3.1, section 4.3):
``no`` is a string, ``0644`` is a decimal number, a date stays text, keys become strings. Merge keys (``<<``) are
supported.
"""

from __future__ import annotations

import math
import re
from typing import Any

import orjson
import yaml
from pydantic import JsonValue

from retriever_svc.importers.limits import Limits
from retriever_svc.importers.repeated import Warn, YamlRepeats, warn_of_repeats
from services.compute import checkpoint
from services.errors import InvalidDocument

try:  # libyaml is ten times faster; wheels for every common platform carry it
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # pragma: no cover
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_DANGLING_COMMA = re.compile(rf"({_STRING.pattern})|,(?=\s*[\]}}])", re.DOTALL)
"""A comma after the last member, outside of strings."""
_NAME_ENDS = re.compile(r'"(?<!\\")\s*+:')
"""About one for each name in JSON: some more if texts hold JSON, fewer if a name ends in a backslash.

It begins with the quotation mark: in a long text that is found forty times as fast as what comes before it."""
_TAG_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])\ufeff?%TAG")
_MAX_TAG_DIRECTIVES = 16
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_INT64 = 2**63
MAX_EXAMPLE = 500_000
"""Characters of an example that are read."""
_MAX_EXAMPLE_DEPTH = 30
_CHECK_EVERY = 256
"""Values between two checkpoints: less than a millisecond, except for long texts."""


def read_document(text: str, limits: Limits, warn: Warn = lambda _: None) -> dict[str, JsonValue] | list[JsonValue]:
    """Parse JSON, JSON lines or YAML text into an object or a list that holds JSON values only.

    Args:
        text: the document.
        limits: bounds on what is read.
        warn: called with a sentence for each name that is twice in one object; only the last value is read.

    Raises:
        InvalidDocument: too large, too deep, neither JSON nor YAML, or neither an object nor a list.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > limits.document_bytes:
        raise InvalidDocument(f"the document has {size:,} bytes; at most {limits.document_bytes:,} are read")
    text = text.removeprefix("\ufeff")
    if not (begin := text.lstrip()[:1]):
        raise InvalidDocument("the document is empty")
    if begin == "<":  # neither JSON nor YAML begins this way
        raise InvalidDocument("the document is HTML or XML, perhaps a page about the API; import its JSON or YAML")
    is_json, cleaner = False, _Cleaner(limits)
    if begin in ("{", "["):
        _measure_json(text, limits)
        raw, is_json = _read_braced(text, limits, warn)
    else:
        raw = _read_yaml(text, limits, warn)
    value = cleaner.clean(raw, 0)
    if is_json and cleaner.members != sum(1 for _ in _NAME_ENDS.finditer(text)):
        warn_of_repeats(text, warn)
    if not isinstance(value, (dict, list)):
        raise InvalidDocument("the document is not an object")
    return value


def read_example(text: str) -> JsonValue:
    """Parse a JSON text inside a document, such as the example of a body.

    Raises:
        InvalidDocument: it is not JSON, or is too large or too deep for an example.
    """
    if len(text) > MAX_EXAMPLE:
        raise InvalidDocument(f"the example has more than {MAX_EXAMPLE:,} characters")
    limits = Limits(depth=_MAX_EXAMPLE_DEPTH)
    return _Cleaner(limits).clean(_read_json(text), 0)


def _measure_json(text: str, limits: Limits) -> None:
    """Refuse too many values before any is built: an empty list is two bytes of text and sixty of memory.

    There is at least one value per comma, and one per line that begins an object.
    """
    bare = text if text.count(",") < limits.nodes else _STRING.sub("", text)
    if max(bare.count(","), bare.count("\n{")) >= limits.nodes:
        raise InvalidDocument(f"the document has more than {limits.nodes:,} values")


def _read_braced(text: str, limits: Limits, warn: Warn) -> tuple[Any, bool]:
    """Read JSON, or YAML that looks like it: with keys without quotes, comments. Also says whether it is JSON."""
    try:
        return _read_json(text), True
    except InvalidDocument as refusal:
        try:
            return _read_yaml(text, limits, warn), False
        except InvalidDocument:
            raise refusal from None


def _read_json(text: str) -> Any:
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except orjson.JSONDecodeError as error:
        lines = _read_json_lines(text)
        if lines is not None:
            return lines
        refusal = InvalidDocument(f"the document is not valid JSON: {error}")
    try:  # a frequent error in JSON written by hand
        return orjson.loads(_DANGLING_COMMA.sub(r"\1", text).encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        raise refusal from None


def _read_json_lines(text: str) -> list[Any] | None:
    """Read one value per line (jsonlines.org); None if the first line is not JSON.

    Raises:
        InvalidDocument: a later line is not JSON. It is not skipped, because nobody would notice an incomplete file.
    """
    values = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values.append(orjson.loads(line.encode("utf-8", "replace")))
        except orjson.JSONDecodeError as error:
            if not values:
                return None
            raise InvalidDocument(f"line {number} of the document is not valid JSON: {error}") from error
    return values


def _read_yaml(text: str, limits: Limits, warn: Warn) -> Any:
    # libyaml compares each of these with all others before its first event, so no checkpoint interrupts it.
    if len(_TAG_DIRECTIVE.findall(text)) > _MAX_TAG_DIRECTIVES:
        raise InvalidDocument(f"the document has more than {_MAX_TAG_DIRECTIVES} %TAG directives")
    try:
        _measure_yaml(text, limits, YamlRepeats(warn))
        return yaml.load(text, Loader=_Yaml12Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        raise InvalidDocument(f"the document is neither JSON nor valid YAML: {_one_line(error)}") from error
    # A number of 5,000 digits, a list as a key, "? ? ? ?"; and errors that the constructors raise for a text with a tag
    # that does not fit: `!!timestamp x`, `!!bool x`, `!!int ''`.
    except (ValueError, TypeError, RecursionError, ArithmeticError, AttributeError, LookupError) as error:
        raise InvalidDocument(f"the document is YAML that JSON cannot express: {_one_line(error)}") from error


def _measure_yaml(text: str, limits: Limits, repeats: YamlRepeats) -> None:
    """Refuse alias bombs and deep nesting from the events alone, before any node is built. Finds repeated names.

    Counts values and characters as if every alias were expanded: what is built shares them, but an API that is written
    as JSON does not. ``opened`` holds the anchor of each open collection, and the counts at its start.
    """
    values = chars = 0
    opened, sizes = list[tuple[str | None, int, int]](), dict[str, tuple[int, int]]()
    for number, event in enumerate(yaml.parse(text, Loader=_BaseLoader)):
        if number % _CHECK_EVERY == 0:
            checkpoint()
        repeats.see(event)
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values, chars))
            values += 1
            if len(opened) > limits.depth:
                raise InvalidDocument(f"the document is nested more than {limits.depth} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, *before = opened.pop()
            if anchor is not None:
                sizes[anchor] = (values - before[0], chars - before[1])
        elif isinstance(event, yaml.AliasEvent):
            # An alias inside its own anchor is a loop: it has no size yet, and cannot be JSON.
            if event.anchor not in sizes:
                raise InvalidDocument(f"the YAML alias *{event.anchor} is undefined or contains itself")
            values, chars = values + sizes[event.anchor][0], chars + sizes[event.anchor][1]
        elif isinstance(event, yaml.ScalarEvent):
            values, chars = values + 1, chars + len(event.value)
            if event.anchor is not None:
                sizes[event.anchor] = (1, len(event.value))
        _check_expanded(values, chars, limits)


def _check_expanded(values: int, chars: int, limits: Limits) -> None:
    """Raise InvalidDocument if there are too many values or characters once aliases are expanded."""
    for count, most, what in ((values, limits.yaml_nodes, "values"), (chars, limits.document_bytes, "characters")):
        if count > most:
            raise InvalidDocument(f"the document has more than {most:,} {what} once YAML aliases are expanded")


class _Yaml12Loader(_BaseLoader):
    """The safe loader with the core schema of YAML 1.2, section 10.3."""

    # PyYAML looks for it in this class, and would change the base class otherwise.
    yaml_implicit_resolvers = {}  # noqa: RUF012

    def resolve(self, *arguments: Any) -> Any:
        """The tag of a value. Composing nodes is one long call, so the checkpoint is here."""
        checkpoint()
        return super().resolve(*arguments)  # type: ignore[no-untyped-call]

    def construct_object(self, *arguments: Any, **options: Any) -> Any:
        """A value, after a checkpoint."""
        checkpoint()
        return super().construct_object(*arguments, **options)


def _construct_int(loader: Any, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    bases = {"0x": 16, "0o": 8}
    return int(text, bases.get(text[:2], 10))


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    # An empty scalar is looked up under the key "".
    _keys = [character.replace("\0", "") for character in _first]
    _Yaml12Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _keys)
_Yaml12Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Cleaner:
    """Copies parsed values to plain JSON: string keys, finite numbers of 64 bits, no NUL or surrogates in text."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._nodes = 0
        self.members = 0
        """Members of all objects together."""

    def clean(self, value: Any, depth: int) -> JsonValue:
        """Copy one value.

        Raises:
            InvalidDocument: deeper or larger than the limits allow.
        """
        self._nodes += 1
        if self._nodes % _CHECK_EVERY == 0:
            checkpoint()
        if depth > self._limits.depth:
            raise InvalidDocument(f"the document is nested more than {self._limits.depth} levels deep")
        if self._nodes > self._limits.nodes:
            raise InvalidDocument(f"the document has more than {self._limits.nodes:,} values")
        if isinstance(value, str):
            return _clean_text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -_INT64 <= value < _INT64 else self.clean(_to_float(value), depth)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            self.members += len(value)
            return {_clean_key(key): self.clean(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.clean(item, depth + 1) for item in value]
        return _clean_text(str(value))


def _clean_text(text: str) -> str:
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub("\ufffd", text)


def _clean_key(key: Any) -> str:
    if isinstance(key, str):
        return _clean_text(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and not -_INT64 <= key < _INT64:
        return _clean_key(_to_float(key))  # Python does not write integers of thousands of digits
    return "null" if key is None else str(key)


def _to_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
