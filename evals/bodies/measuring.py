"""Samples write operations, asks for each in plain words, and checks every value in the body of the proved plan."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, JsonValue
from rich.progress import Progress

from evals.bodies.wording import NotExpressible, StatedValue, request_of, stated_values
from evals.data import Call, DataError, Instance
from evals.planning.asking import Answer, open_planner
from evals.planning.offers import Offer, Offers, Source
from evals.retrieve import build_snapshot
from planner_svc.reading.leaves import place_of
from retriever_svc.engine.ranking import RankingOptions, shipped_options
from retriever_svc.importers import import_document
from retriever_svc.settings import RetrieverSettings
from services.contracts.api import Api, Location
from services.contracts.base import JsonPath
from services.contracts.plan import ListValue, LiteralValue, ObjectValue, Step, Value
from services.encoder import Encoder, load_encoder
from services.errors import InvalidDocument

SIBLINGS = 11
"""How many other operations of the document are offered: those with the nearest paths."""
_SERVER = "https://api.example.com"


@dataclass(frozen=True, slots=True)
class BodyRequest:
    """An operation to ask for: the request, the argument values it states, and the operations offered with it."""

    api: Api
    siblings: tuple[Api, ...]
    query: str
    values: tuple[StatedValue, ...]


class BodyResult(BaseModel):
    """The outcome of a request. ``reason`` is the class of failure; empty if the body is right."""

    api: str
    query: str
    reason: str
    detail: str = ""


class BodyReport(BaseModel):
    """How many bodies are built.

    Attributes:
        asked: number of operations asked for.
        built: operations whose body holds every value in the right place.
        reasons: number of failures by class.
        unsayable: sampled operations whose body no sentence can state, by class. They are not asked for.
        tried: each request.
    """

    asked: int
    built: int
    reasons: dict[str, int]
    unsayable: dict[str, int]
    tried: list[BodyResult]


def read_folder(folder: Path) -> dict[str, tuple[Api, ...]]:
    """The operations of every document in a folder, by file name. Files that are not OpenAPI documents are skipped.

    Raises:
        DataError: the folder holds no document.
    """
    found: dict[str, tuple[Api, ...]] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.suffix in (".json", ".yaml", ".yml"):
            try:
                found[file.name] = import_document(file.read_text(encoding="utf-8"), None, _SERVER).apis
            except (InvalidDocument, UnicodeDecodeError):
                continue
    if not found:
        raise DataError(f"{folder} holds no OpenAPI documents")
    return found


def sample_requests(
    documents: Mapping[str, Sequence[Api]], sample: int, seed: int
) -> tuple[list[BodyRequest], Counter[str]]:
    """Sample up to ``sample`` operations that change something and have a body. A seed always gives the same sample.

    Returns:
        The operations, and the number of skipped operations whose body cannot be stated, by class.
    """
    chance = random.Random(seed)  # noqa: S311 - a repeatable sample, not a secret
    every = [(name, api) for name, apis in documents.items() for api in apis if _writes(api)]
    chance.shuffle(every)
    found: list[BodyRequest] = []
    unsayable: Counter[str] = Counter()
    for name, api in every:
        if len(found) == sample:
            break
        try:
            values = stated_values(api, chance)
        except NotExpressible as error:
            unsayable[str(error)] += 1
            continue
        found.append(BodyRequest(api, _siblings(api, documents[name]), request_of(api, values), values))
    return found, unsayable


def _writes(api: Api) -> bool:
    return api.mutating and not api.deprecated and any(one.location is Location.BODY for one in api.parameters)


def _siblings(api: Api, apis: Sequence[Api]) -> tuple[Api, ...]:
    """The operations with the nearest paths: those that share the most leading path segments."""
    own = api.path.split("/")

    def apart(other: Api) -> tuple[int, str]:
        shared = 0
        for ours, theirs in zip(own, other.path.split("/"), strict=False):
            if ours != theirs:
                break
            shared += 1
        return -shared, other.id

    return tuple(sorted((one for one in apis if one.id != api.id), key=apart)[:SIBLINGS])


async def ask_all(
    requests: Sequence[BodyRequest], encoder: Encoder, planner: str | None, progress: Progress
) -> list[BodyResult]:
    """Ask for each operation among its siblings.

    Raises:
        DataError: there is no such planner.
    """
    settings = RetrieverSettings()
    options = shipped_options(settings, encoder.name)
    tried = []
    async with open_planner(planner) as asked:
        for one in progress.track(requests, description="asking"):
            offer = await asyncio.to_thread(_offer, one, encoder, options)
            answer = await asked.ask(one.query, offer, ())
            reason, detail = failure_of(one, answer)
            tried.append(BodyResult(api=one.api.id, query=one.query, reason=reason, detail=detail))
    return tried


def _offer(one: BodyRequest, encoder: Encoder, options: RankingOptions) -> Offer:
    apis = {api.id: api for api in (one.api, *one.siblings)}
    with Progress(disable=True) as silent:
        snapshot = build_snapshot(list(apis.values()), encoder, silent)
    offers = Offers(snapshot, apis, encoder, options, Source.GIVEN)
    return offers.offer(Instance(id=one.api.id, query=one.query, calls=(Call(api=one.api.id),), tools=tuple(apis)))


def failure_of(one: BodyRequest, answer: Answer) -> tuple[str, str]:
    """The class of failure of a plan and its details; two empty strings if its body is right."""
    if answer.compiled is None:
        return answer.status.replace("_", " "), answer.reason
    steps = [step for step in answer.compiled.plan.steps if step.api == one.api.id]
    if not steps:
        return "another operation", ", ".join(step.api for step in answer.compiled.plan.steps)
    if len(steps) > 1 or len(answer.compiled.plan.steps) > 1:
        return "more calls", ", ".join(step.api for step in answer.compiled.plan.steps)
    body = {parameter.name for parameter in one.api.parameters if parameter.location is Location.BODY}
    said = [stated for stated in one.values if stated.path[0] in body]
    wrong = [(stated, held) for stated in said if (held := _held(steps[0], stated.path)) != stated.value]
    if not wrong:
        return "", ""
    absent = all(held is None for _, held in wrong)
    detail = "; ".join(f"{place_of(stated.path)}: {stated.value!r} is {held!r}" for stated, held in wrong)
    return "a value is left out" if absent else "a value is wrong", detail


def _held(step: Step, path: JsonPath) -> JsonValue:
    """The value at a path of a step's arguments; None if there is none, or if it is a reference."""
    value = _plain(step.arguments.get(str(path[0])))
    for part in path[1:]:
        if isinstance(value, dict):
            value = value.get(str(part))
        else:
            value = value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None
    return value


def _plain(value: Value | None) -> JsonValue:
    if isinstance(value, LiteralValue):
        return value.value
    if isinstance(value, ObjectValue):
        return {name: _plain(member) for name, member in value.fields.items()}
    return [_plain(item) for item in value.items] if isinstance(value, ListValue) else None


def measure_bodies(folder: Path, sample: int, seed: int, planner: str | None, progress: Progress) -> BodyReport:
    """Sample operations, ask for them, and check the plans.

    Raises:
        DataError: the folder holds no documents, or there is no such planner.
        EncoderError: the encoder cannot be loaded.
    """
    encoder = load_encoder(RetrieverSettings().encoder, 1)
    requests, unsayable = sample_requests(read_folder(folder), sample, seed)
    tried = asyncio.run(ask_all(requests, encoder, planner, progress))
    reasons = Counter(one.reason for one in tried if one.reason)
    return BodyReport(
        asked=len(tried),
        built=sum(not one.reason for one in tried),
        reasons=dict(reasons.most_common()),
        unsayable=dict(unsayable.most_common()),
        tried=tried,
    )
