"""A docker-compose project with this repository's compose file, and its engine. Uses only the standard library."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
MAKE_ENV = ROOT / "deploy" / "compose" / "make_env.py"
BASE_IMAGES = ("python:3.11-slim-bookworm", "postgres:17-bookworm", "redis:7-bookworm")
STAND_IN = ROOT / "../shared/tools/stand-in-images"
TAG = "compose-test"
"""The images' tag, so that a stack with `local` images keeps them. The images stay as the next build's cache."""
_OWN_VARIABLES = ("NESTOR_", "POSTGRES_", "REDIS_", "COMPOSE_")
_RANDOM_CHARS = 32


class Broken(Exception):
    """A step failed. The message tells what was expected and what was seen."""


def expect(condition: bool, message: str, seen: object) -> None:
    """Raise :class:`Broken` unless the condition holds. The message has the first 2,000 characters of what was seen."""
    if not condition:
        raise Broken(f"{message}\n  seen: {str(seen)[:2000]}")


def wait_for(what: str, check: Callable[[], object], timeout_s: float = 90) -> None:
    """Repeat the check every half second until it is true. Raises Broken with its last result after the timeout."""
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


@dataclass(frozen=True)
class Answer:
    """One HTTP response: status, content type, decoded JSON (otherwise the text), headers by lower-case name."""

    status: int
    kind: str
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class Stack:
    """One docker-compose project, called with this token, by default the operator's."""

    command: tuple[str, ...]
    project: str
    env_file: Path
    port: int
    environ: dict[str, str]
    token: str = ""

    def compose(self, *arguments: str, capture: bool = False) -> str:
        """Run docker-compose on the project; its output goes to the terminal unless captured."""
        return shell(*self._line(), *arguments, env=self.environ, capture=capture)

    def call(self, method: str, path: str, body: object = None, timeout_s: float = 60) -> Answer:
        """Send one request through the published port. Raises OSError if nothing answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            payload = None if body is None else json.dumps(body)
            headers = self._headers() | ({"content-type": "application/json"} if payload else {})
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        finally:
            connection.close()
        kind = (response.getheader("content-type") or "").partition(";")[0]
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, kind, json.loads(text) if kind.endswith(("/json", "+json")) else text, fields)

    def events(self, path: str, after: int = 0) -> Generator[tuple[int, Any], None, None]:
        """Server-sent events after this number, each with its number, until the stream ends."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=self._headers() | {"last-event-id": str(after)})
            response = connection.getresponse()
            expect(response.status == 200, f"{path} must be a stream", response.status)
            fields: dict[str, str] = {}
            for line in response:
                name, _, value = line.decode("utf-8").rstrip("\r\n").partition(": ")
                if name:
                    fields[name] = value
                elif "data" in fields:
                    yield int(fields["id"]), json.loads(fields["data"])
                    fields = {}
        finally:
            connection.close()

    def ready(self) -> bool:
        """Whether the gateway and everything it needs is ready."""
        return self.call("GET", "/readyz").status == 200

    def container(self, service: str) -> str:
        """The id of a service's container."""
        return self.compose("ps", "-q", service, capture=True).strip()

    def secrets(self) -> list[str]:
        """The random values of the env file."""
        lines = self.env_file.read_text(encoding="utf-8").splitlines()
        return [value for _, _, value in (line.partition("=") for line in lines) if len(value) >= _RANDOM_CHARS]

    def take_down(self, failed: bool) -> None:
        """Remove containers, networks and volumes. After a failure, print the last log lines first."""
        if failed:
            for arguments in (["ps"], ["logs", "--no-color", "--tail=40"]):
                subprocess.run([*self._line(), *arguments], cwd=ROOT, env=self.environ, check=False)
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "10")

    def _headers(self) -> dict[str, str]:
        lines = self.env_file.read_text(encoding="utf-8").splitlines()
        env = {name: value for name, _, value in (line.partition("=") for line in lines)}
        return {"authorization": f"Bearer {self.token or env['NESTOR_GATEWAY_TOKEN']}"}

    def _line(self) -> tuple[str, ...]:
        # The file is named explicitly, so that a user's override file is not used.
        files = ("--file", str(COMPOSE_FILE), "--env-file", str(self.env_file))
        return (*self.command, "--project-name", self.project, *files)


def shell(*line: str, env: dict[str, str] | None = None, capture: bool = True) -> str:
    """Run a command at the repository's root and return its output. Raises Broken if it fails."""
    done = subprocess.run(line, cwd=ROOT, env=env, text=True, check=False, stdout=subprocess.PIPE if capture else None)
    if done.returncode:
        raise Broken(f"`{' '.join(line)}` ended with status {done.returncode}\n{done.stdout or ''}")
    return done.stdout or ""


def new_stack(folder: Path) -> Stack:
    """A project with a free port and its own passwords, which are kept in a temporary folder."""
    env_file, secrets_file = folder / "env", folder / "executor.json"
    shell(sys.executable, str(MAKE_ENV), "--env-file", str(env_file), "--secrets-file", str(secrets_file))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    # Variables of another stack in the user's shell would override the env file.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
    environ |= {"NESTOR_PORT": str(port), "NESTOR_SECRETS_FILE": str(secrets_file), "NESTOR_TAG": TAG}
    return Stack(_compose_command(), f"nestor-test-{os.getpid()}", env_file, port, environ)


def choose_model(stack: Stack, profile: str) -> None:
    """Configure the stack to serve a language model with this profile: ``llm`` or ``gpu``."""
    secrets_file = stack.environ["NESTOR_SECRETS_FILE"]
    options = ("--env-file", str(stack.env_file), "--secrets-file", secrets_file, "--model", profile)
    shell(sys.executable, str(MAKE_ENV), *options)


def ensure_engine() -> None:
    """Ensure a running engine and the base images. If no registry answers, the stand-in script provides both."""
    stand_in = Path(os.environ.get("STAND_IN_IMAGES", STAND_IN))
    if not _succeeds("docker", "info"):
        missing = list(BASE_IMAGES)
    else:
        missing = [i for i in BASE_IMAGES if not _succeeds("docker", "image", "inspect", i)]
        missing = [i for i in missing if not _succeeds("docker", "pull", i)]
    if not missing:
        return
    if not stand_in.is_file():
        raise Broken(f"no Docker engine, or {', '.join(missing)} cannot be pulled; start an engine with a registry")
    if subprocess.run([str(stand_in), *missing], check=False).returncode:
        raise Broken("the stand-in images could not be made")


def _compose_command() -> tuple[str, ...]:
    """docker-compose, or the plugin of the same name."""
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    if _succeeds("docker", "compose", "version"):
        return ("docker", "compose")
    raise Broken("docker-compose is not installed")


def _succeeds(*line: str) -> bool:
    """Whether the command exists and ends with status 0. Its output is discarded."""
    if shutil.which(line[0]) is None:
        return False
    return subprocess.run(line, capture_output=True, check=False, timeout=900).returncode == 0
