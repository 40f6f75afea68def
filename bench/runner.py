"""The interface of all runners of a graph of calls."""

from typing import Any

from bench.workload import Workload


class Runner:
    """Runs graphs of calls."""

    async def open(self) -> None:
        """Open connections."""

    def prepare(self, workload: Workload) -> None:
        """Prepare a graph before it is run. This is not timed."""

    async def run(self, workload: Workload) -> Any:
        """Run the graph. This is timed."""
        raise NotImplementedError

    def values(self, answer: Any) -> dict[str, int]:
        """The value of every call, from the result of :meth:`run`. This is not timed."""
        given: dict[str, int] = answer
        return given

    async def close(self) -> None:
        """Release all resources."""
