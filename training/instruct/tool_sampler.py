"""The tools that requests are generated for: their splits, their groups, and which outputs fit which parameters."""

from __future__ import annotations

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from planner_svc.backends.served.signatures import Detail, answer_fields, call_names, signature, wanted_names
from planner_svc.compiler.assign import mismatch
from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from services.codecs.text import format_path
from services.contracts.api import Api, Location, Parameter
from services.contracts.base import JsonPath

Part = Literal["train", "dev", "test"]
_SHOWN: Final = Detail(optional=20, fields=20, values=20, text=300, request=False, parameter_text=120)
_FIELDS: Final = 60
_FEEDERS: Final = 20
"""How many APIs are considered for one parameter: the first ones."""
_POOL: Final = 8
"""How many APIs are offered for a choice of several; at most half of them share a provider."""
_PARTS: Final = 10


@dataclass(frozen=True, slots=True)
class Link:
    """A field of an API's answer that can be a parameter of another API."""

    giver: Api
    path: JsonPath
    taker: Api
    parameter: Parameter


@dataclass(frozen=True, slots=True)
class Offer:
    """What a model is shown when it writes a request.

    Attributes:
        apis: in the order in which they are shown.
        names: the names shown for them, by id.
        lines: each API as a planner sees it.
        links: which references can be which parameters, in words; empty if no link is required.
    """

    apis: tuple[Api, ...]
    names: dict[str, str]
    lines: tuple[str, ...]
    links: tuple[str, ...] = ()


def part_of(identifier: str) -> Part:
    """The split of an API, or of a request to generate: a tenth is for ``test``, a tenth for ``dev``."""
    number = int(hashlib.sha256(identifier.encode()).hexdigest(), 16) % _PARTS
    return "test" if number == 0 else "dev" if number == 1 else "train"


class ToolSampler:
    """Draws the tools for each request. The same seed and tools give the same draws.

    Args:
        apis: all tools; deprecated ones are ignored.
        seed: of all random draws.
    """

    def __init__(self, apis: Iterable[Api], seed: int) -> None:
        self._seed = seed
        self._apis = [api for api in apis if not api.deprecated]
        self._turns = random.Random(seed).sample(self._apis, len(self._apis))  # noqa: S311 - repeatable on purpose
        self._parts: dict[Part, list[Api]] = defaultdict(list)
        for api in self._apis:
            self._parts[part_of(api.id)].append(api)
        self._links = {part: _by_taker(_links(apis)) for part, apis in self._parts.items()}

    def single(self, number: int) -> Offer | None:
        """One tool, taking turns. None if there is none."""
        return _offer([self._turns[number % len(self._turns)]]) if self._turns else None

    def multiple(self, number: int) -> Offer | None:
        """Tools of one split to choose from, some with the same provider. None if there are fewer than two."""
        rng = self._drawn(f"multiple/{number}")
        part = part_of(f"multiple/{number}")
        apis = self._parts.get(part, [])
        apis = apis if len(apis) > 1 else self._parts.get("train", [])
        if len(apis) < 2:
            return None
        first = rng.choice(apis)
        near = [api for api in apis if api.provider == first.provider and api is not first]
        chosen = [first, *rng.sample(near, min(len(near), _POOL // 2 - 1))]
        rest = [api for api in apis if api not in chosen]
        chosen += rng.sample(rest, min(len(rest), _POOL - len(chosen)))
        rng.shuffle(chosen)
        return _offer(chosen)

    def nested(self, number: int) -> Offer | None:
        """Two or three tools of one split, each with an output that the next one takes. None if no tools are linked."""
        rng = self._drawn(f"nested/{number}")
        links = self._links.get(part_of(f"nested/{number}")) or self._links.get("train") or []
        if not links:
            return None
        chain = [rng.choice(rng.choice(links))]
        used = {chain[0].giver.id, chain[0].taker.id}
        further = [one for some in links for one in some if one.giver is chain[0].taker and one.taker.id not in used]
        if further and rng.random() < 0.5:
            chain.append(rng.choice(further))
        return _offer([chain[0].giver, *(link.taker for link in chain)], chain)

    def _drawn(self, task: str) -> random.Random:
        return random.Random(f"{self._seed} {task}")  # noqa: S311 - repeatable on purpose


def _offer(apis: Sequence[Api], links: Sequence[Link] = ()) -> Offer:
    names, wanted = call_names(apis), wanted_names(apis)
    lines = tuple(signature(api, names[api.id], _SHOWN, frozenset(), wanted) for api in apis)
    told = tuple(
        f"$var{number}{format_path(link.path)}$ can be `{link.parameter.name}` of {names[link.taker.id]}"
        for number, link in enumerate(links, 1)
    )
    return Offer(tuple(apis), names, lines, told)


def _links(apis: Sequence[Api]) -> Iterator[Link]:
    """Links from fields to parameters. The names must be equal, or the field's name ends the parameter's.

    In the latter case the API's name or the path must contain the rest: a field ``customerId`` and the field ``id`` of
    ``findCustomer`` both fit ``customerId``. Fields that repeat an input of the same API are left out.
    """
    schemas = Schemas()
    fields: dict[tuple[str, ...], list[tuple[Api, JsonPath]]] = defaultdict(list)
    for api in apis:
        given = {_words(parameter.name) for parameter in api.parameters}
        for path in answer_fields(api, _FIELDS, schemas):
            leaf = _words(next((part for part in reversed(path) if isinstance(part, str)), ""))
            if leaf and leaf not in given:
                fields[leaf].append((api, path))
    for taker in apis:
        for parameter in taker.parameters:
            wanted = Node(parameter.json_schema, taker.definitions)
            for giver, path in _feeders(_words(parameter.name), fields):
                field = _node(schemas, giver, path)
                as_text = parameter.location is not Location.BODY
                if giver is not taker and field and mismatch(schemas, field, wanted, as_text=as_text) is None:
                    yield Link(giver, path, taker, parameter)


def _by_taker(links: Iterable[Link]) -> list[list[Link]]:
    """The links to each API: those to required parameters, if there are any."""
    found: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        found[link.taker.id].append(link)
    required = ([one for one in some if one.parameter.required] for some in found.values())
    return [most or some for most, some in zip(required, found.values(), strict=True)]


def _feeders(
    wanted: tuple[str, ...], fields: dict[tuple[str, ...], list[tuple[Api, JsonPath]]]
) -> Iterator[tuple[Api, JsonPath]]:
    for start in range(len(wanted)):
        rest = set(wanted[:start])
        for api, path in fields.get(wanted[start:], [])[:_FEEDERS]:
            if rest <= {*_words(api.name), *(word for part in path for word in _words(str(part)))}:
                yield api, path


def _node(schemas: Schemas, api: Api, path: JsonPath) -> Node | None:
    node = Node(api.response.json_schema, api.definitions)
    for part in path:
        child = schemas.child(node, part, strict=True)
        if not isinstance(child, Node):
            return None
        node = child
    return node


def _words(name: str) -> tuple[str, ...]:
    """The words of a name in order and in lower case. ``customerId`` and ``customer_id`` have two."""
    return tuple(re.findall(r"[^\W_]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()))
