"""Documents of several files: one folder or archive, and nothing outside it."""

import json
import stat
import zipfile
from pathlib import Path

import pytest
import typer

from deploy.cli import bundling
from deploy.cli.bundling import Unreadable
from deploy.cli.sources import find_sources
from retriever_svc.importers import import_document
from services.contracts.api import Api

MAIN = {
    "openapi": "3.0.3",
    "info": {"title": "Zoo", "version": "1"},
    "servers": [{"url": "https://zoo.example"}],
    "paths": {
        "/animals": {"$ref": "paths/animals.yaml"},
        "/self": {"get": {"responses": {}, "parameters": [{"$ref": "main.json#/components/parameters/Page"}]}},
    },
    "components": {"parameters": {"Page": {"name": "page", "in": "query", "schema": {"type": "integer"}}}},
}
ANIMALS = """
post:
  operationId: addAnimal
  parameters: [{$ref: "../main.json#/components/parameters/Page"}]
  requestBody: {content: {application/json: {schema: {$ref: "../types%20s.json#/Animal"}}}}
  responses: {}
"""
TYPES = {
    "Animal": {
        "type": "object",
        "properties": {"name": {"$ref": "#/Name"}, "child": {"$ref": "types%20s.json#/Animal"}},
    },
    "Name": {"type": "string", "maxLength": 7},
}
FILES = {"main.json": json.dumps(MAIN), "paths/animals.yaml": ANIMALS, "types s.json": json.dumps(TYPES)}


def folder_of(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def archive_of(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path / "zoo.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path / "zoo.zip"


def apis_of(source: Path) -> dict[str, Api]:
    (found,) = find_sources([str(source)], None)
    imported = import_document(found.read())
    assert (imported.skipped, imported.warnings) == ((), ())
    return {api.path: api for api in imported.apis}


@pytest.mark.parametrize("kind", ["folder", "archive", "file"])
def test_files_that_refer_to_each_other_become_one_document(tmp_path: Path, kind: str) -> None:
    source = archive_of(tmp_path, FILES) if kind == "archive" else folder_of(tmp_path, FILES)
    apis = apis_of(source / "main.json" if kind == "file" else source)
    animal = apis["/animals"]
    assert [parameter.name for parameter in animal.parameters] == ["page", "name", "child"]
    assert animal.definitions["types_20s.json_Name"] == {"type": "string", "maxLength": 7}
    assert [parameter.name for parameter in apis["/self"].parameters] == ["page"]


def test_a_document_in_one_file_is_sent_as_it_is(tmp_path: Path) -> None:
    text = json.dumps({**MAIN, "paths": {}}, indent=3)
    folder_of(tmp_path, {"main.json": text})
    (found,) = find_sources([str(tmp_path)], None)
    assert found.read() == text


@pytest.mark.parametrize(
    "reference",
    [
        "../secret.json#/A",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://other.example/a.json",
        "link.json#/A",
        "%2e%2e/secret.json#/A",
        "gone.json#/A",
        "..\\secret.json#/A",
        "linked/secret.json#/A",
    ],
)
def test_nothing_outside_the_folder_is_read(tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret.json").write_text('{"A": {"type": "string", "description": "secret"}}')
    inside = tmp_path / "zoo"
    operation = {"parameters": [{"name": "a", "in": "query", "schema": {"$ref": reference}}], "responses": {}}
    folder_of(inside, {"main.json": json.dumps({**MAIN, "paths": {"/x": {"get": operation}}})})
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (inside / "linked").symlink_to(tmp_path)
    (tmp_path / "main.json").symlink_to(inside / "main.json")
    assert find_sources([str(tmp_path / "main.json")], None)[0].read() == (inside / "main.json").read_text()
    text = next(source for source in find_sources([str(inside / "main.json")], None)).read()
    assert 'secret"' not in text.replace(reference, "")
    assert import_document(text).skipped[0].reason.startswith("refers to another document")


def test_links_and_paths_out_of_an_archive_are_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "zoo.zip", "w") as archive:
        archive.writestr("../main.json", json.dumps(MAIN))
        archive.writestr("/main.json", json.dumps(MAIN))
        link = zipfile.ZipInfo("link.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(typer.BadParameter, match=r"contains no \.json"):
        find_sources([str(tmp_path / "zoo.zip")], None)


def test_what_is_unpacked_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "MAX_FILE_BYTES", 2_000)
    path = archive_of(tmp_path, {**FILES, "types s.json": " " * 2_001})
    source = next(source for source in find_sources([str(path)], None) if source.path == "main.json")
    with pytest.raises(Unreadable, match="more than 2,000 bytes"):
        source.read()


def test_the_files_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = find_sources([str(folder_of(tmp_path, FILES))], None)
    for limit, value in (("MAX_FILES", 1), ("MAX_BYTES", 300)):
        with monkeypatch.context() as patch:
            patch.setattr(bundling, limit, value)
            with pytest.raises(Unreadable, match="refers to more than"):
                source.read()


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zoo.zip").write_bytes(b"PK no archive")
    with pytest.raises(typer.BadParameter, match="cannot be read"):
        find_sources([str(tmp_path / "zoo.zip")], None)


def test_files_that_lead_far_from_each_other_are_refused() -> None:
    def read(path: str) -> str:
        number = int(path.removesuffix(".json")) + 1
        return '{"x": ' * 50 + f'{{"$ref": "{number}.json"}}' + "}" * 50

    with pytest.raises(Unreadable, match="too often in a row"):
        bundling.bundle('{"openapi": "3.1.0", "x": {"$ref": "0.json"}}', "main.json", read)
