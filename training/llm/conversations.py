"""Combines several requests about one list of APIs into a conversation, with the properties of TPTU-v2's data (3.3).

A prompt's APIs are most of its tokens. Sharing one list divides that cost among several requests, and the later
requests follow demonstrations, as in the planner. In most conversations the requests are `apart`: each is trained as if
it were the first, so that no request reveals which APIs the others leave. Each property can be switched off:

- *prompt diversity*: the APIs' order is shuffled, and APIs that no request needs are added, similar ones first;
- *instruction diversity*: no, one or many demonstrations come before a request. A share of the requests has polite
  phrases around it. The system's instruction does not vary, because the model is always asked with it;
- *output diversity*: one call, many calls, no call;
- *masking*: in a share of the conversations API names have no meaning, so that the model reads descriptions (Hammer);
- *off-topic rows*: requests that none of the APIs serves.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from planner_svc.backends.served import prompt
from planner_svc.backends.served.signatures import DETAILS, call_names, signature, wanted_names, words_of
from services.contracts.api import Api
from services.contracts.context import Context
from services.registry import PromptForm
from training.llm.turns import Turn

_START: Final = datetime(2023, 1, 1, 8, tzinfo=UTC)
_HOURS: Final = 24 * 365 * 4
_BEFORE: Final = (
    "Hi! ", "Hello, ", "I need your help with this: ", "Could you do this for me? ", "A question: ", "Please: ", "So, ",
)  # fmt: skip
_AFTER: Final = (" Thanks!", " Thank you in advance.", " It is rather urgent.")
_MASKS: Final = ("api", "fn", "op", "tool")


class Properties(BaseModel):
    """The properties of the conversations. Each of TPTU-v2's can be switched off for an ablation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 7
    detail: PromptForm = Field(
        default="brief",
        description="The prompt's form: `brief`, or `full` for larger models, with everything that a hosted model is "
        "told.",
    )
    turns: int = Field(default=4, ge=1, description="Requests in a conversation at most.")
    apis: int = Field(default=10, ge=1, description="APIs in a conversation at most.")
    least_apis: int = Field(
        default=5, ge=1, description="APIs in a conversation at least, where the catalogue has so many."
    )
    apart: float = Field(
        default=0.85, ge=0, le=1, description="Share of conversations whose requests do not see each other."
    )
    shuffle: bool = Field(default=True, description="Prompt diversity: the APIs' order says nothing.")
    siblings: bool = Field(default=True, description="Prompt diversity: APIs like the needed ones stand beside them.")
    off_topic: float = Field(default=0.12, ge=0, le=1, description="Share of requests that no API in the list serves.")
    masked: float = Field(default=0.1, ge=0, le=1, description="Share of conversations in which API names say nothing.")
    reworded: float = Field(default=0.1, ge=0, le=1, description="Share of requests with courtesies around them.")
    chars: int = Field(
        default=3_600, ge=500, description="Longest conversation, in characters, but for its first turn."
    )


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The APIs for a folder's requests, with a search for similar ones."""

    apis: Mapping[str, Api]
    _words: dict[str, frozenset[str]] = field(default_factory=dict)
    _owners: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, apis: Iterable[Api]) -> Catalogue:
        """Index the APIs' words."""
        listed = {api.id: api for api in apis}
        catalogue = cls(listed)
        for api in listed.values():
            found = words_of(f"{api.name} {api.summary or api.description[:120]}")
            catalogue._words[api.id] = found
            for word in found:
                catalogue._owners[word].append(api.id)
        return catalogue

    def like(self, api: str, count: int) -> list[str]:
        """The APIs that share the rarest words with this one, the most similar first; ties are sorted by id."""
        scores: defaultdict[str, float] = defaultdict(float)
        for word in sorted(self._words.get(api, ())):  # sorted, because the order changes sums of floats
            owners = self._owners[word]
            if len(owners) <= 400:
                for owner in owners:
                    scores[owner] += 1 / len(owners)
        scores.pop(api, None)
        return sorted(scores, key=lambda one: (-scores[one], one))[:count]


Conversation = dict[str, Any]


def conversations(
    turns: Sequence[Turn], catalogue: Catalogue, properties: Properties, rounds: int = 1
) -> Iterator[Conversation]:
    """Conversations over a folder's turns. Each turn is in ``rounds`` of them.

    A conversation is ``{"source", "ids", "messages"}``, with ``"masked": true`` if its API names have no meaning and
    ``"apart": true`` if its requests do not see each other. The same turns, catalogue and properties give the same
    conversations.
    """
    rng = random.Random(properties.seed)  # noqa: S311 - repeatable on purpose
    for _ in range(rounds):
        order = list(turns)
        rng.shuffle(order)
        while order:
            yield _Builder(catalogue, properties, rng).conversation(order, turns)


def bare(query: str) -> str:
    """A conversation's request without polite phrases around it."""
    before = next((one for one in _BEFORE if query.startswith(one)), "")
    after = next((one for one in _AFTER if query.endswith(one)), "")
    return query.removeprefix(before).removesuffix(after)


