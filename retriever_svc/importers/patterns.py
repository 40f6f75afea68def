"""The regular expressions of one document that a validator can use.

Compiling one takes as long as reading a thousand values, and a short document may have thousands. So each counts as
steps of the document, and those that are too large to compile quickly are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jsonschema_rs

from services.patterns import REGEX_BYTES, compile_steps

_MAX_PATTERN = 1_000
_SIZES = 3
"""How much larger a pattern may be than those that answers are checked against: `^.{1,256}$` is a common one."""
_MAX_STEPS = 150_000
"""Most steps of one pattern, about a hundred escapes. A larger one is ignored, so that the document can be read."""
_KEPT = 64
"""Compiled patterns that are cached: those of one document repeat."""


class Patterns:
    """Reads the patterns of one document.

    Args:
        count_steps: counts steps; raises an error if the document takes too many.
    """

    def __init__(self, count_steps: Callable[[int], None]) -> None:
        self._count_steps = count_steps
        self._usable: dict[str, bool] = {}
        self._compiled: dict[str, jsonschema_rs.Draft202012Validator | None] = {}
        self._allowed: dict[tuple[str, ...], bool] = {}

    def usable(self, pattern: str) -> bool:
        """Whether a validator can compile this regular expression quickly."""
        if len(pattern) > _MAX_PATTERN or (steps := _SIZES * compile_steps(pattern)) > _MAX_STEPS:
            return False
        if pattern not in self._usable:
            self._count_steps(steps)
            options = jsonschema_rs.FancyRegexOptions(size_limit=_SIZES * REGEX_BYTES)
            self._usable[pattern] = _validator(pattern, options) is not None
        return self._usable[pattern]

    def allow(self, pattern: str, examples: Sequence[str]) -> bool:
        """Whether a pattern is usable and matches one of the author's examples, if there are any.

        A pattern with too much escaping matches none of them, and would allow nothing.
        """
        if not self.usable(pattern):
            return False
        key = (pattern, *examples)
        if examples and key not in self._allowed:
            self._count_steps(1 + sum(map(len, examples)))
            validator = self._linear(pattern)
            self._allowed[key] = validator is None or any(map(validator.is_valid, examples))
        return self._allowed.get(key, True)

    def _linear(self, pattern: str) -> jsonschema_rs.Draft202012Validator | None:
        """A validator that takes linear time. None: the pattern cannot be compiled so, such as one with look-around."""
        if pattern not in self._compiled:
            self._count_steps(compile_steps(pattern))
            if len(self._compiled) >= _KEPT:
                self._compiled.clear()
            self._compiled[pattern] = _validator(pattern, jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES))
        return self._compiled[pattern]


def _validator(
    pattern: str, options: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
) -> jsonschema_rs.Draft202012Validator | None:
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError):
        return None
