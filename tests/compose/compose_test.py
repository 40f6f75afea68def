"""The deployment as a whole, in real containers: build, start, solve, lose a service, recover, take everything down.

Run by ``make compose-test``. A plain script on the standard library: one road with an order, printed step by step with
its timings; it ends with exit status 0 only if every step held. Its passwords, port and project name are its own, so a
stack that is already running here is left alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BASE_IMAGES = ("python:3.11-slim-bookworm", "postgres:17-bookworm", "redis:7-bookworm")
SERVICES = ("gateway", "retriever_svc", "demo_svc", "planner_svc", "executor_svc", "sandbox")
STAND_IN = ROOT / "../shared/tools/stand-in-images"
VICTIM = "planner_svc"
QUESTION = "What is the ISO code of the currency of Japan?"
READ_DOCUMENT = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/openapi.json').read().decode())"


class Broken(Exception):
    """A step did not hold; the message says what was expected and what was seen."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer: status, content type and decoded JSON (or the text where it is none)."""

    status: int
    kind: str
    body: Any


@dataclass(frozen=True)
class Stack:
    """One docker-compose project of this repository's compose file."""

    command: tuple[str, ...]
    project: str
    env_file: Path
    port: int
    environ: dict[str, str]

    def compose(self, *arguments: str, capture: bool = False) -> str:
        """Run docker-compose on the project; its output goes to the terminal unless captured."""
        line = [*self.command, "--project-name", self.project, "--env-file", str(self.env_file), *arguments]
        done = subprocess.run(
            line, cwd=ROOT, env=self.environ, text=True, check=False, stdout=subprocess.PIPE if capture else None
        )
        if done.returncode:
            raise Broken(f"`{' '.join(self.command)} {' '.join(arguments)}` ended with status {done.returncode}")
        return done.stdout or ""

    def call(self, method: str, path: str, body: object = None, timeout_s: float = 60) -> Answer:
        """Send one request through the published port. Raises OSError where nothing answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"content-type": "application/json"} if payload else {})
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        kind = (response.getheader("content-type") or "").partition(";")[0]
        return Answer(response.status, kind, json.loads(text) if kind.endswith("json") else text)

    def ready(self) -> bool:
        """Whether the gateway and everything it needs can work."""
        return self.call("GET", "/readyz").status == 200


def expect(condition: bool, message: str, seen: object) -> None:
    """Raise :class:`Broken` with what was seen (its first 2,000 characters) unless the condition holds."""
    if not condition:
        raise Broken(f"{message}\n  seen: {str(seen)[:2000]}")


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print a step's name before it and its seconds after it."""
    print(f"--> {title}", flush=True)
    started = time.monotonic()
    yield
    print(f"    {time.monotonic() - started:6.1f} s  {title}", flush=True)


def succeeds(*line: str) -> bool:
    """Whether the command exists and ends with status 0; its output is dropped."""
    if shutil.which(line[0]) is None:
        return False
    return subprocess.run(line, capture_output=True, check=False, timeout=900).returncode == 0


def ensure_engine() -> None:
    """See to a running engine and the base images; where no registry answers, the stand-in script makes both."""
    stand_in = Path(os.environ.get("STAND_IN_IMAGES", STAND_IN))
    if not succeeds("docker", "info"):
        missing = list(BASE_IMAGES)
    else:
        missing = [i for i in BASE_IMAGES if not succeeds("docker", "image", "inspect", i)]
        missing = [i for i in missing if not succeeds("docker", "pull", i)]
    if not missing:
        return
    if not stand_in.is_file():
        raise Broken(f"no Docker engine, or {', '.join(missing)} cannot be pulled; start an engine with a registry")
    if subprocess.run([str(stand_in), *missing], check=False).returncode:
        raise Broken("the stand-in images could not be made")


def compose_command() -> tuple[str, ...]:
    """docker-compose, or the plugin of the same name."""
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    if succeeds("docker", "compose", "version"):
        return ("docker", "compose")
    raise Broken("docker-compose is not installed")


