"""Fixtures every test may use."""

import pytest

from services.telemetry import configure_logging

pytest_plugins = ["tests.support.postgres", "tests.support.redis"]


@pytest.fixture(autouse=True, scope="session")
def _logs() -> None:
    """Bugs only, on standard error: what a test reads on standard output is the program's own."""
    configure_logging(level="ERROR", json=False)
