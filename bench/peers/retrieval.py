"""Other tool retrievers on the same catalogue, each set up as its documentation says.

A ``Searcher`` takes a request and a budget, and returns ids, best first. Peers run with their defaults. A peer that
needs an encoder gets Nestor's base encoder, so that nothing is downloaded and only the search method differs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from services.contracts.api import Api

Searcher = Callable[[str, int], list[str]]
Embed = Callable[[Sequence[str]], list[list[float]]]


def langgraph_bigtool(apis: Iterable[Api], embed: Embed) -> Searcher:
    """langgraph-bigtool's default: vectors of "name: description" in LangGraph's in-memory store."""
    from langgraph.store.base import PutOp
    from langgraph.store.memory import InMemoryStore
    from langgraph_bigtool.tools import get_default_retrieval_tool

    index: Any = {"embed": embed, "dims": len(embed(["dimension"])[0]), "fields": ["description"]}
    store, space = InMemoryStore(index=index), ("tools",)
    store.batch([PutOp(space, api.id, {"description": f"{api.name}: {described(api)}"}) for api in apis])

    def search(query: str, k: int) -> list[str]:
        retrieve, _ = get_default_retrieval_tool(space, limit=k)
        return list(retrieve(query, store=store))

    return search


def graph_tool_call(apis: Iterable[Api], _: Embed) -> Searcher:
    """graph-tool-call's default: words and a graph of the tools, added one provider at a time."""
    from graph_tool_call import ToolGraph

    graph = ToolGraph()
    for _provider, group in groupby(sorted(apis, key=lambda api: api.provider), key=lambda api: api.provider):
        graph.add_tools([function(api) for api in group])

    def search(query: str, k: int) -> list[str]:
        return [tool.name for tool in graph.retrieve(query, top_k=k)]

    return search


PEERS: Mapping[str, Callable[[Iterable[Api], Embed], Searcher]] = {
    "langgraph-bigtool": langgraph_bigtool,
    "graph-tool-call": graph_tool_call,
}


def described(api: Api) -> str:
    """Summary and description."""
    return f"{api.summary} {api.description}".strip()


def function(api: Api) -> dict[str, Any]:
    """The API as an OpenAI function, the input format of such libraries. Its id becomes the name."""
    properties = {p.name: {"type": "string"} | p.json_schema | {"description": p.description} for p in api.parameters}
    required = [p.name for p in api.parameters if p.required]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": api.id, "description": described(api), "parameters": parameters}}
