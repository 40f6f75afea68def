"""The events of a run while it is in progress."""

from typing import Annotated, Literal

from pydantic import Field

from services.contracts.base import Contract
from services.contracts.execution import StepFinished, StepStarted
from services.contracts.run import Run


class RunPlanned(Contract):
    """A plan is ready, and none of its calls has been sent yet. A later plan replaces an earlier one."""

    kind: Literal["planned"] = "planned"
    run: Run


class RunFinished(Contract):
    """The run has reached a final state."""

    kind: Literal["finished"] = "finished"
    run: Run


SolveEvent = Annotated[RunPlanned | StepStarted | StepFinished | RunFinished, Field(discriminator="kind")]


class RunEvent(Contract):
    """An event of a run with its number. A stream of server-sent events is resumed by it (`Last-Event-ID`)."""

    id: int = Field(ge=1)
    event: SolveEvent
