"""Tests the whole deployment in real containers: build, start, solve, lose a service, recover, take everything down.

Run by ``make compose-test``. It is a plain script on the standard library. It runs its steps in a fixed order and
prints each with its time. The exit status is 0 only if every step passed. It uses its own passwords, port, project and
image tag, so it does not affect a stack that is already running here.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.compose.crash import check_crash, check_replicas
from tests.compose.gateways import check_gateways
from tests.compose.stack import (
    COMPOSE_FILE,
    ROOT,
    TAG,
    Answer,
    Broken,
    Stack,
    choose_model,
    ensure_engine,
    expect,
    new_stack,
    shell,
    wait_for,
)

INTERNAL = ("retriever_svc", "demo_svc", "planner_svc", "executor_svc")
SERVICES = ("gateway", *INTERNAL, "sandbox", "sandbox_proxy")
IMAGES = tuple(f"nestor-{name}:{TAG}" for name in ("service", "sandbox", "llm"))
VICTIM = "planner_svc"
NESTED = "Which public holidays does Portugal have in 2027?"
SINGLE = "Convert 26.2 miles to kilometers."
SECURED = "Has order ord_17 been shipped yet?"
DEMOS = "demo_svc/data/sandbox_demos.jsonl"
READ_DOCUMENT = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/openapi.json').read().decode())"
# Matches a variable named like a secret whose value does not come from the environment, and a password in a URL.
WRITTEN_SECRET = re.compile(
    r"^\s*\w*(?:PASSWORD|SECRET|TOKEN|KEY|AUTH):[ \t]*(?![ \t]|\$\{|#|$).+|://[^\s/@$]*:[^$\s/@]+@", re.MULTILINE
)
# Prints the addresses that a container can connect to.
REACHED = """import socket, sys
for name in sys.argv[1:]:
    host, port = name.split(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        continue
    print(name)"""
WITHOUT_TOKEN = """import sys, urllib.error, urllib.request
for name in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(f"http://{name}:8000/openapi.json", timeout=5).status)
    except urllib.error.HTTPError as error:
        print(error.code)"""
WITHOUT_KEY = "env -u NESTOR_LLM_API_KEY python -m deploy.llm.probe http://127.0.0.1:8000 nestor-planner"
PROBE = """id -u
ls -d tests var/* .env .git 2>/dev/null
command -v gcc cc curl
python -c 'import torch' 2>&1 | tail -n 1
python -c 'import training' 2>&1 | tail -n 1"""


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print a step's name before it and its duration in seconds after it."""
    print(f"--> {title}", flush=True)
    started = time.monotonic()
    yield
    print(f"    {time.monotonic() - started:6.1f} s  {title}", flush=True)


def check_containers(stack: Stack, services: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
    """No process is root or can write to its root file system. No image has training, torch, a compiler or tests."""
    for service in (*services, *others):
        container = stack.container(service)
        users = {line.split()[0] for line in shell("docker", "top", container, "-eo", "uid,pid").splitlines()[1:]}
        expect(bool(users) and "0" not in users, f"no process of {service} may run as root", users)
        root = stack.compose(
            "exec", "-T", "--user", "root", service, "sh", "-c", "touch /probe 2>&1; ls /probe 2>/dev/null; true",
            capture=True,
        )  # fmt: skip
        expect("Read-only file system" in root, f"the root file system of {service} must be read-only", root)
    for service in services:
        seen = stack.compose("exec", "-T", service, "sh", "-c", PROBE, capture=True).strip().splitlines()
        model = ["var/llm"] if service == "llm" else []
        lean = ["10001", *model, *(f"ModuleNotFoundError: No module named '{n}'" for n in ("torch", "training"))]
        expect(seen == lean, f"{service} must be uid 10001 and carry nothing it does not need", seen)


def check_apart(stack: Stack) -> None:
    """The sandbox reaches no service and no database. Services reject requests without their token."""
    addresses = [f"{name}:8000" for name in ("gateway", *INTERNAL)] + ["postgres:5432", "redis:6379"]
    from_sandbox = stack.compose("exec", "-T", "sandbox", "python", "-c", REACHED, *addresses, capture=True)
    expect(not from_sandbox.strip(), "the sandbox must reach no service and no database", from_sandbox)
    from_planner = stack.compose("exec", "-T", "planner_svc", "python", "-c", REACHED, *addresses[-2:], capture=True)
    expect(not from_planner.strip(), "the planner must reach no database", from_planner)
    there = stack.compose("exec", "-T", "gateway", "python", "-c", REACHED, *addresses[1:-1], capture=True)
    expect(there.split() == addresses[1:-1], "the gateway must reach the services and its database", there)
    for place, services in (("gateway", INTERNAL), ("sandbox_proxy", ("executor_svc",))):
        codes = stack.compose("exec", "-T", place, "python", "-c", WITHOUT_TOKEN, *services, capture=True).split()
        expect(codes == ["401"] * len(services), f"without a token {place} must be refused", codes)


def check_no_secrets(stack: Stack) -> None:
    """No secret is in the compose file, in an image's layers or settings, in the logs or in stored runs."""
    text = COMPOSE_FILE.read_text(encoding="utf-8")
    expect(not WRITTEN_SECRET.search(text), "the compose file must hold no secret", WRITTEN_SECRET.findall(text))
    places = {
        "the compose file": text,
        "the images' history": "".join(shell("docker", "history", "--no-trunc", image) for image in IMAGES),
        "the images' settings": shell("docker", "image", "inspect", *IMAGES),
        "the logs": stack.compose("logs", "--no-color", capture=True),
        "the kept runs": "".join(json.dumps(stack.call("GET", f"/runs/{run['id']}").body) for run in runs(stack)),
    }
    secrets = stack.secrets()
    expect(len(secrets) == 19, "the env file must hold 19 random values", len(secrets))
    for place, content in places.items():
        expect(content != "" and not any(secret in content for secret in secrets), f"{place} must hold no secret", "")


def import_sandbox(stack: Stack) -> None:
    """Read the sandbox's OpenAPI document inside its container, and import it and the demos through the gateway."""
    document = stack.compose("exec", "-T", "sandbox", "python", "-c", READ_DOCUMENT, capture=True)
    answer = stack.call("POST", "/apis:import", {"document": document, "provider": "sandbox"})
    expect(answer.status == 200, "the import must be accepted", answer)
    report = json.loads(str(answer.body).splitlines()[-1])
    expect(report.get("kind") == "report" and report["added"] > 50, "the import must end with its report", report)
    expect(not report["skipped"], "every operation must be imported", report["skipped"])
    demos = [json.loads(line) for line in (ROOT / DEMOS).read_text(encoding="utf-8").splitlines()]
    added = stack.call("POST", "/demos:import", {"demos": demos})
    expect(added.status == 200 and added.body["added"] == len(demos), "the demos must be added", added)


def check_command_line(stack: Stack) -> None:
    """The documented commands work. What they import is imported already."""
    apis = _cli(stack, "apis", "import", "http://sandbox:8000/openapi.json", "--provider", "sandbox")
    expect("0 added, 0 updated" in apis and "0 removed" in apis, "nothing new in the same document", apis)
    demos = _cli(stack, "demos", "import", DEMOS)
    expect(demos.startswith("0 added"), "the image must hold the same demos", demos)
    answer = _cli(stack, "solve", SINGLE, "--json")
    expect(json.loads(answer)["status"] == "succeeded", "the command line must solve", answer)


def _cli(stack: Stack, *arguments: str) -> str:
    return stack.compose("run", "--rm", "-T", "cli", *arguments, capture=True)


def solved(stack: Stack, question: str, value: str, *, calls: int = 1) -> dict[str, Any]:
    """Solve a question through the published port and return the run. Its values must contain this one."""
    answer = stack.call("POST", "/solve", {"query": question})
    expect(answer.status == 200 and answer.body["status"] == "succeeded", "the question must be solved", answer)
    run: dict[str, Any] = answer.body
    expect(value in json.dumps(run["answer"]["values"]), f"the answer must hold {value}", run["answer"])
    outcomes = [record["outcome"]["kind"] for record in run["steps"]]
    expect(outcomes == ["succeeded"] * len(outcomes) and len(outcomes) >= calls, f"{calls} calls or more", run["steps"])
    print(f"             {question}  ->  {run['answer']['text'].splitlines()[0][:80]}", flush=True)
    return run


def check_credential(stack: Stack) -> None:
    """A call that needs a credential is made with it, and the recorded request does not show the credential."""
    run = solved(stack, SECURED, "shipped")
    expect(bool(run["proof"]["credentials"]), "the proof must name the credential", run["proof"])
    headers = run["steps"][-1]["requests"][0]["headers"]
    masked = {name.lower(): value for name, value in headers.items()}.get("authorization", "")
    expect("***" in masked, "the credential must be masked", headers)


def runs(stack: Stack) -> list[dict[str, Any]]:
    """The newest runs."""
    answer = stack.call("GET", "/runs?limit=100")
    expect(answer.status == 200, "the runs must be listed", answer)
    found: list[dict[str, Any]] = answer.body["runs"]
    return found


def check_outage(stack: Stack) -> None:
    """With one service killed, /solve and /readyz return 503 and name the service, and liveness stays true."""
    stack.compose("kill", VICTIM)
    solve = stack.call("POST", "/solve", {"query": SINGLE})
    expect(_is_503(solve) and solve.body["service"] == VICTIM, f"/solve must be a 503 that names {VICTIM}", solve)
    ready = stack.call("GET", "/readyz")
    failing = [name for name, result in ready.body["checks"].items() if result != "ok"]
    expect(_is_503(ready) and failing == [VICTIM], f"/readyz must be a 503 with the check {VICTIM}", ready)
    alive = stack.call("GET", "/healthz")
    expect(alive.status == 200, "the gateway itself must stay alive", alive)


def _is_503(answer: Answer) -> bool:
    return (answer.status, answer.kind) == (503, "application/problem+json")


def check_recovery(stack: Stack) -> None:
    """The service restarts, and the same gateway process uses it."""
    stack.compose("start", VICTIM)
    wait_for("/readyz after the restart", stack.ready)
    solved(stack, SINGLE, "42.16")


def check_no_cache(stack: Stack) -> None:
    """Without Redis requests are still answered, and every service stays ready."""
    stack.compose("kill", "redis")
    solved(stack, NESTED, "2027-04-25", calls=2)
    ready = stack.call("GET", "/readyz")
    expect(ready.status == 200, "/readyz must not hang on a cache that is down", ready)
    stack.compose("start", "redis")
    wait_for("/readyz with Redis again", stack.ready)


def check_kept(stack: Stack, run: dict[str, Any]) -> None:
    """A run from before the gateway's restart is still complete, because PostgreSQL keeps it."""
    stack.compose("restart", "gateway")
    wait_for("/readyz after the gateway's restart", stack.ready)
    expect(run["id"] in {kept["id"] for kept in runs(stack)}, f"GET /runs must list {run['id']}", runs(stack))
    kept = stack.call("GET", f"/runs/{run['id']}")
    expect(kept.body == run, "the run must be as it was answered", kept)


def road(stack: Stack) -> None:
    """Run all steps in order."""
    with step("build the images"):
        stack.compose("build", "--quiet")
    with step("start everything, in order of health, until /readyz"):
        stack.compose("up", "--detach", "--no-build")
        wait_for("/readyz", stack.ready)
    with step("users, read-only file systems, contents"):
        check_containers(stack, SERVICES, ("postgres", "redis"))
    with step("networks apart, services with tokens"):
        check_apart(stack)
    with step("import the sandbox's OpenAPI document and demonstrations"):
        import_sandbox(stack)
    with step("solve through the published port"):
        first = solved(stack, NESTED, "2027-04-25", calls=2)
        solved(stack, SINGLE, "42.16")
    with step("solve with a credential"):
        check_credential(stack)
    with step("the command line in a container"):
        check_command_line(stack)
    gateway = stack.container("gateway"), _started(stack)
    with step(f"kill {VICTIM}: a clear error"):
        check_outage(stack)
    with step(f"start {VICTIM} again: recovery"):
        check_recovery(stack)
    with step("kill redis: slower at most"):
        check_no_cache(stack)
    with step("kill executor_svc in the middle of two runs, start it again: nothing twice, nothing lost"):
        check_crash(stack)
    with step("two executors: one takes over from the other"):
        check_replicas(stack)
    with step("two gateways: roles, quotas, one takes over from the other"):
        check_gateways(stack, NESTED, "2027-04-25")
    expect((stack.container("gateway"), _started(stack)) == gateway, "the gateway must not have restarted", gateway)
    with step("restart the gateway: runs are kept"):
        check_kept(stack, first)
    with step("plan with the language model, served by llama.cpp on the CPU"):
        check_model(stack)
    with step("no secret in file, images, logs or runs"):
        check_no_secrets(stack)


def check_model(stack: Stack) -> None:
    """Choose the model and restart the stack as in docs/containers.md. The model plans, and requires its key."""
    choose_model(stack, "llm")
    stack.compose("build", "--quiet", "llm")
    stack.compose("up", "--detach", "--no-build", "llm", "planner_svc")
    wait_for("a token from the model", lambda: _health(stack, "llm") == "healthy", timeout_s=180)
    wait_for("/readyz with the model", stack.ready)
    check_containers(stack, ("llm",))
    answer = stack.call("POST", "/solve", {"query": SINGLE, "options": {"backend": "served"}})
    expect(answer.status == 200 and answer.body["status"] == "succeeded", "the model must plan", answer)
    expect("42.16" in json.dumps(answer.body["answer"]["values"]), "the answer must hold 42.16", answer.body["answer"])
    attempts = [attempt for trace in answer.body["traces"] for attempt in trace["attempts"]]
    expect(bool(attempts) and attempts[0]["constraint"] == "gbnf", "held to the form of plans", answer.body["traces"])
    open_door = stack.compose("exec", "-T", "llm", "sh", "-c", f"{WITHOUT_KEY} 2>&1; true", capture=True)
    expect("status 401" in open_door, "without its key the model's server must refuse", open_door)


def _health(stack: Stack, service: str) -> str:
    return shell("docker", "inspect", "--format", "{{.State.Health.Status}}", stack.container(service)).strip()


def _started(stack: Stack) -> str:
    return shell("docker", "inspect", "--format", "{{.State.StartedAt}}", stack.container("gateway"))


def main() -> int:
    """Run all steps. Returns the exit status: 0 if every step passed, 1 otherwise."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        with step("a Docker engine and the base images"):
            ensure_engine()
        with tempfile.TemporaryDirectory() as folder:
            stack, failed = new_stack(Path(folder)), True
            try:
                road(stack)
                failed = False
            finally:
                with step("take everything down"):
                    stack.take_down(failed)
    except Broken as broken:
        print(f"\nFAILED after {time.monotonic() - started:.0f} s: {broken}", file=sys.stderr)
        return 1
    print(f"\ncompose-test passed in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