def new_stack(folder: Path) -> Stack:
    """A project with a free port, and with passwords of its own in a folder that is thrown away."""
    env_file, secrets_file = folder / "env", folder / "executor.json"
    script = ROOT / "deploy" / "compose" / "make_env.py"
    subprocess.run(
        [sys.executable, str(script), "--env-file", str(env_file), "--secrets-file", str(secrets_file)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environ = os.environ | {"NESTOR_PORT": str(port), "NESTOR_SECRETS_FILE": str(secrets_file)}
    return Stack(compose_command(), f"nestor-test-{os.getpid()}", env_file, port, environ)


def wait_for(what: str, check: Callable[[], object], timeout_s: float = 90) -> None:
    """Ask again every half second until the check is true; Broken with the last thing seen after the timeout."""
    deadline, seen = time.monotonic() + timeout_s, "nothing"
    while time.monotonic() < deadline:
        try:
            result = check()
        except (OSError, http.client.HTTPException) as error:
            result, seen = None, repr(error)
        else:
            seen = repr(result)
        if result:
            return
        time.sleep(0.5)
    raise Broken(f"{what}: not within {timeout_s:.0f} s; last seen: {seen[:2000]}")


def names_victim(answer: Answer) -> bool:
    """Whether this is a 503 problem document that names the service that was killed."""
    right = answer.status == 503 and answer.kind == "application/problem+json"
    return right and VICTIM.removesuffix("_svc") in json.dumps(answer.body)


def check_hardening(stack: Stack) -> None:
    """No service runs as root, can write to its root file system or carries torch, a compiler or a test."""
    probe = "id -u; touch /app/x 2>/dev/null && echo writable; ls -d /app/tests 2>/dev/null; command -v gcc cc curl"
    for service in SERVICES:
        seen = stack.compose("exec", "-T", service, "sh", "-c", f"{probe}; true", capture=True).split()
        expect(seen == ["10001"], f"{service} must be uid 10001, read-only and lean", seen)
        torch = stack.compose(
            "exec",
            "-T",
            service,
            "python",
            "-c",
            "import importlib.util as i; print(i.find_spec('torch'))",
            capture=True,
        )
        expect(torch.strip() == "None", f"{service} must not carry torch", torch)


def import_sandbox(stack: Stack) -> None:
    """Read the sandbox's OpenAPI document, as its operator would, and import it through the gateway."""
    document = stack.compose("exec", "-T", "sandbox", "python", "-c", READ_DOCUMENT, capture=True)
    answer = stack.call("POST", "/apis:import", {"document": document, "provider": "sandbox"})
    expect(answer.status == 200, "the import must be accepted", answer)
    report = json.loads(str(answer.body).splitlines()[-1])
    expect(report.get("kind") == "report", "the import must end with its report", report)


def check_solved(stack: Stack) -> None:
    """The question is answered through the published port."""
    answer = stack.call("POST", "/solve", {"query": QUESTION})
    expect(answer.status == 200 and answer.body["status"] == "succeeded", "the question must be solved", answer)
    expect("JPY" in json.dumps(answer.body["answer"]), "the answer must hold the value", answer.body["answer"])


def check_outage(stack: Stack) -> None:
    """With one service killed, /solve and /readyz say 503 and which one, and liveness stays true."""
    stack.compose("kill", VICTIM)
    solve = stack.call("POST", "/solve", {"query": QUESTION})
    expect(names_victim(solve), f"/solve must be a 503 problem that names {VICTIM}", solve)
    ready = stack.call("GET", "/readyz")
    expect(names_victim(ready), f"/readyz must be a 503 problem that names {VICTIM}", ready)
    alive = stack.call("GET", "/healthz")
    expect(alive.status == 200, "the gateway itself must stay alive", alive)


def road(stack: Stack) -> None:
    """The steps in their order."""
    with step("build the images"):
        stack.compose("build", "--quiet")
    with step("start everything, in order of health"):
        stack.compose("up", "--detach", "--no-build")
        wait_for("/readyz", stack.ready)
    with step("users, read-only file systems, contents"):
        check_hardening(stack)
    with step("import the sandbox's OpenAPI document"):
        import_sandbox(stack)
    with step(f"solve: {QUESTION}"):
        check_solved(stack)
    with step(f"kill {VICTIM}: a clear error"):
        check_outage(stack)
    with step(f"start {VICTIM} again: recovery"):
        stack.compose("start", VICTIM)
        wait_for("/readyz after the restart", stack.ready)
        check_solved(stack)


def take_down(stack: Stack, failed: bool) -> None:
    """Remove containers, networks and volumes, whatever happened; after a failure the last log lines come first."""
    line = [*stack.command, "--project-name", stack.project, "--env-file", str(stack.env_file)]
    if failed:
        subprocess.run([*line, "ps"], cwd=ROOT, env=stack.environ, check=False)
        subprocess.run([*line, "logs", "--no-color", "--tail=40"], cwd=ROOT, env=stack.environ, check=False)
    subprocess.run(
        [*line, "down", "--volumes", "--remove-orphans", "--timeout", "10"], cwd=ROOT, env=stack.environ, check=True
    )


def main() -> int:
    """Run the road; exit status 0 if every step held, 1 otherwise."""
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
                    take_down(stack, failed)
    except Broken as broken:
        print(f"\nFAILED after {time.monotonic() - started:.0f} s: {broken}", file=sys.stderr)
        return 1
    print(f"\ncompose-test passed in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
