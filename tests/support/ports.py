"""Ports that servers of tests are told, and that tests running beside do not take."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.sockets import listen


@contextmanager
def held_port() -> Iterator[int]:
    """A port of the loopback interface that nobody else is given meanwhile, also while no server listens on it."""
    with listen("127.0.0.1", 0) as bound:
        port: int = bound.getsockname()[1]
        if sys.platform != "linux":  # elsewhere the server itself would be kept out as well
            bound.close()
        yield port
