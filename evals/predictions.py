"""The calls in the lines that ``nestor eval plan --predictions`` writes, as far as they are read again."""

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
    """The calls, without the one that only names what answers."""
    return [one for one in planned if one.name != RESULT]
