"""Looks at the heartbeats of a process while its event loop stands still."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

PATIENCE_S = 30.0


def last_seen(file: Path) -> float:
    """When the only member of this SQLite database was seen last."""
    with closing(sqlite3.connect(file, timeout=PATIENCE_S)) as database:
        return float(database.execute("SELECT seen_at FROM members").fetchone()[0])


def changes(file: Path, within_s: float) -> bool:
    """Whether a heartbeat comes. It blocks the event loop meanwhile."""
    before, until = last_seen(file), time.monotonic() + within_s
    while time.monotonic() < until:
        if last_seen(file) != before:
            return True
        time.sleep(0.02)
    return False
