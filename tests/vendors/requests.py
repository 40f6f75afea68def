"""The requests to each vendor, and the vendor's document."""

import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, JsonValue

from evals.data import Call

HERE = Path(__file__).parent
VARIABLE = "NESTOR_TEST_VENDORS"
"""The environment variable that names the folder of the vendors' documents."""


class Asked(BaseModel):
    """A request.

    Attributes:
        ask: the request's text.
        calls: the operations that serve it, with their arguments; ``$var1.id$`` is a field of the first one's answer.
        known: items that the vendor has, by the path where each is read. Items that the calls name exist in any case.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ask: str
    calls: list[dict[str, dict[str, JsonValue]]]
    known: dict[str, dict[str, JsonValue]] = {}

    def gold(self, provider: str) -> list[Call]:
        """The expected calls, with the operations' ids in the catalogue."""
        named = [next(iter(call.items())) for call in self.calls]
        return [Call(api=f"{provider}.{name}", args=dict(arguments)) for name, arguments in named]


class Vendor(BaseModel):
    """A vendor: its document's file and the requests to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    document: str
    requests: list[Asked]

    @property
    def file(self) -> Path | None:
        """The document's path, among ours or in the folder; None if neither has it."""
        places = [HERE / "documents", *(Path(folder) for folder in [os.environ.get(VARIABLE)] if folder)]
        return next((place / self.document for place in places if (place / self.document).is_file()), None)

    @property
    def is_own(self) -> bool:
        """Whether we wrote the document."""
        return (HERE / "documents" / self.document).is_file()


def read_vendors() -> list[Vendor]:
    """All vendors, by name."""
    found = []
    for file in sorted((HERE / "requests").glob("*.yaml")):
        told: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        found.append(Vendor(name=file.stem, **told))
    return found
