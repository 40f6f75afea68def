"""Export and deletion of a tenant's data."""

from typing import Literal

from pydantic import Field, JsonValue

from services.contracts.base import Contract


class ExportLine(Contract):
    """One stored object of a tenant. The last line is `end`, with the number of objects of each kind."""

    kind: Literal["key", "run", "demo", "document", "api", "audit", "end"]
    data: JsonValue


class TenantDeletion(Contract):
    """What one call deleted. Repeat the call until `done`."""

    done: bool = Field(description="True: everything that can be deleted is deleted.")
    keys: int = Field(ge=0)
    runs: int = Field(ge=0)
    demos: int = Field(ge=0)
    providers: int = Field(ge=0)
    ending: int = Field(
        ge=0, description="Number of active runs and imports. They end by themselves or were cancelled."
    )
