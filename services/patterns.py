r"""An upper bound on the time to compile an untrusted regular expression, computed from its text.

A limit on the size of the compiled form bounds most of the time, but not the time to parse the text: the validator
expands ``\s`` and similar classes one after the other, which takes quadratic time in their number.
"""

from typing import Final

REGEX_BYTES: Final = 100_000
"""The size limit of the compiled form that :func:`compile_steps` assumes."""


def compile_steps(pattern: str) -> int:
    """Upper bound on the compile time in microseconds, measured and rounded up."""
    return 1_000 + len(pattern) + 4 * pattern.count("\\") ** 2
