"""A request whose body must not be read."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI


async def status_without_body(app: FastAPI, path: str, authorizations: Sequence[str]) -> int:
    """Send a POST and return the response's status. Raises AssertionError if the app reads the body."""
    sent: list[Any] = []

    async def never() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", value.encode()) for value in authorizations]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "client": ("192.0.2.1", 1),
        "server": ("127.0.0.1", 80),
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
    }
    await app(scope, never, send)
    return int(sent[0]["status"])
