"""Two gateways on one database: runs survive their gateway's death, keys work at both, quotas protect other tenants."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.compose.crash import REMIND, stopped, waiting
from tests.compose.stack import Answer, Stack, expect, shell, wait_for

GUESTS_PER_S = 2
LIMITS = f"NESTOR_GATEWAY_TENANT_LIMITS={json.dumps({'guests': {'requests_per_s': GUESTS_PER_S}})}"
ASKED = 200
"""A number of requests that exceeds a tenant's rate limit in the time that they take."""


def check_gateways(stack: Stack, question: str, value: str) -> None:
    """Start a run in a second gateway and kill that gateway while a call is in flight: the first one answers."""
    with second_gateway(stack) as (second, container):
        check_roles(stack, second)
        check_quotas(stack, second)
        with stopped(stack, "sandbox"):
            answer = second.call("POST", "/solve", {"query": question, "wait": False})
            expect(answer.status == 202, "the second gateway must take the request", answer)
            stream = stack.events(f"/runs/{answer.body['id']}/events")
            expect(any(event["kind"] == "step_started" for _, event in stream), "a call must be begun", answer)
            shell("docker", "kill", container)
        told = list(stream)
    expect(bool(told), "the first gateway must tell how it goes on", told)
    run = told[-1][1]["run"]
    expect(run["status"] == "succeeded", "the run must be taken over", run)
    expect(value in json.dumps(run["answer"]["values"]), f"the answer must hold {value}", run["answer"])


def check_roles(stack: Stack, second: Stack) -> None:
    """A key that may ask may not approve or import; a key that may approve may not ask. Both gateways enforce this."""
    asks, approves = _key(stack, "desk", "ask"), _key(stack, "boss", "approve")
    run = waiting(asks, REMIND)
    path, body = f"/runs/{run['id']}:approve", {"plan_id": run["plan"]["id"]}
    document = {"document": json.dumps({"openapi": "3.1.0", "info": {"title": "Zoo", "version": "1"}, "paths": {}})}
    refused: tuple[tuple[Stack, str, dict[str, Any]], ...] = (
        (asks, path, body),
        (asks, "/apis:import", document),
        (approves, "/solve", {"query": REMIND}),
    )
    for who, where, what in refused:
        for gateway in (who, dataclasses.replace(who, port=second.port)):
            answer = gateway.call("POST", where, what)
            expect(answer.status == 403, f"{where} must be refused to {who.token[:10]}...", answer)
    answer = dataclasses.replace(approves, port=second.port).call("POST", path, body)
    expect((answer.status, answer.body["status"]) == (200, "succeeded"), "the approver must be let through", answer)


def check_quotas(stack: Stack, second: Stack) -> None:
    """A tenant that exceeds its rate limit is told to wait, with RateLimit fields; other tenants are not."""
    guests = dataclasses.replace(_key(stack, "kiosk", "ask", tenant="guests"), port=second.port)
    answers = [guests.call("GET", "/runs?limit=1") for _ in range(ASKED)]
    found = Counter(answer.status for answer in answers)
    expect(set(found) == {200, 429}, "the guests must be served, and held back", found)
    held = next(answer for answer in answers if answer.status == 429)
    expect(held.kind == "application/problem+json", "a problem must say so", held)
    expect({"retry-after", "ratelimit", "ratelimit-policy"} <= set(held.headers), "with when to come again", held)
    expect(second.call("GET", "/runs?limit=1").status == 200, "other tenants must be served", found)


@contextmanager
def second_gateway(stack: Stack) -> Iterator[tuple[Stack, str]]:
    """Start another gateway of the same stack on its own port. Gives it and its container."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    options = ("--detach", "--no-deps", "--publish", f"127.0.0.1:{port}:8000", "-e", LIMITS)
    container = stack.compose("run", *options, "gateway", capture=True).split()[-1]
    try:
        second = dataclasses.replace(stack, port=port)
        wait_for("/readyz of the second gateway", second.ready)
        yield second, container
    finally:
        shell("docker", "rm", "--force", container)


def _key(stack: Stack, name: str, role: str, *, tenant: str = "default") -> Stack:
    """The same stack, seen with a new key of that role."""
    answer: Answer = stack.call("POST", "/keys", {"name": name, "tenant": tenant, "roles": [role]})
    expect(answer.status in (200, 201), "the key must be made", answer.status)
    return dataclasses.replace(stack, token=str(answer.body["key"]))
