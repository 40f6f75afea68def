"""Reads the calls from the lines that ``nestor eval plan --predictions`` writes."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from services.codecs.calls import RESULT

_ITEM = "$@"


class Loop(BaseModel):
    """The list for each item of which a call is made."""

    items: str


class Planned(BaseModel):
    """A call in NESTFUL's notation. Fields of a loop's item are read as solutions write them: ``$var1.list.*.id$``."""

    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, JsonValue] = {}
    label: str | None = None
    foreach: Loop | None = None

    @model_validator(mode="after")
    def _in_full(self) -> Planned:
        if self.foreach is not None:
            every = f"{self.foreach.items.rstrip('$')}.*"
            self.arguments = {name: _in_list(value, every) for name, value in self.arguments.items()}
        return self


def _in_list(value: JsonValue, every: str) -> JsonValue:
    if isinstance(value, dict):
        return {name: _in_list(one, every) for name, one in value.items()}
    if isinstance(value, list):
        return [_in_list(one, every) for one in value]
    return value.replace(_ITEM, every, 1) if isinstance(value, str) and value.startswith(_ITEM) else value


def without_answer(planned: Iterable[Planned]) -> list[Planned]:
    """The calls, without the last one that only names the answer."""
    return [one for one in planned if one.name != RESULT]
