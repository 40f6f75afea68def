"""How a value is written, if the request writes it differently: "sore throat" as "Sore throat", 8 pm as "20:00:00".

The network predicts the form of each parameter; the words come from the request. Numbers have their own forms: 300 as
300.0, 5 percent as 0.05.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import IntEnum
from typing import Final

from planner_svc.reading.moments import Moment
from planner_svc.reading.readings import moment_of, number_in
from planner_svc.reading.text import singular


class Form(IntEnum):
    """A transformation of the request's words."""

    COPY = 0
    CAPITAL = 1
    TITLE = 2
    LOWER = 3
    UPPER = 4
    SINGULAR = 5
    CAPITAL_SINGULAR = 6
    LISTED = 7
    CAPITAL_LISTED = 8
    NUMBER = 9
    DAY = 10
    CLOCK = 11
    CLOCK_SECONDS = 12
    MOMENT = 13
    MOMENT_SECONDS = 14
    MOMENT_ISO = 15
    WITHOUT_ARTICLE = 16
    DECIMAL = 17
    SHARE = 18


_AND: Final = re.compile(r"(?:,\s++|(?<!\s)\s++)(?:and|or)\s++")
_ARTICLE: Final = re.compile(r"^(?:the|a|an|my|our|your|his|her|their)\s+", re.IGNORECASE)
_CLOCKS: Final = {Form.CLOCK: "%H:%M", Form.CLOCK_SECONDS: "%H:%M:%S"}
_MOMENTS: Final = {
    Form.MOMENT: "%Y-%m-%d %H:%M",
    Form.MOMENT_SECONDS: "%Y-%m-%d %H:%M:%S",
    Form.MOMENT_ISO: "%Y-%m-%dT%H:%M:%S",
}
OF_TIME: Final = frozenset({Form.DAY, *_CLOCKS, *_MOMENTS})


def written(form: Form, text: str, now: datetime, moment: Moment | None = None, *, last: bool = False) -> str | None:
    """The words in the given form; None if they have no such form.

    Args:
        form: the form.
        text: words of the request.
        now: the clock that relative dates refer to.
        moment: the moment that the words say in their context, if known.
        last: write the last day of a period, otherwise its first.
    """
    if form in OF_TIME:
        moment = moment or moment_of(text, now)
        return None if moment is None else _moment(form, moment.last_day() if last else moment)
    if form is Form.NUMBER:
        counted = number_in(text)
        return None if counted is None else str(counted)
    return _worded(form, text)


def form_of(text: str, value: str, now: datetime) -> Form | None:
    """The first form that turns the words into the value; None if no form does."""
    return next((form for form in Form if written(form, text, now) == value), None)


def number_written(form: Form, value: int | float) -> int | float:
    """A number in the given form; unchanged if the form is not one of numbers."""
    if form is Form.SHARE:
        return value / 100
    return float(value) if form is Form.DECIMAL else value


def number_form_of(text: str, value: int | float) -> Form | None:
    """The form that turns the words into the number; None if no form does."""
    said = number_in(text)
    if said is None:
        return None
    for form in (Form.COPY, Form.DECIMAL, Form.SHARE):
        made = number_written(form, said)
        if made == value and (isinstance(made, float) == isinstance(value, float) or form is Form.SHARE):
            return form
    return None


def _worded(form: Form, text: str) -> str | None:
    match form:
        case Form.COPY:
            return text
        case Form.CAPITAL:
            return text[:1].upper() + text[1:]
        case Form.TITLE:
            return re.sub(r"(?<![\w'])[^\W\d_]", lambda letter: letter[0].upper(), text)
        case Form.LOWER:
            return text.lower()
        case Form.UPPER:
            return text.upper()
        case Form.SINGULAR:
            return _singular(text)
        case Form.CAPITAL_SINGULAR:
            return _worded(Form.CAPITAL, _singular(text))
        case Form.LISTED:
            return _AND.sub(", ", text)
        case Form.CAPITAL_LISTED:
            return ", ".join(part[:1].upper() + part[1:] for part in _AND.sub(", ", text).split(", "))
        case Form.WITHOUT_ARTICLE:
            return _ARTICLE.sub("", text)
        case _:
            return None


def _singular(text: str) -> str:
    """The text with its last word in the singular."""
    head, space, last = text.rpartition(" ")
    return head + space + singular(last)


def _moment(form: Form, moment: Moment) -> str | None:
    if form is Form.DAY:
        return moment.day.isoformat() if moment.day is not None else None
    if form in _CLOCKS:
        return moment.clock.strftime(_CLOCKS[form]) if moment.clock is not None else None
    if moment.day is None or moment.clock is None:
        return None
    return datetime.combine(moment.day, moment.clock).strftime(_MOMENTS[form])
