"""Which words can be one value: not across the edge of a quotation or sentence, no part of a code, no end of a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from planner_svc.backends.compact.inputs import Floats
from planner_svc.backends.compact.surface_features import codes, quotations, sentence_ends

ACROSS: Final = 0.02
"""Factor for words that cross an edge."""
WITHIN: Final = 0.3
"""Factor for a part of a quotation."""
_IN_WORD: Final = re.compile(r"[A-Za-z]{2}")


def plausible(query: str, offsets: Sequence[tuple[int, int]]) -> Floats:
    """(t, t): how plausible it is, from 0 to 1, that a value goes from one token to another.

    No code is split, and no value starts within a word.

    Args:
        query: the request.
        offsets: start and end characters of each token. Both are equal for special tokens, which are never words.
    """
    starts, ends = (np.asarray(side) for side in zip(*offsets, strict=True))
    real = (ends > starts).astype(np.float32)
    found = np.outer(real, real)
    for at in sentence_ends(query):
        found[np.ix_(starts < at, ends > at)] *= ACROSS
    for start, end in quotations(query):
        inside_first, inside_last = (starts >= start) & (starts < end), (ends > start) & (ends <= end)
        found[np.ix_(inside_first, ~inside_last & (ends > end))] *= ACROSS
        found[np.ix_(~inside_first & (starts < start), inside_last)] *= ACROSS
        whole_first, whole_last = starts == start, ends == end
        part = np.outer(inside_first, inside_last) & ~np.outer(whole_first, whole_last)
        found[part] *= WITHIN
    within = [bool(_IN_WORD.match(query, max(start - 1, 0))) and start > 0 for start in starts.tolist()]
    found[within] = 0
    for start, end in codes(query):
        found[(starts > start) & (starts < end)] = 0
        found[:, (ends > start) & (ends < end)] = 0
    return found
