"""What is kept of a tenant, as it is exported and deleted."""

from typing import Literal

from pydantic import Field, JsonValue

from services.contracts.base import Contract


class ExportLine(Contract):
    """One thing that is kept of a tenant. The last line is `end`: how many there were of each kind."""

    kind: Literal["key", "run", "demo", "document", "api", "audit", "end"]
    data: JsonValue


class TenantDeletion(Contract):
    """What one call deleted. Ask again until `done`."""

    done: bool = Field(description="True: everything that can be deleted is deleted.")
    keys: int = Field(ge=0)
    runs: int = Field(ge=0)
    demos: int = Field(ge=0)
    providers: int = Field(ge=0)
    ending: int = Field(
        ge=0, description="Number of active runs and imports. They end by themselves or were cancelled."
    )
