from collections.abc import Callable
from pathlib import Path

import pytest

import tests.vendors
from retriever_svc.importers import import_document
from services.contracts.api import Api

DOCUMENTS = Path(tests.vendors.__file__).parent / "documents"
Apis = Callable[[str], dict[str, Api]]


@pytest.fixture(scope="session")
def apis_of() -> Apis:
    """The operations of one of our documents by name."""

    def read(name: str) -> dict[str, Api]:
        text = (DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8")
        imported = import_document(text, name, "http://127.0.0.1:1")
        assert not imported.skipped
        return {api.name: api for api in imported.apis}

    return read
