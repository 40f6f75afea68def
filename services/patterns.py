r"""What a regular expression that somebody else wrote may cost to compile, bounded from its text alone.

A limit on the size of the compiled form bounds most of the time, but not that of reading the text: the validator puts
in what ``\s`` and its like mean one after the other, which takes time in proportion to the square of their number.
"""

from typing import Final

REGEX_BYTES: Final = 100_000
"""The limit on the size of the compiled form for which :func:`compile_steps` is a bound."""


def compile_steps(pattern: str) -> int:
    """How many microseconds it takes to compile at most, measured and rounded up."""
    return 1_000 + len(pattern) + 4 * pattern.count("\\") ** 2
