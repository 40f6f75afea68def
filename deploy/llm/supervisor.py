"""Runs the model's server as a separate process: starts it, waits for it, restarts it if it dies, ends it.

The process is separate so that a crash in the native library does not stop the gateway and its runs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from deploy.llm.errors import ModelServerError
from deploy.llm.probe import gives_token
from deploy.llm.promoted import model_to_serve
from deploy.llm.settings import LlmSettings, settings_from_environment
from deploy.sockets import free_port
from planner_svc.judging.fingerprint import JUDGE
from services.registry import PromptForm
from services.telemetry import get_logger

START_S: Final = 120.0
"""Seconds that the model may take to give its first token. It is read from disk, which may be slow."""
RESTARTS: Final = 5
"""How often a server that keeps dying is restarted. After that, the planner works without it."""
_STEADY_S: Final = 600.0
"""Seconds after which a server counts as stable: if it dies later, the count of restarts begins again."""
_PAUSE_S: Final = 1.0
_GRACE_S: Final = 5.0
_POLL_S: Final = 0.1
_STANDARD_ERROR: Final = 2

PROFILE: Final = Path(__file__).with_name("planner.env")
"""Settings with which the planner calls this model. Variables set in the environment take precedence."""

_FULL_FORM: Final = {"NESTOR_PLANNER_SERVED_DETAIL": "full", "NESTOR_PLANNER_SERVED_PROMPT_TOKENS": "3200"}
"""What differs for a model that was trained with the full form of the prompt: the server's context holds no more."""
_log = get_logger(__name__)


class ServerSupervisor:
    """Runs ``python -m deploy.llm.server`` and restarts it if it dies.

    Args:
        settings: of the server. Port 0 is replaced by a free port, which restarts keep.
        restarts: how often it is restarted.
        pause_s: seconds before the first restart; doubled for each further one.
    """

    def __init__(self, settings: LlmSettings, *, restarts: int = RESTARTS, pause_s: float = _PAUSE_S) -> None:
        host = settings.host
        self._settings = settings.model_copy(update={"port": settings.port or free_port(host)})
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._settings.port}"
        self._restarts, self._pause_s = restarts, pause_s
        self._ending = threading.Event()
        self._process = self._start()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    @property
    def pid(self) -> int:
        """Process id of the current server process."""
        return self._process.pid

    def wait_for_token(self, timeout_s: float = START_S) -> None:
        """Return once the model has given a token. From then on the server is restarted if it dies.

        Raises:
            ModelServerError: the server died first, or no token came in time.
        """
        key = self._settings.api_key
        deadline = time.monotonic() + timeout_s
        while problem := gives_token(self.url, self._settings.name, key.get_secret_value() if key else None):
            if self._process.poll() is not None:
                raise ModelServerError(f"the model's server ended with status {self._process.returncode}")
            if time.monotonic() > deadline:
                raise ModelServerError(f"the model's server gave no token within {timeout_s:.0f} s: {problem}")
            time.sleep(_POLL_S)
        self._watcher.start()

    def close(self) -> None:
        """End the server."""
        self._ending.set()
        if self._watcher.is_alive():
            self._watcher.join()
        _end(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "deploy.llm.server", "--while-stdin"]
        # Terminal signals go to the parent only, which ends the server when its own work is done. The server's output
        # goes to standard error, because the parent's standard output may be JSON.
        return subprocess.Popen(  # noqa: S603 - a fixed command
            line,
            stdin=subprocess.PIPE,
            stdout=_STANDARD_ERROR,
            env=os.environ | _environment(self._settings),
            start_new_session=True,
        )

    def _watch(self) -> None:
        deaths = 0
        while not self._ending.is_set():
            started = time.monotonic()
            while self._process.poll() is None:
                if self._ending.wait(_POLL_S):
                    return
            deaths = 1 if time.monotonic() - started > _STEADY_S else deaths + 1
            if deaths > self._restarts:
                _log.error("model_server_given_up", status=self._process.returncode, restarts=self._restarts)
                return
            _log.warning("model_server_died", status=self._process.returncode, restart=deaths)
            if self._ending.wait(self._pause_s * 2 ** (deaths - 1)):
                return
            _end(self._process)
            self._process = self._start()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, kill it if it does not end in time, and close its standard input."""
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _profile(detail: PromptForm) -> dict[str, str]:
    """The planner's settings for the model. llama.cpp accepts a grammar, which can express more than a JSON schema."""
    lines = [line for line in PROFILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    form = _FULL_FORM if detail == "full" else {}
    return {"NESTOR_PLANNER_SERVED_CONSTRAINT": "gbnf"} | dict(line.split("=", 1) for line in lines) | form


def _judge(folder: Path | None) -> dict[str, str]:
    """The planner's setting for the judge of the model's answers, if the model's folder has one."""
    has_judge = folder is not None and (folder / JUDGE).is_file()
    return {"NESTOR_PLANNER_SERVED_JUDGE": str(folder)} if has_judge else {}


def _environment(settings: LlmSettings) -> dict[str, str]:
    """The settings as environment variables for the server's process."""
    values = {name: value for name, value in settings if value is not None}
    return {
        f"NESTOR_LLM_{name.upper()}": value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in values.items()
    }


@contextlib.contextmanager
def planning_model(detail: PromptForm | None = None) -> Iterator[str]:
    """Serve the model until the context ends, and configure this process's planner to use it. Yields its base URL.

    It is the file NESTOR_LLM_MODEL, or else the model that the registry promotes. That one's answers are judged if its
    folder has a judge.

    Create the planner's settings inside the context, because they read the environment. Only this process has the key.
    ``detail`` is the form of the prompt that the model was trained with; None: the registered one, or brief.

    Raises:
        LlmError: a setting is wrong, a file is missing or is not the registered one, or the server does not start or
            gives no token.
    """
    settings = settings_from_environment()
    if "port" not in settings.model_fields_set:
        settings = settings.model_copy(update={"port": 0})
    model = model_to_serve(settings)
    settings = settings.model_copy(update={"model": model.file})
    key = settings.api_key or SecretStr(secrets.token_urlsafe(24))
    asked = _profile(detail or model.detail) | _judge(model.folder)
    supervisor = ServerSupervisor(settings.model_copy(update={"api_key": key}))
    try:
        supervisor.wait_for_token()
        os.environ |= {
            **{name: os.environ.get(name, value) for name, value in asked.items()},
            "NESTOR_PLANNER_SERVED_URL": f"{supervisor.url}/v1",
            "NESTOR_PLANNER_SERVED_MODEL": settings.name,
            "NESTOR_PLANNER_SERVED_API_KEY": key.get_secret_value(),
        }
        yield supervisor.url
    finally:
        supervisor.close()
