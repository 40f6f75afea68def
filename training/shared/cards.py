"""Parts of model cards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def file_row(path: Path) -> tuple[str, str, str]:
    """A file's name, size and SHA-256."""
    content = path.read_bytes()
    return path.name, f"{len(content) / 1e6:.1f} MB", hashlib.sha256(content).hexdigest()
