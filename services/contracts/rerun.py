"""Running the plan of an earlier run again."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints

from services.contracts.base import Contract, StepId
from services.contracts.start import StartOptions

ArgumentName = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class RerunRequest(Contract):
    """Run the plan of an earlier run again, from a given step, with other inputs. The earlier run does not change."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    from_step: StepId | None = Field(
        default=None, alias="from", description="The first step to repeat; unset: all steps."
    )
    inputs: dict[StepId, dict[ArgumentName, JsonValue]] = Field(
        default_factory=dict,
        max_length=1_000,
        description="New values of arguments, by step. These steps are repeated.",
        examples=[{"var2": {"order_id": "ord_7"}}],
    )
    reuse: bool = Field(
        default=True,
        description="False: repeat calls that only read. Results of changes are always taken from the earlier run, so "
        "that no change is made twice.",
    )
    options: StartOptions = StartOptions()
    wait: bool = Field(default=True, description="False: answer 202 immediately; follow the run under its id.")


class ResentStep(Contract):
    """A step that a rerun makes again."""

    step: str
    api: str
    mutating: bool = Field(description="It may change something.")
    outcome: Literal["succeeded", "failed", "skipped", "in_doubt"] | None = Field(
        description="Its outcome in the earlier run; null: it was not reached, or the outcome is not known."
    )
    succeeded: int = Field(default=0, ge=0, description="Number of its calls that succeeded in the earlier run.")
    edited: tuple[str, ...] = Field(default=(), description="Arguments that have a new value.")


class ReusedStep(Contract):
    """A step that a rerun does not make again: its result from an earlier run is used."""

    step: str
    api: str
    mutating: bool = Field(description="It has changed something.")
    run: str = Field(description="The run that made it.")
