"""The APIs that the corpus uses: vendors' own documents, and those of invented company systems.

Vendors' documents are read from a path and not stored here; ``vendors.json`` names them. The invented systems are
OpenAPI documents in ``systems/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from evals.data import DataError
from planner_svc.backends.served.signatures import FULL, call_names, signature, wanted_names
from retriever_svc.importers.documents import import_document
from services.contracts.api import Api
from services.errors import ServiceError

Part = Literal["train", "stages", "judge", "dev", "test"]
"""``train``: for training networks; ``stages``, ``judge``: for fitting the second stage and the judge to what a network
says of APIs that it has not seen; ``dev``: for choosing models and fitting confidences; ``test``: for measuring."""
_SERVER: Final = "https://api.example.com"
"""Server of documents that name none. No request of the corpus is ever sent."""


class Vendor(BaseModel):
    """A vendor or an invented system.

    Attributes:
        name: first part of the APIs' ids.
        documents: names of files; empty for an invented system.
        part: what its requests are for. A vendor is in one part only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    documents: tuple[str, ...] = ()
    part: Part


@dataclass(frozen=True, slots=True)
class Corpus:
    """The folder of the corpus, and the folder of the vendors' documents."""

    folder: Path
    documents: Path | None

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """All vendors and systems, by name."""
        return _vendors(self.folder / "vendors.json")

    def file(self, vendor: Vendor) -> Path:
        """The file of a vendor's requests."""
        return self.folder / "requests" / f"{vendor.name}.jsonl"

    def apis(self, vendor: Vendor) -> tuple[Api, ...]:
        """A vendor's APIs.

        Raises:
            DataError: a document is missing or cannot be read.
        """
        places = [self.folder / "systems" / f"{vendor.name}.json"]
        if vendor.documents:
            if self.documents is None:
                raise DataError(f"{vendor.name} needs its documents: say where they are")
            places = [self.documents / name for name in vendor.documents]
        found: dict[str, Api] = {}
        for place in places:
            try:
                text = place.read_text(encoding="utf-8")
                imported = import_document(text, vendor.name)
                if not any(api.server for api in imported.apis):
                    imported = import_document(text, vendor.name, _SERVER)
            except (OSError, ServiceError) as error:
                raise DataError(f"{place.name}: {error}") from None
            for api in imported.apis:
                found.setdefault(api.id, api)
        return tuple(found.values())


def shipped() -> Path:
    """The folder of the shipped corpus."""
    return Path(str(files("training.corpus")))


def told(apis: tuple[Api, ...]) -> str:
    """The APIs as a planner sees them, one per line."""
    names, wanted = call_names(apis), wanted_names(apis)
    return "\n".join(signature(api, names[api.id], FULL, frozenset(), wanted) for api in apis)


@cache
def _vendors(file: Path) -> tuple[Vendor, ...]:
    try:
        return TypeAdapter(tuple[Vendor, ...]).validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: {error}") from None
