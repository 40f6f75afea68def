"""Mutating runs while the executor is killed: idempotent calls are repeated, the others are left in doubt."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from tests.compose.stack import Stack, expect, shell, wait_for

REMIND = 'Create a reminder "water the plants" for 2027-03-01T09:00:00Z'
BOOK = 'Book room_cirrus on 7 December 2026 from 09:00 to 11:00 for 10 people, title "Budget review"'
LISTED = """import base64, os, urllib.request
given = {name.removeprefix("NESTOR_SANDBOX_"): value for name, value in os.environ.items()}
basic = base64.b64encode(f"{given['BASIC_USERNAME']}:{given['BASIC_PASSWORD']}".encode()).decode()
headers = {"Authorization": f"Basic {basic}", "X-API-Key": given["API_KEY"]}
asked = urllib.request.Request("http://127.0.0.1:8000/PATH", headers=headers)
print(urllib.request.urlopen(asked).read().decode())"""
OWNER = "SELECT owner FROM executions WHERE id = '{}'"


def check_crash(stack: Stack) -> None:
    """Kill the executor with two calls in flight: the booking has a key and is repeated, the reminder is in doubt.

    One event stream is open from the approval until the doubt, and it is resumed after the doubt is settled.
    """
    remind, book, before = waiting(stack, REMIND), waiting(stack, BOOK), reminders(stack)
    with stopped(stack, "sandbox"):
        stream = approved(stack, remind)
        approved(stack, book).close()
        stack.compose("kill", "executor_svc")
    stack.compose("start", "executor_svc")
    events = list(stream)
    expect(events[-1][1]["run"]["status"] == "in_doubt", "the reminder must be in doubt", events[-1])
    settle(stack, remind, before)
    later = list(stack.events(f"/runs/{remind['id']}/events", after=events[-1][0]))
    expect(later[-1][1]["run"]["status"] == "succeeded", "the settled run must come to its end", later[-1])
    numbers = [number for number, _ in events + later]
    expect(numbers == sorted(set(numbers)), "the events must have rising numbers", numbers)
    expect(len(reminders(stack)) == len(before) + 1, "there must be one reminder more", reminders(stack))
    *_, (_, last) = stack.events(f"/runs/{book['id']}/events")
    expect(last["run"]["status"] == "succeeded", "the booking must be made", last)
    bookings = there(stack, "bookings?room_id=room_cirrus&date=2026-12-07")
    expect(len(bookings) == 1, "there must be one booking", bookings)


def check_replicas(stack: Stack) -> None:
    """Kill the one of two executors that owns a run: the other one takes the run over by itself."""
    stack.compose("up", "--detach", "--no-build", "--no-recreate", "--scale", "executor_svc=2", "executor_svc")
    wait_for("two executors", lambda: len(healthy(stack)) == 2)
    run, before = waiting(stack, REMIND), reminders(stack)
    with stopped(stack, "sandbox"):
        stream = approved(stack, run)
        owner = stack.compose(
            *("exec", "-T", "postgres", "psql", "--username", "postgres", "--tuples-only", "--no-align"),
            *("--command", OWNER.format(run["id"]), "nestor_executor"),
            capture=True,
        )
        shell("docker", "kill", owner.partition("-")[0])  # a container's host name is its id
    *_, (_, last) = stream
    expect(last["run"]["status"] == "in_doubt", "the reminder must be in doubt", last)
    settle(stack, run, before)
    expect(len(reminders(stack)) == len(before) + 1, "there must be one reminder more", reminders(stack))


def healthy(stack: Stack) -> list[str]:
    """The executors that are healthy."""
    containers = stack.compose("ps", "-q", "executor_svc", capture=True).split()
    states = {c: shell("docker", "inspect", "--format", "{{.State.Health.Status}}", c).strip() for c in containers}
    return [container for container, state in states.items() if state == "healthy"]


def waiting(stack: Stack, question: str) -> dict[str, Any]:
    """Request a run without waiting, and follow it until it waits for approval."""
    answer = stack.call("POST", "/solve", {"query": question, "wait": False})
    expect(answer.status == 202, "the run must be accepted", answer)
    events = list(stack.events(f"/runs/{answer.body['id']}/events"))
    run: dict[str, Any] = events[-1][1]["run"]
    expect(run["status"] == "needs_approval" and len(run["previews"]) == 1, "it must wait for approval", run)
    return run


def approved(stack: Stack, run: dict[str, Any]) -> Generator[tuple[int, Any], None, None]:
    """Approve the run without waiting. Returns the stream of its further events as soon as its call is in flight."""
    answer = stack.call("POST", f"/runs/{run['id']}:approve", {"plan_id": run["plan"]["id"], "wait": False})
    expect((answer.status, answer.body["status"]) == (202, "running"), "the approval must be accepted", answer)
    stream = stack.events(f"/runs/{run['id']}/events")
    begun = any(event["kind"] == "step_started" for _, event in stream)
    expect(begun, "its call must be begun", run)
    time.sleep(0.5)  # the call is sent within milliseconds after its event
    return stream


def settle(stack: Stack, run: dict[str, Any], before: list[dict[str, Any]]) -> None:
    """Check whether the reminder exists, as a person would, and settle the call; the run succeeds."""
    kept = stack.call("GET", f"/runs/{run['id']}").body
    expect(len(kept["doubts"]) == 1, "its one call must be listed", kept)
    doubt = kept["doubts"][0]
    expect(doubt["request"] is not None and doubt["request"]["url"].endswith("/reminders"), "with its request", doubt)
    new = [reminder for reminder in reminders(stack) if reminder not in before]
    said = {"outcome": "succeeded", "value": new[0]} if new else {"outcome": "retry"}
    answer = stack.call("POST", f"/runs/{run['id']}/steps/{doubt['step']}:resolve", said)
    expect((answer.status, answer.body["status"]) == (200, "succeeded"), "the settled run must succeed", answer)


def reminders(stack: Stack) -> list[dict[str, Any]]:
    """The existing reminders."""
    return there(stack, "reminders")


def there(stack: Stack, path: str) -> list[dict[str, Any]]:
    """List items of the sandbox, from inside its container."""
    listed = json.loads(
        stack.compose("exec", "-T", "sandbox", "python", "-c", LISTED.replace("PATH", path), capture=True)
    )
    found: list[dict[str, Any]] = listed["items"]
    return found


@contextmanager
def stopped(stack: Stack, service: str) -> Iterator[None]:
    """Pause a service: it accepts connections and requests, and answers when the context ends."""
    container = stack.container(service)
    shell("docker", "pause", container)
    try:
        yield
    finally:
        shell("docker", "unpause", container)
