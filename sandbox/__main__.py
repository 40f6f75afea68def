"""``python -m sandbox``: serve the sandbox with uvicorn."""

from __future__ import annotations

import argparse
import sys

import uvicorn

from sandbox.main import create_app
from sandbox.settings import SandboxSettings


def main(argv: list[str] | None = None) -> int:
    """Parse the command line, start the server and block until it stops; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m sandbox",
        description="Serve the offline API estate. Its OpenAPI document is at /openapi.json.",
        epilog="Settings are environment variables NESTOR_SANDBOX_*; credentials left unset are random per start.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8090, help="port to listen on (default: %(default)s)")
    parser.add_argument("--log-level", default="info", choices=["critical", "error", "warning", "info", "debug"])
    arguments = parser.parse_args(argv)
    settings = SandboxSettings()
    if unset := settings.unset_credentials():
        print(
            f"credentials random for this run, set them to call protected endpoints: {', '.join(unset)}",
            file=sys.stderr,
        )
    uvicorn.run(create_app(settings), host=arguments.host, port=arguments.port, log_level=arguments.log_level)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
