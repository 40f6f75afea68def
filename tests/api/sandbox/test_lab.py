"""The lab's operations misbehave exactly as requested."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient


def test_slow(client: TestClient) -> None:
    started = time.monotonic()
    assert client.get("/lab/slow", params={"seconds": 0.2}).json() == {"waited_seconds": 0.2}
    assert time.monotonic() - started >= 0.2
    assert client.get("/lab/slow", params={"seconds": 0.6}).status_code == 422  # the cap of these tests is 0.5


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 599])
def test_fail(client: TestClient, status: int) -> None:
    answer = client.get("/lab/fail", params={"status": status})
    assert answer.status_code == answer.json()["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_flaky(client: TestClient) -> None:
    query: dict[str, Any] = {"token": "a", "failures": 2, "status": 502}
    assert [client.get("/lab/flaky", params=query).status_code for _ in range(4)] == [502, 502, 200, 200]
    assert client.get("/lab/flaky", params=query | {"token": "b"}).status_code == 502


def test_throttled(app: FastAPI, client: TestClient) -> None:
    query: dict[str, Any] = {"token": "a", "limit": 2, "window_seconds": 10}
    now = 100.0
    app.state.sandbox.clock = lambda: now
    assert [client.get("/lab/throttled", params=query).status_code for _ in range(3)] == [200, 200, 429]
    now = 104.5
    refused = client.get("/lab/throttled", params=query)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "6")
    now = 110.0
    assert client.get("/lab/throttled", params=query).json()["attempt"] == 1


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[int]:
    """The app on a real socket; gives the port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def test_drop_closes_the_connection_before_the_announced_length(app: FastAPI) -> None:
    with served(app) as port, socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET /lab/drop HTTP/1.1\r\nHost: sandbox\r\n\r\n")
        received = b""
        while part := connection.recv(4096):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-length: 4096" in head.lower()
    assert body == b'{"attempt": '
