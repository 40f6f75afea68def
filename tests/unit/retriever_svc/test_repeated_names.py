"""A name that is twice in one object: parsers drop the first value, so the import says which."""

import json
from pathlib import Path

import pytest

from deploy.cli.bundling import Folder, bundle
from deploy.cli.declaring import parse_auth, with_auth
from retriever_svc.importers import Limits, import_document
from retriever_svc.importers.limits import MAX_NOTES
from retriever_svc.importers.reading import read_document

YAML = """\
openapi: 3.0.3
info: {title: Zoo, version: "1"}
servers: [{url: https://zoo.example}]
paths:
  /animals:
    get: {operationId: list, responses: {}}
  /cages:
    get: {operationId: cages, responses: {}}
  /animals:
    post: {operationId: add, responses: {}}
"""
TWICE = "'/animals' of 'paths' is there twice, in lines 5 and 9: only the last one is read"


def warnings_of(text: str) -> list[str]:
    found = list[str]()
    read_document(text, Limits(), found.append)
    return found


def test_an_import_says_which_path_is_not_read() -> None:
    found = import_document(YAML)
    assert [api.id.rpartition(".")[2] for api in found.apis] == ["add", "cages"]
    assert TWICE in found.warnings


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ('{"a": {"b": 1,\n"b": 2}}', ["'b' of 'a' is there twice, in lines 1 and 2: only the last one is read"]),
        ('{"l": [{"b": "b"}, {"b": 1, "b": 2}]}', ["'b' of 'l' is there twice, in line 1: only the last one is read"]),
        ('{"a": 1, "a": 2,}', ["'a' is there twice, in line 1: only the last one is read"]),
        ('{"a": 1}\n{"a": 2, "a": 3}', ["'a' is there twice, in line 2: only the last one is read"]),
        ("{a: 1, # {\n a: 2}", ["'a' is there twice, in lines 1 and 2: only the last one is read"]),
        ("1: x\n'1': y", ["'1' is there twice, in lines 1 and 2: only the last one is read"]),
        ('{"a": {"a": "a"}, "b": ["a", "a"], "c": "{\\"a\\": 1, \\"a\\": 2}"}', []),
        ("x: &x {a: 1}\ny: {<<: *x, a: 2}\nz: [*x, *x, a, a]\nw: {a: a, b: a}", []),
    ],
)
def test_names_are_compared_within_one_object(text: str, warnings: list[str]) -> None:
    assert warnings_of(text) == warnings


def test_warnings_are_bounded() -> None:
    assert len(warnings_of("{" + ", ".join(['"a": 1'] * 5_000) + "}")) == MAX_NOTES
    (warning,) = warnings_of(json.dumps({"p" * 9_000: 0})[:-2] + "{" + f'"{"n" * 9_000}": 1, ' * 2 + '"z": 0}}')
    assert len(warning) < 1_000


def test_what_the_command_line_rewrites_is_warned_of_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_auth(YAML, parse_auth("bearer"))
    assert capsys.readouterr().err == f"warning: {TWICE}\n"
    (tmp_path / "part.yaml").write_text("get: {responses: {}}\nget: {responses: {}}\n")
    main = YAML + "  /part:\n    $ref: part.yaml\n"
    assert bundle(main, "main.yaml", Folder(tmp_path).read) != main
    assert capsys.readouterr().err == (
        f"warning: {TWICE}\nwarning: part.yaml: 'get' is there twice, in lines 1 and 2: only the last one is read\n"
    )
