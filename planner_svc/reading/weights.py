"""Numbers that were set by hand: how much each sign counts where values are read and answers are chosen.

All were set on the sandbox's development questions (``tests/e2e/questions_dev.jsonl``) and are fitted to nothing. They
are compared with one another, within each group; none is a probability.
"""

from collections.abc import Mapping
from typing import Final

# Which field of a call's answer says what is asked (:mod:`planner_svc.reading.answers`): about -0.3 to 1.

MEANING: Final = 0.5
"""The field's text is like the question's words, less the values that the call was given; by the encoder's cosine."""
FOCUS: Final = 0.3
"""The field's name is what stands behind the question word."""
SAID: Final = 0.15
"""The field's name is anywhere in the question."""
ABOUT: Final = 0.2
"""What stands behind the question word is in the field's name or description."""
KNOWN_BY: Final = 0.22
"""The thing itself is asked for, and the field is its name or what it is known by."""
CODE_KNOWN_BY: Final = 0.3
"""The thing's code is asked for, and the field is the first of the thing."""
PAGING: Final = -0.3
"""The field tells of pages, and no number is asked for."""
WHOLE_OBJECT: Final = -0.1
"""The field is an object: what is in it says more exactly what is asked for."""
ONE_OF_MANY: Final = -0.1
"""The field is in a list's items, is no list itself, and several things are asked for."""
MANY_FOR_ONE: Final = -0.15
"""The field is a list, and one thing is asked for."""
DEPTH: Final = -0.01
"""For each part of the field's path: of fields that are alike the outer one is meant."""
TYPES: Final[Mapping[str, float]] = {
    "when": 0.25,
    "time": 0.3,
    "number": 0.25,
    "truth": 0.3,
    "where": 0.2,
    "who": 0.2,
    "thing": 0.0,
}
"""The field is of the type that the question word asks for."""
OTHER_TYPES: Final[Mapping[str, float]] = {"number": -0.1, "thing": -0.1}
"""It is not, or says yes or no where a thing is asked for."""

MARGIN: Final = 0.14
"""Fields so much below the best one answer as well."""
NAMED_MARGIN: Final = 0.25
"""The same, of fields that the question names."""
STANDS_OUT: Final = 0.25
"""Below that, no field stands out: the first few are all given."""

# How well a moment's forms say what was said (:mod:`planner_svc.reading.renderings`): 0 to 1.

EXACT_TIME: Final = 0.8
"""A day with a time, with or without an offset as it was said."""
OTHER_TIME: Final = 0.75
"""The same, the other way."""
TIME_ALONE: Final = 0.7
"""A time of no day."""
EXACT_DAY: Final = 0.75
"""A day, a month or a year, where just that was said."""
DAY_OF_TIME: Final = 0.5
"""The day alone, where a time was said, too."""
END_OF_RANGE: Final = 0.6
"""The first or last day of a longer time, where the argument is one end of a range."""
DAY_OF_RANGE: Final = 0.25
"""The same, where it is none."""
MIDNIGHT: Final = -0.25
"""A day written with a time that nobody said."""

# Which open argument a value is for that a plan leaves out (:mod:`planner_svc.proving.leftovers`). A word of its name
# beside the value counts 1.

IN_BODY: Final = 0.5
"""It is in the body, not in the path, the query or a header."""
QUOTED_TEXT: Final = 0.5
"""The value stands in quotation marks, and the argument is a text."""
CALLED_TEXT: Final = 0.5
"""The argument's name says that it takes any text, such as "comment"."""
REQUIRED: Final = 0.25
