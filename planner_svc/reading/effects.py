"""What an operation does: reads, computes, creates, changes or removes."""

from typing import Literal

from planner_svc.reading.text import split_name, word_set
from services.contracts.api import Api

Effect = Literal["read", "compute", "create", "change", "destroy"]
_COMPUTE = word_set(
    """
    analyze analyse calculate check classify compare compute convert count detect diff estimate evaluate extract
    find fit format geocode list lookup match parse predict preview query rank read render score search simulate
    suggest summarize summarise tokenize translate validate verify
    """
)
_DESTROY = word_set("cancel clear delete destroy drop erase purge remove revoke terminate unsubscribe void")
_CHANGE = word_set("change edit modify move patch rename replace reschedule set update")


def effect_of(api: Api) -> Effect:
    """The effect of a call, by its method and the verb of its name."""
    if not api.mutating:
        return "read"
    verbs = set(split_name(api.name)[:1]) | set(split_name(api.path.rsplit("/", 1)[-1]))
    if api.method == "DELETE" or verbs & _DESTROY:
        return "destroy"
    if verbs & _COMPUTE and api.method == "POST":
        return "compute"
    return "change" if api.method in ("PATCH", "PUT") or verbs & _CHANGE else "create"
