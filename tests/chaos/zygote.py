"""``python -m tests.chaos.zygote``: forks executor processes, so that a new one takes milliseconds, not seconds.

Orders come as JSON lines, `{"port": ..., "settings": {...}}`; the answer to each is the process id. All modules are
imported before the first fork, and no thread is started. When the input ends, all processes end.
"""

import gc
import json
import os
import signal
import sys
from typing import Any

import aiosqlite  # noqa: F401 - imported for the forked processes
import asyncpg  # noqa: F401
import uvicorn
import uvicorn.loops.uvloop
import uvicorn.protocols.http.httptools_impl

from deploy.sockets import listen
from executor_svc.main import create_app
from executor_svc.settings import ExecutorSettings
from services.storage import engine
from services.telemetry import configure_logging


def serve(port: int, settings: dict[str, Any]) -> None:
    """Run an executor until it is killed."""
    configure_logging(level="WARNING", json=True)
    engine.PATIENCE_S = 3.0  # the default of half a minute is too long for a campaign
    app = create_app(ExecutorSettings(**settings))
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_config=None)
    uvicorn.Server(config).run(sockets=[listen("127.0.0.1", port)])


def main() -> None:
    """Fork one process for each order."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children; the parent watches pidfds
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            try:
                serve(**json.loads(line))
            finally:
                os._exit(1)
        print(pid, flush=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