class _Builder:
    def __init__(self, catalogue: Catalogue, properties: Properties, rng: random.Random) -> None:
        self._catalogue, self._properties, self._rng = catalogue, properties, rng

    def conversation(self, order: list[Turn], everything: Sequence[Turn]) -> Conversation:
        """Build a conversation. Takes turns off the end of ``order``."""
        listed, properties = self._catalogue.apis, self._properties
        taken = self._take(order)
        needed = list(dict.fromkeys(api for turn in taken for api in turn.apis))
        shown = self._beside(needed, taken)
        asked = list(taken)
        if self._rng.random() < properties.off_topic * len(taken):
            others = [
                turn for turn in self._rng.sample(everything, min(8, len(everything))) if self._foreign(turn, shown)
            ]
            asked += [Turn(one.id, one.source, one.query, ()) for one in others[:1]]
        self._rng.shuffle(asked)
        apis = [listed[api] for api in shown]
        names = call_names(apis)
        masked = self._rng.random() < properties.masked
        if masked:
            names = {api: f"{self._rng.choice(_MASKS)}_{n}" for n, api in enumerate(names, 1)}
        now = next((turn.now for turn in taken if turn.now), _START + timedelta(hours=self._rng.randrange(_HOURS)))
        wanted = wanted_names(apis, _fields_used(asked))
        words = words_of(" ".join(f"{turn.query} {_arguments_used(turn)}" for turn in asked))
        detail = DETAILS[properties.detail]
        lines = [signature(api, names[api.id], detail, words, wanted) for api in apis]
        messages = [{"role": "system", "content": prompt.system_message(lines, Context(now=now), detail)}]
        for turn in asked:
            messages.append({"role": "user", "content": self._worded(turn.query)})
            messages.append({"role": "assistant", "content": prompt.answer_text(list(turn.calls), names)})
        told = {"source": taken[0].source, "ids": [turn.id for turn in asked], "messages": messages}
        said = {"masked": masked, "apart": self._rng.random() < properties.apart}
        return told | {name: True for name, holds in said.items() if holds}

    def _worded(self, query: str) -> str:
        """The unchanged request; for a share of the requests with a polite phrase before or after it."""
        if not self._properties.reworded or self._rng.random() >= self._properties.reworded:
            return query
        if query.endswith((".", "?", "!")) and self._rng.random() < 0.5:
            return query + self._rng.choice(_AFTER)
        return self._rng.choice(_BEFORE) + query

    def _take(self, order: list[Turn]) -> list[Turn]:
        """Turns that fit into one conversation: with the same clock, few APIs, and not too long."""
        properties = self._properties
        taken = [order.pop()]
        size, apis = _size(taken[0]), set(taken[0].apis)
        wanted = self._rng.randint(max(properties.turns - 2, 1), properties.turns)
        for place in range(len(order) - 1, max(len(order) - 12, -1), -1):
            turn = order[place]
            together = apis | set(turn.apis)
            if len(taken) >= wanted or size + _size(turn) > properties.chars:
                break
            if turn.now == taken[0].now and len(together) <= max(properties.apis * 2 // 3, 1):
                taken.append(order.pop(place))
                size, apis = size + _size(turn), together
        return taken

    def _beside(self, needed: list[str], taken: Sequence[Turn]) -> list[str]:
        """The needed APIs with others: those the data offers, similar ones, and random ones."""
        rng, properties = self._rng, self._properties
        room = min(properties.apis, max(properties.least_apis, len(needed) * 2 + 1, len(needed) + 2))
        others: list[str] = []
        if properties.siblings:
            for api in needed:
                others += self._catalogue.like(api, 3)
            offered = [one for turn in taken for one in turn.offered if one in self._catalogue.apis]
            rng.shuffle(others)
            others = [one for pair in zip(offered, others, strict=False) for one in pair] + offered + others
        everything = list(self._catalogue.apis)
        others += rng.sample(everything, min(len(everything), room))
        shown = list(dict.fromkeys([*needed, *others]))[: max(room, len(needed))]
        if properties.shuffle:
            rng.shuffle(shown)
        return shown

    def _foreign(self, turn: Turn, shown: Sequence[str]) -> bool:
        """Whether none of the shown APIs serves the request, nor is similar to one that does."""
        near = {one for api in turn.apis for one in (api, *self._catalogue.like(api, 3))}
        return bool(turn.calls) and not near & set(shown)


def _size(turn: Turn) -> int:
    return len(turn.query) + len(str(turn.calls))


def _fields_used(turns: Iterable[Turn]) -> frozenset[str]:
    """The last names of the referenced fields: a signature must show them, or the answer could not use them."""
    found: set[str] = set()
    for turn in turns:
        for call in turn.calls:
            for part in str(call["arguments"]).split("$var")[1:]:
                leaf = part.partition("$")[0].rstrip("]0123456789[").rpartition(".")[2]
                found.add("".join(ch for ch in leaf.lower() if ch.isalnum()))
    return frozenset(found - {""})


def _arguments_used(turn: Turn) -> str:
    names: list[str] = []
    for call in turn.calls:
        arguments = call["arguments"]
        names += list(arguments) if isinstance(arguments, dict) else []
    return " ".join(names)
