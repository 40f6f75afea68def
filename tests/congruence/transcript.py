"""Records a scenario's results without what varies between runs: times, signatures, run ids, deadline lengths."""

import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import httpx2
from pydantic import BaseModel

from services.errors import ServiceError

_VARIES = {
    "id_of_run",
    "created_at",
    "timings",
    "started_ms",
    "duration_ms",
    "at",
    "at_ms",
    "ms",
    "total_ms",
    "instance",
    "catalogue_version",
    "signature",
    "index_version",
    "next",
}
_RUN_ID = re.compile(r"run_[0-9a-f]{32}")
_SECONDS = re.compile(r"within [0-9.]+ s")


class Transcript:
    """The results of one run of a scenario. ``shared`` ones apply to fakes too; ``all`` ones to real services only."""

    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.all: list[Any] = []

    def note(self, what: Any, *, real: Any = None) -> None:
        """Record ``what``, and ``real`` for real services only."""
        self.shared.append(clean(what))
        self.all.append((clean(what), clean(real)))


def clean(value: Any) -> Any:
    """The value as plain data, without the parts that vary."""
    if isinstance(value, BaseModel):
        return clean(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items() if key not in _VARIES}
    if isinstance(value, list | tuple | set):
        return [clean(item) for item in value]
    if isinstance(value, str):
        return _SECONDS.sub("within … s", _RUN_ID.sub("run_…", value))
    return round(value, 6) if isinstance(value, float) else value


async def problem(call: Awaitable[Any]) -> ServiceError:
    """Await a call that must fail and return its error."""
    try:
        result = await call
    except ServiceError as error:
        return error
    raise AssertionError(f"no error, but {result!r}")


def shown(error: ServiceError) -> dict[str, Any]:
    """An error as data, with everything that a caller can see."""
    return {"type": type(error).__name__, "detail": error.detail, **error.extensions}


def answered(response: httpx2.Response) -> dict[str, Any]:
    """A raw HTTP response as data: status, headers and body."""
    names = ("content-type", "allow", "retry-after", "www-authenticate", "cache-control")
    headers = {name: response.headers[name] for name in names if name in response.headers}
    return {"status": response.status_code, "headers": headers, "body": response.json() if response.content else None}


async def collected(events: AsyncIterator[Any]) -> list[Any]:
    """All events of a stream."""
    return [event async for event in events]
