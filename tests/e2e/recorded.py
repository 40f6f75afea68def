"""Writes a folder of training data for the sandbox: its APIs, the demos that ship with Nestor, and the dev questions
with their solutions. The held-out questions are not included.

``python -m tests.e2e.recorded FOLDER``
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fastapi.testclient import TestClient

from deploy.onebox import sandbox_access, shipped_demos
from evals.recording import Row, instance_row, label, reference, tool_row, write_folder
from retriever_svc.importers import import_document
from sandbox.main import create_app
from services.contracts.api import Api, Location
from tests.e2e.questions import read_questions, read_solutions

_REFERENCE = re.compile(r"\$(\d+)((?:\.\w+)*)")


def sandbox_apis() -> tuple[Api, ...]:
    """The sandbox's APIs after import."""
    document = TestClient(create_app(sandbox_access("127.0.0.1:9000").settings)).get("/openapi.json").text
    return import_document(document, provider="sandbox").apis


def rows(apis: tuple[Api, ...]) -> Iterator[Row]:
    """The demos, then the dev questions; those without a solution have no calls."""
    for number, demo in enumerate(shipped_demos()):
        yield instance_row(f"demo-{number}", demo.query, demo.plan)
    solutions = read_solutions()
    for question in read_questions("dev"):
        if question["status"] == "needs_input":
            continue  # it has no solution with calls
        solution = solutions.get(question["id"], {"calls": [], "answers": []})
        calls = [_call(call, apis) | {"label": label(number)} for number, call in enumerate(solution["calls"], 1)]
        answer = [reference(path[0] + 1, tuple(path[1:])) for path in solution["answers"]]
        row = {"id": question["id"], "split": "train", "query": question["query"], "calls": calls, "answer": answer}
        yield row


def _call(call: dict[str, Any], apis: tuple[Api, ...]) -> Row:
    api, in_path = min(
        ((api, found.groupdict()) for api in apis if api.method == call["method"] and (found := _match(api, call))),
        key=lambda one: len(one[1]),
    )
    filled = {f"{{{name}}}": value for name, value in call.get("path_parameters", {}).items()}
    in_path = {name: filled.get(value, value) for name, value in in_path.items()}
    given = {**in_path, **call.get("query", {}), **call.get("body", {})}
    names = {parameter.wire_name: parameter for parameter in api.parameters}
    arguments = {}
    for wire, value in given.items():
        if wire in names:
            arguments[names[wire].name] = _said(_typed(value, names[wire].json_schema.get("type")))
    return {"api": api.id, "args": arguments}


def _match(api: Api, call: dict[str, Any]) -> re.Match[str] | None:
    names = [p for p in api.parameters if p.location is Location.PATH]
    pattern = re.escape(api.path)
    for parameter in names:
        pattern = pattern.replace(re.escape(f"{{{parameter.wire_name}}}"), f"(?P<{parameter.wire_name}>[^/]+)")
    return re.fullmatch(pattern, unquote(call["path"]))


def _typed(value: Any, kind: Any) -> Any:
    """Convert a text from a path or a query to the type in its schema."""
    if not isinstance(value, str) or value.startswith("$"):
        return value
    if kind == "array":
        return value.split(",")
    return int(value) if kind == "integer" else float(value) if kind == "number" else value


def _said(value: Any) -> Any:
    """Replace references by their form in the data."""
    if isinstance(value, list):
        return [_said(item) for item in value]
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    path = tuple(int(part) if part.isdigit() else part for part in found[2].split(".")[1:])
    return reference(int(found[1]) + 1, path)


def main(out: Path) -> None:
    """Write the folder."""
    apis = sandbox_apis()
    write_folder(out, map(tool_row, apis), rows(apis))
    (out / "info.json").write_text('{"licence": "Apache-2.0", "repo": "Nestor\'s own sandbox", "commit": "this one"}')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
