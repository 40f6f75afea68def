"""Run one service as a process of its own: ``python -m deploy.serve retriever_svc --port 8001``."""

import argparse
import contextlib
import gc
import importlib
import signal
import sys

import uvicorn
from pydantic_settings import BaseSettings
from uvicorn.config import STARTUP_FAILURE

from deploy.settings_errors import BadSettings, settings_problem
from deploy.sockets import UnprotectedService, refuse_unprotected
from deploy.traces import sending_traces
from services.errors import UnusableSettings
from services.server import BoundedConfig, raise_file_limit
from services.settings import unknown_variables
from services.telemetry import configure_logging, get_logger

_log = get_logger(__name__)
SERVICES = ("gateway", "retriever_svc", "demo_svc", "planner_svc", "executor_svc", "sandbox")


def main(argv: list[str] | None = None) -> None:
    """Parse the command line and serve until a signal stops it."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.serve", description="Run one of Nestor's services. Settings come from the environment."
    )
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(argv)
    if not 0 <= options.port <= 65_535:
        parser.error("--port must be 0 to 65535")
    # Import only the chosen service, so that a container loads no other code.
    try:
        app = importlib.import_module(f"{options.service}.main").create_app()
        refuse_unprotected(app, options.host)
    except BadSettings as error:  # its own text and traceback contain values, perhaps of secrets
        parser.exit(2, f"{parser.prog}: {settings_problem(error)} (docs/settings.md)\n")
    except (UnprotectedService, UnusableSettings) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    freeze_loaded_objects()
    shorten_switch_interval()
    settings = getattr(app.state, "settings", None)  # the sandbox plays a customer's service and has no settings
    configure_logging(level=getattr(settings, "log_level", "INFO"), json=getattr(settings, "log_json", True))
    if settings is not None:
        warn_about_variables(type(settings))
    raise_file_limit()
    server = uvicorn.Server(BoundedConfig(app, host=options.host, port=options.port, timeout_graceful_shutdown=15))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with sending_traces(), contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again after shutdown
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


def warn_about_variables(*settings: type[BaseSettings]) -> None:
    """Log each environment variable that looks like one of these settings and has no effect."""
    for name in unknown_variables(*settings):
        _log.warning(f"{name} is no setting of this version, and has no effect (docs/settings.md)")


def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collection: they live as long as the process.

    Otherwise every full collection scans them, which stops all runs for 50 to 150 ms (measured on the executor).
    """
    gc.collect()
    gc.freeze()


def shorten_switch_interval() -> None:
    """Let a thread hold the interpreter lock for 1 ms while others want it; Python's default is 5 ms.

    An event loop that shares its process with computing threads waits up to that long each time it wakes.
    """
    sys.setswitchinterval(0.001)


if __name__ == "__main__":
    main()
