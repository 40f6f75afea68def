"""Statistics of a data set, counted as in the papers' tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, Field

from planner_svc.backends.served.prompt import estimate_tokens
from training.llm.conversations import Conversation
from training.shared.cards import table

ALL = "all"


class Counts(BaseModel):
    """Counts of a source, or of all sources.

    ``requests`` counts turns: a request in several conversations counts in each. ``single``, ``multiple``, ``nested``
    and ``none`` partition them: one call, several independent calls, calls that take fields of others, no call.
    ``tokens`` is estimated from characters and rounded up.
    """

    conversations: int = 0
    masked: int = 0
    requests: int = 0
    distinct: int = 0
    single: int = 0
    multiple: int = 0
    nested: int = 0
    none: int = 0
    calls: int = 0
    apis: int = Field(default=0, description="Called at least once, by their names in the answers.")
    tokens: int = 0

    def row(self, name: str) -> tuple[str, ...]:
        """A line of the table."""
        share = 100 * self.nested / max(self.requests, 1)
        return (
            name, f"{self.conversations:,}", f"{self.requests:,}", f"{self.distinct:,}", f"{self.apis:,}",
            f"{self.calls:,}", f"{self.calls / max(self.requests, 1):.2f}", f"{self.single:,}", f"{self.multiple:,}",
            f"{self.nested:,}", f"{share:.1f}", f"{self.none:,}", f"{self.tokens / max(self.conversations, 1):.0f}",
        )  # fmt: skip


HEAD = (
    "source", "conversations", "requests", "distinct", "APIs called", "calls", "calls a request", "single", "multiple",
    "nested", "nested %", "none", "tokens a conversation",
)  # fmt: skip


def count(conversations: Iterable[Conversation]) -> dict[str, Counts]:
    """Counts by source, and under :data:`ALL`."""
    found: defaultdict[str, Counts] = defaultdict(Counts)
    ids: defaultdict[str, set[str]] = defaultdict(set)
    apis: defaultdict[str, set[str]] = defaultdict(set)
    for one in conversations:
        source = str(one["source"])
        for name in (source, ALL):
            counts = found[name]
            counts.conversations += 1
            counts.masked += bool(one.get("masked"))
            counts.tokens += sum(estimate_tokens(message["content"]) for message in one["messages"])
            ids[name].update(f"{source} {identifier}" for identifier in one["ids"])
            for message in one["messages"]:
                if message["role"] == "assistant":
                    calls = orjson.loads(message["content"])["calls"]
                    _add(counts, calls)
                    if not one.get("masked"):
                        apis[name].update(f"{source} {call['name']}" for call in calls)
    for name, counts in found.items():
        counts.distinct, counts.apis = len(ids[name]), len(apis[name])
    return dict(found)


def as_table(counts: Mapping[str, Counts]) -> str:
    """The counts in Markdown, with the total last."""
    names = [name for name in counts if name != ALL] + [name for name in counts if name == ALL]
    return table(HEAD, [counts[name].row(name) for name in names])


def _add(counts: Counts, calls: Sequence[Mapping[str, Any]]) -> None:
    counts.requests += 1
    counts.calls += len(calls)
    nested = any("$var" in str(call["arguments"]) for call in calls)
    counts.none += not calls
    counts.nested += nested
    counts.single += len(calls) == 1 and not nested
    counts.multiple += len(calls) > 1 and not nested
