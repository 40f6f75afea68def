"""The format of dates and times that a description states: "Start of the range (YYYY-MM-DDTHH:mm)"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, time
from functools import lru_cache
from typing import Final

from planner_svc.reading.moments import Moment

_DAY: Final = r"(?:yyyy(?P<a>[-/.]?)mm(?P=a)dd|dd(?P<b>[-/.])mm(?P=b)yyyy|mm(?P<c>[-/.])dd(?P=c)yyyy)"
_CLOCK: Final = r"hh:mm(?::ss)?"
_FORMAT: Final = re.compile(
    rf"(?<![\w%])(?:{_DAY}(?:(?:[ T]|'T'){_CLOCK})?|{_CLOCK})(?!'?[\w:+]|[-/.]\w|\s*[ap]\.?m\b)", re.IGNORECASE
)
_NAMES: Final = {"yyyy": "%Y", "dd": "%d", "hh": "%H", "ss": "%S"}
_NAME: Final = re.compile("yyyy|mm|dd|hh|ss", re.IGNORECASE)
_MAX_TEXT: Final = 600
_MAX_FORMATS: Final = 4


@lru_cache(8_192)
def date_formats(description: str) -> tuple[str, ...]:
    """The formats in a parameter's description, for ``strftime``, in their order.

    Formats of 12 hours, and those with fractions of seconds or a zone are left out.
    """
    found = (_as_strftime(match[0].replace("'T'", "T")) for match in _FORMAT.finditer(description[:_MAX_TEXT]))
    return tuple(dict.fromkeys(found))[:_MAX_FORMATS]


def in_stated_format(moment: Moment, formats: Sequence[str]) -> list[str]:
    """The moment in each of these formats, those first that say as much as it does.

    A day in a format with a time is its beginning. A time without a day has only formats without a day. Where the words
    name a zone, a time has none of these formats, which leave it out.
    """
    if moment.clock is not None and moment.zone is not None:
        return []
    found = []
    for form in sorted(formats, key=lambda one: ("%H" in one) != (moment.clock is not None)):
        clock = moment.clock or time()
        if moment.day is not None and "%Y" in form:
            found.append(datetime.combine(moment.day, clock).strftime(form))
        elif moment.clock is not None and "%Y" not in form:
            found.append(clock.strftime(form))
    return found


def is_no_clock(text: str, formats: Sequence[str], moment: Moment | None = None) -> bool:
    """Whether an argument takes only times of day, and the text is none: "8 am - 6 pm", "0800-1730", "Thursday".

    Args:
        text: the text.
        formats: the formats that the argument takes.
        moment: what the text means, if it is a moment.
    """
    if not formats or any("%Y" in form for form in formats) or (moment is not None and moment.clock is not None):
        return False
    if moment is None and not any(map(str.isdigit, text)):
        return False
    return re.fullmatch(r"\d\d?:\d\d(?::\d\d)?", text.strip()) is None


def _as_strftime(stated: str) -> str:
    """``YYYY-MM-DD`` as ``%Y-%m-%d``. ``MM`` after an hour is a minute."""
    seen_hour = False
    parts: list[str] = []
    end = 0
    for match in _NAME.finditer(stated):
        parts.append(stated[end : match.start()].upper())
        name = match[0].lower()
        seen_hour = seen_hour or name == "hh"
        parts.append(_NAMES.get(name, "%M" if seen_hour else "%m"))
        end = match.end()
    return "".join([*parts, stated[end:].upper()])
