"""Which outputs of a call are its answer."""

import re
from collections.abc import Sequence

from planner_svc.reading.profile import Field, Profile
from services.contracts.base import JsonPath

MAX_MEMBERS = 12
_COMPUTED = re.compile(r"\b(?:calculated|computed|converted|moved|new|resulting|shifted)\b", re.IGNORECASE)


def answer_of(profile: Profile, said: Sequence[Field] = ()) -> list[tuple[str, JsonPath]]:
    """Names and paths of the outputs that answer, all of what is asked for and little else.

    What is asked for of a list's items is asked of all of them, so the list is given. Where nothing is known to be
    asked for, a guess would leave something out: then it is all that the answer says (:func:`in_full`).

    Args:
        profile: of the API that is called.
        said: fields that are asked for, as far as it is known.
    """
    found: dict[JsonPath, str] = {}
    for field in said or in_full(profile):
        path, name = field.path, field.name
        if 0 in path:
            path = path[: path.index(0)]
            name = next((str(part) for part in reversed(path) if part != "items"), "")
        found.setdefault(path, name)
    outer = {path: name for path, name in found.items() if not any(path[:n] in found for n in range(len(path)))}
    return [(name, path) for path, name in outer.items()] or [("", ())]


def in_full(profile: Profile) -> list[Field]:
    """All that an answer says: none stands for the whole of it.

    Of a read that answers with one list it is the list; of a small answer without lists its members, but for those that
    only say again what was asked with.
    """
    lists = [field for field in profile.fields if "array" in field.kinds and not field.listed]
    if len(lists) == 1 and profile.effect in ("read", "compute"):
        return lists
    members = [field for field in _answering(profile) if len(field.path) == 1 and not field.listed]
    return members if len(members) <= MAX_MEMBERS and not any("array" in one.kinds for one in members) else []


def unused(name: str, taken: set[str]) -> str:
    """The name for an output, numbered where another has it; it is taken from then on."""
    label = next(text for n in range(1, len(taken) + 2) if (text := name if n == 1 else f"{name}_{n}") not in taken)
    taken.add(label)
    return label[:200]


def _answering(profile: Profile) -> list[Field]:
    """The fields of an answer that do not only say again what was asked with."""
    echoed = {slot.name for slot in profile.slots}
    echoed -= {field.name for field in profile.fields if _COMPUTED.search(field.text)}
    return [f for f in profile.fields if f.name not in echoed or f.listed] or list(profile.fields)
