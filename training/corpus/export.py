"""Writes a part of the corpus as a folder that `nestor train data` and `nestor eval plan` read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from evals.recording import instance_row, tool_row, write_folder
from planner_svc.backends.served.signatures import call_names, words_of
from services.contracts.api import Api
from training.corpus.catalogue import Corpus
from training.corpus.requests import Request, decode_plan, read_requests

_NEAR: Final = 8
_INFO: Final = {"licence": "Apache-2.0", "repo": "Nestor's own corpus", "commit": "this one"}


def export(corpus: Corpus, part: str, out: Path) -> int:
    """Write ``tools.jsonl`` with the APIs of all the part's vendors, and ``instances.jsonl``.

    For a refused request, the most similar APIs are listed as its tools. Returns the number of requests.

    Raises:
        DataError: a document or a file of requests cannot be read.
    """
    tools: dict[str, Api] = {}
    rows: list[dict[str, Any]] = []
    for vendor in corpus.vendors:
        if vendor.part == part and corpus.file(vendor).exists():
            apis = corpus.apis(vendor)
            tools |= {api.id: api for api in apis}
            rows += _rows(read_requests(corpus.file(vendor)), apis, part)
    write_folder(out, map(tool_row, tools.values()), rows)
    (out / "info.json").write_text(json.dumps(_INFO) + "\n", encoding="utf-8")
    return len(rows)


def _rows(requests: tuple[Request, ...], apis: tuple[Api, ...], part: str) -> Iterator[dict[str, Any]]:
    names = {name: api for api, name in call_names(apis).items()}
    words = {api.id: words_of(f"{api.name} {api.summary} {api.description[:200]}") for api in apis}
    keys = {
        api.id: {need.parameter for needs in api.security for need in needs if need.parameter}
        - {parameter.name for parameter in api.parameters}
        for api in apis
    }
    for request in requests:
        told: dict[str, Any] = {"split": part}
        if request.now is not None:  # most are written without a zone
            told["now"] = (request.now if request.now.tzinfo else request.now.replace(tzinfo=UTC)).isoformat()
        if request.kind == "refused":
            asked = words_of(request.query)
            near = sorted(words, key=lambda api: (-len(words[api] & asked), api))[:_NEAR]
            yield {"id": request.id, "query": request.query, "calls": [], "tools": near} | told
        else:
            row = instance_row(request.id, request.query, decode_plan(request, names)) | told
            yield row | {"calls": [_without_keys(call, keys[call["api"]]) for call in row["calls"]]}


def _without_keys(call: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    """The call without credentials: its writer saw them in the document, but the executor adds them."""
    return call | {"args": {name: value for name, value in call["args"].items() if name not in keys}}
