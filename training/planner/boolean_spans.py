"""Finds the words of a request that make a boolean true or false: "shared", "no pets", "including archived ones"."""

from __future__ import annotations

from planner_svc.reading.profile import Slot
from planner_svc.reading.text import STOP, Word, stem_set
from training.planner.clauses import Clause

_EMPTY = stem_set("is has only include with whether flag indicate true false boolean option if set user specify value")
_DENIALS = frozenset({"no", "not", "un", "without", "never", "exclude", "excluding", "except", "disable", "skip"})
_REACH = 3


def boolean_span(
    slot: Slot, words: list[Word], value: bool, clause: Clause | None, title: frozenset[str] = frozenset()
) -> Clause | None:
    """The characters that state a boolean, including a negation; None if there are none.

    Args:
        slot: the argument.
        words: of the request.
        value: the value that they should state.
        clause: the part that asks for its call; words in it take precedence.
        title: stems of the API's title. They occur whatever the value is: "a ride" is not a "shared ride".
    """
    named = frozenset(slot.words) - _EMPTY - title or frozenset(slot.words) - _EMPTY
    hits = [word for word in words if word.stem in named and word.text.lower() not in STOP]
    hits = hits or [
        w for w in words if w.stem in slot.about - _EMPTY and w.text.lower() not in STOP and len(w.text) > 4
    ]
    inside = [word for word in hits if clause is not None and clause[0] <= word.start < clause[1]]
    for word in inside or hits:
        at = words.index(word)
        before = words[max(at - _REACH, 0) : at]
        denial = next((w for w in before if w.text.lower() in _DENIALS or w.text.lower().endswith("n't")), None)
        if (denial is None) == value:
            return (denial or word).start, word.end
    return None
