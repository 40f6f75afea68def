"""A demonstration's request without its values, and whether a new request is the same with other values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner_svc.backends.demonstrated.wording import Run, Token
from planner_svc.reading.text import singular

MAX_HOLE: Final = 40
"""Tokens that one value may take."""
_MAX_TRIES: Final = 3_000
_MIN_WORDS: Final = 2

Fits = Callable[[Run, Run], bool]
"""Whether a run of the new request (second) may replace a run of the demonstration (first)."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A demonstration's tokens and the runs of them that are values.

    Attributes:
        tokens: the tokens of its request.
        holes: the runs that are values, in order, without overlaps.
        counted: holes that are numbers. The word after one may be singular or plural.
    """

    tokens: Sequence[Token]
    holes: Sequence[Run]
    counted: frozenset[Run] = frozenset()

    @property
    def is_telling(self) -> bool:
        """Whether enough words outside the holes are left to recognize the request."""
        said = sum(after - first for first, after in self.holes)
        return len(self.tokens) - said >= _MIN_WORDS

    def matches(self, tokens: Sequence[Token], fits: Fits) -> Iterator[Mapping[Run, Run]]:
        """The ways to match a request with the pattern: for each hole, the run that fills it.

        Every word outside the holes must be present, in order. The search stops after a fixed number of tries.
        """
        tries = iter(range(_MAX_TRIES))
        known: dict[tuple[Run, Run], bool] = {}
        starts = {hole[0]: hole for hole in self.holes}

        def filled(mine: int, theirs: int, found: dict[Run, Run]) -> Iterator[dict[Run, Run]]:
            while mine < len(self.tokens) and mine not in starts:
                if theirs >= len(tokens) or not self._is_like(mine, tokens[theirs]):
                    return
                mine, theirs = mine + 1, theirs + 1
            if mine == len(self.tokens):
                if theirs == len(tokens):
                    yield found
                return
            hole = starts[mine]
            for after in range(theirs + 1, min(theirs + MAX_HOLE, len(tokens)) + 1):
                if not self._may_follow(hole[1], tokens, after):
                    continue
                if next(tries, None) is None:
                    return
                key = (hole, (theirs, after))
                if key not in known:
                    known[key] = fits(*key)
                if known[key]:
                    yield from filled(hole[1], after, found | {hole: (theirs, after)})

        yield from filled(0, 0, {})

    def _may_follow(self, mine: int, tokens: Sequence[Token], theirs: int) -> bool:
        """Whether the pattern can continue after a hole."""
        if mine == len(self.tokens):
            return theirs == len(tokens)
        if any(hole[0] == mine for hole in self.holes):  # only a stop separates adjacent holes
            return theirs < len(tokens) and tokens[theirs - 1].stopped == self.tokens[mine - 1].stopped
        return theirs < len(tokens) and self._is_like(mine, tokens[theirs])

    def _is_like(self, mine: int, token: Token) -> bool:
        own = self.tokens[mine]
        if own.key == token.key:
            return own.quoted == token.quoted
        counted = any(hole[1] == mine for hole in self.counted)
        return counted and singular(own.key) == singular(token.key)
