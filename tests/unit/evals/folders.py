"""Tiny folders of benchmark data."""

import gzip
import json
from pathlib import Path
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "name": "listHolidays",
        "description": "Public holidays of a country",
        "category": "Calendar",
        "parameters": {"country": {"type": "string", "description": "Country code", "required": True, "enum": ["PT"]}},
        "outputs": {"date": {"type": "string", "description": "The day"}, "kind": {"type": "any"}},
    },
    {
        "name": "getSunrise",
        "description": "When the sun rises at a place",
        "category": {"name": "no text"},
        "parameters": {},
    },
    {"name": "send Message", "description": "Send a text message to a person", "category": "Chat", "parameters": {}},
]
INSTANCES: list[dict[str, Any]] = [
    {"id": "1", "split": "dev", "query": "Public holidays in Portugal", "calls": [{"api": "listHolidays", "args": {}}]},
    {
        "id": "2",
        "split": "dev",
        "query": "When does the sun rise in Faro? Then send Ana a text message.",
        "calls": [{"api": "getSunrise", "args": {"place": "Faro"}, "label": "var_1"}, {"api": "send Message"}],
    },
    {"id": "3", "split": "test", "query": "Text Ana", "calls": [{"api": "send Message", "args": {}}]},
]


def folder(
    path: Path,
    tools: list[dict[str, Any]] = TOOLS,
    instances: list[dict[str, Any]] = INSTANCES,
    names: tuple[str, str] = ("tools.jsonl", "instances.jsonl"),
) -> Path:
    """A folder that holds these."""
    path.mkdir(exist_ok=True)
    for name, rows in zip(names, (tools, instances), strict=True):
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path
