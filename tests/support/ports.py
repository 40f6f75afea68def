"""Reserves ports for servers of tests, so that parallel tests do not take them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.sockets import listen


@contextmanager
def held_port() -> Iterator[int]:
    """Reserve a port of the loopback interface inside the context, also while no server listens on it."""
    with listen("127.0.0.1", 0) as bound:
        port: int = bound.getsockname()[1]
        if sys.platform != "linux":  # elsewhere the server itself could not bind it either
            bound.close()
        yield port
