"""The literals of a demonstration's plan, and the arguments that contain them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from planner_svc.reading.profile import Profile, Slot

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A literal of a plan: a text, a number, or a list of these.

    Attributes:
        path: where it is in the plan as JSON.
        step: index of its step, from 0.
        slot: its argument, or the member of one; None if the API has no such argument.
        profile: the API's profile.
    """

    path: Path
    value: JsonValue
    step: int
    slot: Slot | None
    profile: Profile

    @property
    def values(self) -> list[JsonValue]:
        """The items of the literal if it is a list, otherwise the literal alone."""
        return self.value if isinstance(self.value, list) else [self.value]

    def accepts(self, value: JsonValue) -> bool:
        """Whether the schema allows the value; True if there is no schema."""
        return self.slot is None or self.profile.schemas.problem(self.slot.node, value) is None


def leaves(plan: Mapping[str, Any], profiles: Mapping[str, Profile]) -> Iterator[Leaf]:
    """The literals of a plan, given as JSON: in arguments, loops and conditions."""
    for index, step in enumerate(plan["steps"]):
        profile = profiles[step["api"]]
        slots = {slot.name: slot for slot in profile.slots}
        path: Path = ("steps", index)
        for name, value in step["arguments"].items():
            yield from _in_value(value, (*path, "arguments", name), index, slots.get(name), profile)
        if step["foreach"] is not None:
            yield from _in_value(step["foreach"]["items"], (*path, "foreach", "items"), index, None, profile)
        if step["when"] is not None:
            for side in ("left", "right"):
                yield from _in_value(step["when"][side], (*path, "when", side), index, None, profile)


def _in_value(value: Mapping[str, Any], path: Path, step: int, slot: Slot | None, profile: Profile) -> Iterator[Leaf]:
    if value["kind"] == "literal":
        yield from _in_literal(value["value"], (*path, "value"), step, slot, profile)
    elif value["kind"] == "list":
        for index, item in enumerate(value["items"]):
            yield from _in_value(item, (*path, "items", index), step, slot, profile)
    elif value["kind"] == "object":
        members = {child.name: child for child in slot.children} if slot is not None else {}
        for name, member in value["fields"].items():
            yield from _in_value(member, (*path, "fields", name), step, members.get(name), profile)


def _in_literal(value: JsonValue, path: Path, step: int, slot: Slot | None, profile: Profile) -> Iterator[Leaf]:
    if isinstance(value, dict):
        members = {child.name: child for child in slot.children} if slot is not None else {}
        for name, member in value.items():
            yield from _in_literal(member, (*path, name), step, members.get(name), profile)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from _in_literal(item, (*path, index), step, slot, profile)
    else:
        yield Leaf(path, value, step, slot, profile)
