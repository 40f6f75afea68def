"""Constants of a provider: values such as an account or a version, set once and sent with every call."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from services.contracts.base import Contract

MAX_CONSTANTS: Final = 50
"""Constants of one provider."""

ConstantName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
ConstantValue = Annotated[str, StringConstraints(min_length=1, max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]*$")]


class ConstantsRequest(Contract):
    """Which constants of a provider to set, and which to remove; all others stay."""

    constants: dict[ConstantName, ConstantValue | None] = Field(
        min_length=1,
        max_length=MAX_CONSTANTS,
        description="By the parameter's name in the document; names of headers are case-insensitive. The text is "
        "converted to the parameter's type. null removes the constant.",
        examples=[{"Notion-Version": "2022-06-28", "workspace_id": None}],
    )


class Constant(Contract):
    """A value that is sent in every call that accepts it, unless the request names another."""

    name: str
    value: str
    operations: int = Field(ge=0, description="Number of the provider's operations that are called with it.")


class ProviderConstants(Contract):
    """The constants of a provider, in order of their names."""

    provider: str
    constants: tuple[Constant, ...] = ()
    catalogue_version: int = Field(ge=0)
