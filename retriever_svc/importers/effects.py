"""Whether a call changes something, for operations whose wording contradicts their method.

The method decides (RFC 9110, section 9.2.1) unless the wording is clear: ``GET /accounts/delete`` is not a read. The
operator's list takes precedence over both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from services.contracts.api import Effect, effect_of

_CHANGES = frozenset(
    re.findall(
        r"\S+",
        "activate approve cancel deactivate delete destroy disable enable erase publish purge reject remove rename "
        "reset restart restore revoke send start stop suspend terminate unsubscribe update void wipe",
    )
)
"""Words that are nearly always verbs; `archive`, `set` or `transfer` are nouns as often."""
_PLACES = frozenset(["start", "stop"])
"""Verbs that, as a whole segment, may also name a thing: the start of a journey, a bus stop."""
_MAY_CHANGE = frozenset(["add", "create", "drop", "edit", "insert", "modify"])
"""Verbs that may also describe a computation: adding days to a date, creating a slug or a QR code."""
_READS = frozenset(["find", "get", "list", "lookup", "query", "read", "search"])
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def read_effect(
    api_id: str, method: str, path: str, name: str, summary: str, overrides: Mapping[str, Effect]
) -> tuple[Effect | None, str]:
    """The effect if it differs from the method's, else None; and a warning if it is doubtful, else an empty text.

    A path that ends with a verb (``/delete``, ``/deleteUser``) is sufficient. Otherwise two of these must begin with
    one: the last segment (``/add-ons``), the name, the summary. Verbs that may describe a computation make it doubtful.

    Args:
        api_id: the id that the patterns of ``overrides`` are matched with; the first match decides.
        method: the HTTP method in capitals.
        path: the operation's path.
        name: its ``operationId``; empty if it has none.
        summary: the operation's summary.
        overrides: effects by shell patterns over ids.
    """
    usual = effect_of(method)
    for pattern, effect in overrides.items():
        if fnmatchcase(api_id, pattern):
            return (None if effect == usual else effect), ""
    last = next((part for part in reversed(re.split(r"[/:]", path.partition("?")[0])) if part and "{" not in part), "")
    summed_up = _first(summary)
    said = [_first(last), _first(name), summed_up.removesuffix("s") if summed_up not in _CHANGES else summed_up]
    if usual == "change":
        doubtful = method == "POST" and said[0] in _READS
        return None, "its path suggests that it only reads; it counts as a change" if doubtful else ""
    verbs = [word for word in said if word in _CHANGES or word in _MAY_CHANGE]
    if not verbs:
        return None, ""
    is_phrase = last[len(said[0]) : len(said[0]) + 1].isupper()
    path_says = said[0] in _CHANGES and (is_phrase or last.lower() in _CHANGES - _PLACES)
    if _CHANGES.issuperset(verbs) and (path_says or len(verbs) > 1):
        return "change", f"{method} suggests a read, its wording ({verbs[0]}) a change; it counts as a change"
    return None, f"its wording ({verbs[0]}) may mean a change; it counts as a read because of {method}"


def _first(text: str) -> str:
    """The first word in lower case."""
    return match[0].lower() if (match := _WORD.search(text[:200])) else ""
