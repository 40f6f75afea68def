"""Events as a page lists them. Plans and values in them may be large, and are not parsed."""

from dataclasses import dataclass

from pydantic import BaseModel

from services.contracts.run import RunStatus


class _Outcome(BaseModel):
    kind: str
    message: str = ""


class _Record(BaseModel):
    step: str
    outcome: _Outcome


class _Step(BaseModel):
    id: str


class _Plan(BaseModel):
    steps: tuple[_Step, ...]


class _Run(BaseModel):
    status: RunStatus
    plan: _Plan | None = None


class _Event(BaseModel):
    kind: str
    step: str = ""
    at_ms: float = 0
    record: _Record | None = None
    run: _Run | None = None


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event with its number."""

    id: int
    event: _Event


def told_event(seq: int, data: str) -> ToldEvent:
    """The event of a row."""
    return ToldEvent(seq, _Event.model_validate_json(data))
