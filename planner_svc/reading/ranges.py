"""Both ends of a range of dates: "from 1 May to 3 June 2027"."""

import re
from dataclasses import replace

from dateutil.relativedelta import relativedelta

from planner_svc.reading.calendar_words import MONTH, RANGE, YEAR
from planner_svc.reading.moments import Found, Moment


def same_year(text: str, found: list[Found]) -> list[Found]:
    """Apply a range's year to both ends: in "from 1 May to 3 June 2027" both days are in 2027."""
    result = list(found)
    for index in range(len(result) - 2, -1, -1):
        first, second = result[index], result[index + 1]
        one, two = first.value, second.value
        if not (isinstance(one, Moment) and isinstance(two, Moment) and one.day and two.day):
            continue
        said = [re.search(YEAR, text[f.start : f.end]) is not None for f in (first, second)]
        if said == [False, True] and re.search(MONTH, text[first.start : first.end], re.IGNORECASE):
            shifted = _in_year(one, two.day.year)
            if shifted.day and shifted.day <= two.day and re.fullmatch(RANGE, text[first.end : second.start]):
                result[index] = replace(first, value=shifted)
    return result


def _in_year(moment: Moment, year: int) -> Moment:
    by = relativedelta(year=year)
    return replace(moment, day=moment.day and moment.day + by, last=moment.last and moment.last + by)
