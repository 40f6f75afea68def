"""The regular expressions of a document: each compiled once, small, and counted."""

import json
from collections.abc import Iterable
from typing import Any

import jsonschema_rs
import pytest
import yaml

from retriever_svc.importers import Imported, Limits, import_document
from retriever_svc.importers.patterns import Patterns
from services.compute import ComputePool
from services.errors import DeadlineExceeded, InvalidDocument
from services.patterns import compile_steps
from tests.unit.retriever_svc.documents import document, imported, operation

MANY = 5_000


def asking(schemas: Iterable[Any]) -> dict[str, Any]:
    """A document whose one operation takes an argument of all these schemas."""
    parameter = {"name": "q", "in": "query", "schema": {"allOf": list(schemas)}}
    return document({"/things": {"get": operation(parameters=[parameter])}})


def parts(result: Imported) -> list[Any]:
    schema: Any = result.apis[0].parameters[0].json_schema
    return list(schema["allOf"])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The patterns that were compiled."""
    seen, made = list[str](), jsonschema_rs.Draft202012Validator

    def counted(schema: Any, **options: Any) -> Any:
        seen.append(schema.get("pattern", ""))
        return made(schema, **options)

    monkeypatch.setattr(jsonschema_rs, "Draft202012Validator", counted)
    return seen


def test_a_document_of_very_many_patterns_is_refused(compiled: list[str]) -> None:
    with pytest.raises(InvalidDocument, match="too many patterns"):
        imported(asking({"pattern": f"^a{i}$"} for i in range(MANY)))
    assert 0 < len(compiled) < MANY
    del compiled[:]
    with pytest.raises(InvalidDocument, match="too many patterns"):
        imported(asking({"patternProperties": {f"^b{i}$": {}}} for i in range(MANY)))
    assert 0 < len(compiled) < MANY


def test_one_pattern_is_compiled_once_for_each_engine(compiled: list[str]) -> None:
    schemas = [{"pattern": "^a[0-9]+$", "example": f"a{i}"} for i in range(MANY)]
    assert len(parts(imported(asking(schemas)))) == MANY
    assert compiled == ["^a[0-9]+$"] * 2


def test_what_is_compiled_again_is_counted_again(compiled: list[str]) -> None:
    """More patterns than are kept, in turn, each with another example."""
    schemas = [{"pattern": f"^{i % 200}-[0-9]+$", "example": f"{i % 200}-{i}"} for i in range(MANY)]
    with pytest.raises(InvalidDocument, match="too many patterns"):
        imported(asking(schemas))
    assert len(compiled) <= 3_000


@pytest.mark.parametrize("large", [r"\p{L}{150}", r"(?=a)\p{L}{50}", r"\s|" * 300 + "a", "a" * 1_001])
def test_a_large_pattern_is_none(large: str) -> None:
    schemas = [{"type": "string", "pattern": large}, {"patternProperties": {large: {}, "^a": {}}}]
    assert parts(imported(asking(schemas))) == [{"type": "string"}, {"patternProperties": {"^a": {}}}]


def test_large_patterns_are_not_compiled_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, options = list[int](), jsonschema_rs.FancyRegexOptions

    def limited(*, size_limit: int) -> Any:
        asked.append(size_limit)
        return options(size_limit=size_limit)

    monkeypatch.setattr(jsonschema_rs, "FancyRegexOptions", limited)
    spent = list[int]()
    known = Patterns(spent.append)
    assert not known.usable(r"\p{L}{150}")
    assert not known.usable(r"\p{L}{150}")
    assert (asked, len(spent)) == ([300_000], 1)
    assert spent[0] > compile_steps(r"\p{L}{150}")


@pytest.mark.parametrize("usual", [r"^[a-z]{2,3}(?:-[A-Z]{2})?$", r"^(?!foo)\d+$", "^[0-9a-f]{64}$", "^.{1,128}$"])
def test_a_usual_pattern_is_kept(usual: str) -> None:
    assert parts(imported(asking([{"pattern": usual}]))) == [{"pattern": usual}]


def texts() -> dict[str, str]:
    """Documents that take long to read, each in another part of the importer."""
    paths = {f"/things/{i}": {"get": operation(operationId=f"op{i}")} for i in range(2_000)}
    wide = document({}) | {"x-values": list(range(100_000))}
    settled = [
        {"name": f"p{i}", "in": "query", "required": True, "schema": {"enum": ["a"], "pattern": "a", "maxLength": i}}
        for i in range(2_000)
    ]
    return {
        "patterns": json.dumps(asking({"pattern": f"^a{i}$"} for i in range(2_000))),
        "operations": json.dumps(document(paths)),
        "values": json.dumps(wide),
        "constants": json.dumps(document({"/things": {"get": operation(parameters=settled)}})),
        "yaml": yaml.dump(wide, Dumper=yaml.CSafeDumper),
    }


@pytest.mark.parametrize("kind", ["patterns", "operations", "values", "constants", "yaml"])
async def test_reading_ends_when_its_processor_time_is_used_up(kind: str) -> None:
    text = texts()[kind]
    pool = ComputePool(1, 1, budget_s=0.01)
    try:
        with pytest.raises(DeadlineExceeded):
            await pool.run(import_document, text, limits=Limits())
    finally:
        await pool.close()
