"""The outcomes of a plan's calls, and the record of each step."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from services.contracts.base import Contract


class StoredValue(Contract):
    """A value too large for records. The executor stores it under the hash of its content."""

    id: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the value's JSON; `GET /values/{id}` returns it."
    )
    bytes: int = Field(ge=0, description="Size of the value's JSON.")


class Succeeded(Contract):
    """The call succeeded. `value` is its decoded output, or a preview of it if it is `stored`."""

    kind: Literal["succeeded"] = "succeeded"
    value: JsonValue = None
    status: int | None = None
    stored: StoredValue | None = None
    kept: bool = Field(
        default=True,
        exclude_if=lambda kept: kept,
        description="False if the call changed something, and its run had no room for the answer. Then `value` is the "
        "beginning, and steps that need it fail.",
    )


class ItemChoice(Contract):
    """One of the items that may be meant: the argument it is for, the argument's value, and a label."""

    argument: str
    value: JsonValue = Field(description="Null if it is large, or neither text nor a number.")
    label: str = Field(max_length=200)


class UnmatchedItem(Contract):
    """An item that was used although another may be meant: what was looked up, and a label.

    It does not match the request's words; or, with `unread`, an item that was not read may match them better.
    """

    said: str
    label: str = Field(max_length=200)
    unread: bool = Field(
        default=False,
        description="It was taken from the compared items, but not surely, and the list goes on after them.",
    )


class Failed(Contract):
    """The call failed, or its request could not be built. The upstream's own body is kept as `detail`."""

    kind: Literal["failed"] = "failed"
    reason: Literal[
        "upstream_error",
        "timeout",
        "connection",
        "bad_response",
        "bad_request",
        "refused",
        "credential",
        "reference",
        "ambiguous",
        "unmatched",
        "circuit_open",
        "ledger",
        "changed",
        "overloaded",
        "internal_error",
    ]
    message: str
    status: int | None = None
    detail: JsonValue = None
    choices: tuple[ItemChoice, ...] = Field(
        default=(),
        description="If it is `ambiguous`: items that match the request's words equally well. If it is `unmatched`: "
        "the items that were found; none matches.",
    )


class Skipped(Contract):
    """The call was not made: a step it depends on gave no value, or its condition did not hold."""

    kind: Literal["skipped"] = "skipped"
    because: str = Field(description="The step that prevented it, or `when`, `cancelled`, `item 3`.")


class InDoubt(Contract):
    """The request was sent, and it is unknown whether it took effect. It is never sent again automatically."""

    kind: Literal["in_doubt"] = "in_doubt"
    message: str


StepOutcome = Annotated[Succeeded | Failed | Skipped | InDoubt, Field(discriminator="kind")]


class RequestRecord(Contract):
    """The request as sent, with secrets masked."""

    method: str
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    body: JsonValue = None


class ItemRecord(Contract):
    """The outcome of one element of a `foreach`; `index` counts from 0."""

    index: int = Field(ge=0)
    outcome: StepOutcome
    request: RequestRecord | None = Field(default=None, description="Kept if the item did not succeed.")


class StepRecord(Contract):
    """What one step did. Times are milliseconds since the run began."""

    step: str
    api: str
    requests: tuple[RequestRecord, ...] = Field(
        default=(), description="The request; with `foreach`, one for each item."
    )
    outcome: StepOutcome
    started_ms: float = Field(ge=0)
    duration_ms: float = Field(ge=0)
    attempts: int = Field(default=1, ge=0)
    items: tuple[ItemRecord, ...] = Field(
        default=(), description="With `foreach`: each item's outcome. Values of items that succeeded are in `outcome`."
    )
    pages: int = Field(default=1, ge=0, description="How many pages of a list were fetched.")
    more: bool = Field(
        default=False,
        description="Whether the list has more pages than were fetched, or an answer was only a part (206).",
    )
    violations: tuple[str, ...] = Field(
        default=(), description="Where the answer does not match the API's schema: paths and rules, without values."
    )
    recovered: bool = Field(default=False, description="The outcome was read from the ledger after a crash.")
    secrets: tuple[str, ...] = Field(
        default=(), description="Names of the secrets that its calls used, or were about to use."
    )
