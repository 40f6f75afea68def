"""Looking up time zones by name."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from sandbox.errors import NotFound
from sandbox.reference import Reference


def find_zone(reference: Reference, name: str) -> ZoneInfo:
    """The zone of that name. Raises NotFound. Names are checked against the tz database before any file is opened."""
    if name not in reference.zone_names:
        raise NotFound(f"the tz database has no time zone {name}")
    return ZoneInfo(name)
