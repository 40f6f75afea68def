"""What the bench asks of everything that can run a graph of calls."""

from typing import Any

from bench.workload import Workload


class Runner:
    """A way to run a graph of calls."""

    async def open(self) -> None:
        """Get ready."""

    def prepare(self, workload: Workload) -> None:
        """Whatever is done before a graph can be run; it is not timed."""

    async def run(self, workload: Workload) -> Any:
        """Run the graph: what is timed."""
        raise NotImplementedError

    def values(self, answer: Any) -> dict[str, int]:
        """The value of every call, from what :meth:`run` has returned; it is not timed."""
        given: dict[str, int] = answer
        return given

    async def close(self) -> None:
        """Let go of everything."""
