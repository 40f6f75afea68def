"""The references that plans of given APIs can hold, as one regular expression.

It is for JSON Schema's ``pattern``, which servers read in two ways: against the text's value, or against its JSON form.
So it never matches a quote, a backslash or a control character, which differ between both. It uses only what all
converters of patterns support: groups, alternatives, classes and repetitions.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from services.codecs.text import format_path
from services.compute import checkpoint, with_checkpoints
from services.contracts.api import Api

MAX_PATTERN: Final = 8_000
"""Most characters of a pattern that lists fields: servers compile it for every request."""
ANY_REFERENCE: Final = r'^\$(@|var[1-9][0-9]?)[^"$\\]*\$$'
_INDEX: Final = r"\[([0-9]{1,4}|\*)\]"
"""One item of a list, or every item."""
_OPEN: Final = r'([.\[][^"$\\]*)?'
"""What follows a value of which not all fields are known."""
_MAX_DEPTH: Final = 6
_MAX_WALKED: Final = 400
"""Most values of one answer whose fields are listed. An answer's fields also end with a pattern's characters: levels
below that could not be listed anyway."""

_Path = tuple[str, ...]
"""A regular expression for each part of a path in an answer."""


def reference_pattern(apis: Sequence[Api], *, loops: bool) -> str:
    """The pattern of references to whole answers of these APIs, and to fields that exist in some answer.

    If there are too many fields, only the outer levels are listed, and below them any name passes. With too many even
    there it is :data:`ANY_REFERENCE`.

    Args:
        apis: the APIs that a plan may call.
        loops: whether calls may loop over a list: then ``$@.field$`` is an item's field, and an answer may be a list.
    """
    schemas = Schemas()
    paths = list(dict.fromkeys(path for api in apis for path in _paths(api, schemas)))
    for depth in with_checkpoints(range(_MAX_DEPTH, 0, -1)):
        pattern = _pattern([path if len(path) <= depth else (*path[:depth], _OPEN) for path in paths], loops)
        if len(pattern) <= MAX_PATTERN:
            return pattern
    return ANY_REFERENCE


def _pattern(paths: Sequence[_Path], loops: bool) -> str:
    label = "var[1-9][0-9]?"
    references = f"{label}{f'({_INDEX})?' if loops else ''}{_one_of(paths)}"
    if loops:
        items = [path[at + 1 :] for path in paths for at, part in enumerate(path) if part == _INDEX]
        references = f"({references}|@{_one_of([*paths, *items])})"
    return rf"^\${references}\$$"


def _one_of(paths: Iterable[_Path]) -> str:
    """One of the paths, or none: the whole answer. What an open path matches too is left out."""
    found = set(with_checkpoints(paths))
    if (_OPEN,) in found:
        return _OPEN
    opened = {path[:-1] for path in found if path[-1:] == (_OPEN,)}
    closed = {path for path in found if path[-1:] != (_OPEN,)}
    kept = [(*path, _OPEN) for path in opened if not any(path[:at] in opened for at in range(len(path)))]
    kept += [path for path in closed if path and not any(path[:at] in opened for at in range(len(path) + 1))]
    return f"({'|'.join(sorted(map(''.join, kept)))})?" if kept else ""


def _paths(api: Api, schemas: Schemas) -> Iterator[_Path]:
    """The paths in an answer. One that leads to fields that are not listed matches them, whatever their names."""
    waiting: deque[tuple[_Path, Node]] = deque([((), Node(api.response.json_schema, api.definitions))])
    walked = chars = 0
    while waiting:
        checkpoint()
        path, node = waiting.popleft()
        walked += 1
        if walked > _MAX_WALKED or schemas.is_anything(node):
            yield (*path, _OPEN)
            continue
        kinds = schemas.kinds(node)
        deep = (len(path) >= _MAX_DEPTH or chars > MAX_PATTERN) and kinds & {"array", "object"}
        others = schemas.child(node, "", strict=True) if "object" in kinds else None
        if deep or isinstance(others, Node):
            yield (*path, _OPEN)
            continue
        yield path
        item = schemas.child(node, 0, strict=False) if "array" in kinds else None
        if isinstance(item, Node):
            waiting.append(((*path, _INDEX), item))
        for name, child in schemas.properties(node).items():
            if re.search(r'["\x00-\x1F]', written := format_path((name,))) is None:
                waiting.append(((*path, re.sub(r"[\^.*+?()\[\]{}|]", r"\\\g<0>", written)), child))
                chars += sum(map(len, waiting[-1][0]))
