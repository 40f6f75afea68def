"""A separate process that imports hostile documents with limited resources and prints one line for each result.

``python -m tests.hostile.document_probe NAME ...``: the names of documents or of families of documents.

The kernel limits the CPU time and memory of all documents together. An audit hook (PEP 578) records every file,
socket, process and library that any code opens while a document is read.
"""

import json
import resource
import sys
import time
from typing import Any

from retriever_svc.importers import import_document
from services.errors import InvalidDocument
from tests.hostile.documents import DOCUMENTS
from tests.hostile.making import Hostile

CPU_S = 300
MEMORY_BYTES = 3 * 1024**3
_WATCHED = ("open", "socket.", "subprocess.", "os.", "urllib.", "ctypes.", "shutil.", "http.", "ftplib.", "import")
_seen: list[str] | None = None


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook. It cannot be removed, so it ignores events while no document is read."""
    if _seen is not None and event.startswith(_WATCHED):
        _seen.append(f"{event} {str(arguments)[:200]}")


def outcome(document: Hostile) -> dict[str, Any]:
    """Import one document. Returns the result, what was opened meanwhile, and the CPU time."""
    global _seen
    text = str(document.make())
    found: dict[str, Any]
    before, _seen = time.process_time(), []
    try:
        imported = import_document(text)
        reasons = [skipped.reason for skipped in imported.skipped]
        found = {"apis": len(imported.apis), "skipped": len(reasons), "reasons": reasons[:3]}
    except InvalidDocument as refusal:
        found = {"refused": refusal.detail}
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        found = {"crashed": repr(error)[:500]}
    opened, _seen = _seen, None
    return found | {"opened": opened, "cpu_s": round(time.process_time() - before, 2)}


def main(names: list[str]) -> None:
    """Import a harmless document first, so that lazily loaded modules are loaded; then import the named documents."""
    asked = {name: made for name, made in DOCUMENTS.items() if name in names or name.partition(" ")[0] in names}
    chosen = {name: made for name, made in asked.items() if made.is_text}
    import_document("openapi: 3.1.0\ninfo: {title: x}\npaths: {/x: {get: {parameters: [{name: p, in: query}]}}}")
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.addaudithook(watch)
    for name, document in chosen.items():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = outcome(document)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        print(json.dumps({"name": name, "grown_mib": grown // 1024, **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
