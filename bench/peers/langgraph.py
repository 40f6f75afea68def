"""LangGraph: a node for each call, joined by edges. With a checkpointer, every superstep is persisted."""

import operator
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypedDict

import aiohttp
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from bench.peers.plain import fetch, open_session
from bench.runner import Runner
from bench.workload import Node, Workload


class State(TypedDict):
    """The value of every call made so far."""

    values: Annotated[dict[str, int], operator.or_]


class LangGraph(Runner):
    """LangGraph with aiohttp.

    Args:
        file: file of the checkpoints, each written before the next superstep begins; None: no checkpoints.
    """

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._graphs: dict[Workload, Any] = {}

    async def open(self) -> None:
        """Open session and checkpointer."""
        self._stack = AsyncExitStack()
        self._session = await self._stack.enter_async_context(open_session())
        self._saver = None
        if self._file is not None:
            self._saver = await self._stack.enter_async_context(AsyncSqliteSaver.from_conn_string(self._file))

    def prepare(self, workload: Workload) -> None:
        """Build the graph. It is not timed."""
        builder = StateGraph(State)
        for node in workload.nodes:
            builder.add_node(node.name, _made(self._session, workload, node))
            builder.add_edge(list(node.needs) if node.needs else START, node.name)
        self._graphs[workload] = builder.compile(checkpointer=self._saver)

    async def run(self, workload: Workload) -> dict[str, int]:
        """Run the graph. Returns the value of every node."""
        options: dict[str, Any] = {"config": {"recursion_limit": 1_000}}
        if self._saver is not None:
            options["config"]["configurable"] = {"thread_id": uuid.uuid4().hex}
            options["durability"] = "sync"
        state = await self._graphs[workload].ainvoke({"values": {}}, **options)
        values: dict[str, int] = state["values"]
        return values

    async def close(self) -> None:
        """Close both."""
        await self._stack.aclose()


def _made(session: aiohttp.ClientSession, workload: Workload, node: Node) -> Callable[[State], Awaitable[State]]:
    async def call(state: State) -> State:
        return {"values": {node.name: await fetch(session, workload, node, state["values"])}}

    return call
