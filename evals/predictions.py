"""Reads the calls from the lines that ``nestor eval plan --predictions`` writes."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, JsonValue

from services.codecs.calls import RESULT


class Planned(BaseModel):
    """A call in NESTFUL's notation."""

    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, JsonValue] = {}
    label: str | None = None


def without_answer(planned: Iterable[Planned]) -> list[Planned]:
    """The calls, without the last one that only names the answer."""
    return [one for one in planned if one.name != RESULT]
