"""What every test may use."""

from collections.abc import Iterator

import pytest
from schemathesis.core.errors import InvalidSchema

from services.encoder import Encoder, load_encoder
from services.telemetry import configure_logging
from tests.support import fuzz

pytest_plugins = [
    "tests.support.examples",
    "tests.support.migrations",
    "tests.support.postgres",
    "tests.support.redis",
    "tests.support.upstream",
]


@pytest.fixture(autouse=True, scope="session")
def _logs() -> None:
    """Bugs only, on standard error: what a test reads on standard output is the program's own."""
    configure_logging(level="ERROR", json=False)


@pytest.fixture(autouse=True, scope="session")
def _readiness() -> Iterator[None]:
    """`/readyz` checks anew each time it is asked."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("services.app.SHARED_S", 0.0)
        yield


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The encoder that ships, loaded once."""
    return load_encoder()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of `make test-train`."""
    parser.addoption("--no-skips", action="store_true", help="fail where a test is skipped: all that it needs is there")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes a minute: begun last, it would keep one worker busy while the others wait."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail for want of what a skipped test needs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.option.no_skips and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have recorded as their summary, whichever process they ran in."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == "summary" and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(str(text))
    if fuzzed := sum(
        int(str(value))
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "fuzzed" and report.when == "call"
    ):
        terminalreporter.section("Requests made from the services' own documents")
        terminalreporter.write_line(f"{fuzzed:,} in tests that passed: none answered with a 5xx or against its schema")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count the requests that schemathesis makes; skip, visibly, what it could make none of.

    It happens once in dozens of runs that it takes a recursive schema for one that no value meets. The operation's
    other runs test it; what a service answers is judged elsewhere and never skipped.
    """
    before = fuzz.SENT.total()
    try:
        yield
        if made := fuzz.SENT.total() - before:
            item.user_properties.append(("fuzzed", made))
    except InvalidSchema as error:
        if not str(error).startswith("Cannot generate"):
            raise
        pytest.skip(f"schemathesis made no request: {error}")
