"""Which outputs of a call are its answer."""

import re
from collections.abc import Sequence

from planner_svc.reading.profile import Field, Profile
from services.contracts.base import JsonPath

MAX_MEMBERS = 12
_COMPUTED = re.compile(r"\b(?:calculated|computed|converted|moved|new|resulting|shifted)\b", re.IGNORECASE)


def answer_of(profile: Profile, said: Sequence[Field] = ()) -> list[tuple[str, JsonPath]]:
    """Names and paths of the outputs that answer: everything asked for and little else.

    If fields of a list's items are asked for, they are asked for all items, so the whole list is returned. If nothing
    is known to be asked for, choosing would leave something out: then everything in the answer is returned
    (:func:`whole_answer_fields`). Of a change with a small answer more is returned than what is asked for: all but its
    lists, so that one sees what was changed.

    Args:
        profile: profile of the called API.
        said: fields that are asked for, if known.
    """
    found: dict[JsonPath, str] = {}
    for field in (*said, *_changed(profile)) or whole_answer_fields(profile):
        path, name = field.path, field.name
        if 0 in path:
            path = path[: path.index(0)]
            name = next((str(part) for part in reversed(path) if part != "items"), "")
        found.setdefault(path, name)
    outer = {path: name for path, name in found.items() if not any(path[:n] in found for n in range(len(path)))}
    return [(name, path) for path, name in outer.items()] or [("", ())]


def whole_answer_fields(profile: Profile) -> list[Field]:
    """The fields that make up a whole answer; empty if the answer is to be returned as a whole.

    For a read whose answer has one list, this is the list. For a small answer without lists, these are its members,
    except those that repeat the arguments.
    """
    lists = [field for field in profile.fields if "array" in field.kinds and not field.listed]
    if len(lists) == 1 and not _changes(profile):
        return lists
    members = _members(_new_fields(profile))
    return members if len(members) <= MAX_MEMBERS and not any("array" in one.kinds for one in members) else []


def _changed(profile: Profile) -> list[Field]:
    """What tells of a change how the thing is now: the members of a small answer that are no lists."""
    members = _members(profile.fields) if _changes(profile) else []
    return [one for one in members if "array" not in one.kinds] if len(members) <= MAX_MEMBERS else []


def unique_name(name: str, taken: set[str]) -> str:
    """The name for an output, numbered if it is taken; adds it to ``taken``."""
    label = next(text for n in range(1, len(taken) + 2) if (text := name if n == 1 else f"{name}_{n}") not in taken)
    taken.add(label)
    return label[:200]


def _changes(profile: Profile) -> bool:
    return profile.effect not in ("read", "compute")


def _members(fields: Sequence[Field]) -> list[Field]:
    return [field for field in fields if len(field.path) == 1 and not field.listed]


def _new_fields(profile: Profile) -> list[Field]:
    """The fields of an answer that do not just repeat the arguments.

    An object never repeats one: an argument ``properties`` chooses what the object ``properties`` contains.
    """
    arguments = {slot.name for slot in profile.slots}
    echoed = {f.name for f in profile.fields if "object" not in f.kinds} & arguments
    echoed -= {f.name for f in profile.fields if _COMPUTED.search(f.text)}
    return [f for f in profile.fields if f.name not in echoed or f.listed] or list(profile.fields)
