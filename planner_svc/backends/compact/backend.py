"""The trained backend: reads the request together with its candidates, decodes calls and builds a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner_svc.backends.compact.assembly import Assembly
from planner_svc.backends.compact.confidence import Calibration, signs_of
from planner_svc.backends.compact.decode import CALLED, Decoder
from planner_svc.backends.compact.demo_hints import hints_from
from planner_svc.backends.compact.encodings import Encodings
from planner_svc.backends.compact.inputs import features_of
from planner_svc.backends.compact.items import Encoded
from planner_svc.backends.compact.reader import Reader
from planner_svc.backends.compact.task import Task
from planner_svc.evidence import TriedCalls
from planner_svc.models import PlanDraft
from planner_svc.reading.context import given_values, read_clock
from planner_svc.reading.loops import with_loops
from services.compute import ComputePool, checkpoint
from services.contracts.api import Api
from services.contracts.planning import PlanRequest

_LIKELIEST: Final = 2
"""Operations named where it is not likely that none is meant."""
_MAX_SUMMARY: Final = 100
NOTHING: Final = "Nothing in the catalogue fits this request."
MAX_CANDIDATES: Final = 24


class CompactBackend:
    """Plans with the network that ships. Between requests it keeps only a bounded cache of encoded APIs."""

    name = "compact"

    def __init__(self, reader: Reader, calibration: Calibration, pool: ComputePool) -> None:
        self._encodings = Encodings(reader.lower)
        self._reader = reader
        self._calibration = calibration
        self._pool = pool

    async def read(self, apis: Sequence[Api]) -> int:
        """Read APIs before a request has them as candidates."""
        return await self._pool.run(self._read, apis)

    def _read(self, apis: Sequence[Api]) -> int:
        return len([self._encodings.of(api) for api in apis])

    async def plan(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan; see :class:`~planner_svc.backends.base.PlannerBackend`."""
        return await self._pool.run(self.draft, request)

    def draft(self, request: PlanRequest) -> PlanDraft:
        """Draft a plan, on the calling thread. APIs whose calls were tried and did not help are left out."""
        tried = TriedCalls(request.evidence)
        drafted = self._draft(request)
        for _ in request.evidence:
            without = tried.apis_to_avoid(drafted.plan) if drafted.plan is not None else set()
            if not without:
                break
            left = tuple(one for one in request.candidates if one.api.id not in without)
            request = request.model_copy(update={"candidates": left})
            drafted = self._draft(request)
        return drafted

    def _draft(self, request: PlanRequest) -> PlanDraft:
        seen = [one for one in request.candidates if not one.api.deprecated][:MAX_CANDIDATES]
        if not seen or not re.search(r"\w", request.query):
            return PlanDraft(None, 0.9, reason=NOTHING)
        apis = [self._encodings.of(candidate.api) for candidate in seen]
        reading = self._reader.read(request.query, apis, [features_of(one, rank) for rank, one in enumerate(seen)])
        checkpoint()
        now, given = read_clock(request.context), given_values(request.context)
        hints = hints_from(request.demos, {one.api.id for one in seen}, now)
        decoder = Decoder(Task(request.query, apis, reading, now, given, hints), self._reader.judges)
        calls = decoder.calls(decoder.chosen())
        if not calls:
            return PlanDraft(None, decoder.probability_of_set, reason=_why_nothing(decoder, apis))
        assembly = Assembly(apis, calls, decoder)
        plan = with_loops(assembly.plan(), request.query, {one.api.id: one.api for one in seen})
        return PlanDraft(plan, self._calibration.probability(signs_of(decoder, calls)), assembly.missing())


def _why_nothing(decoder: Decoder, apis: Sequence[Encoded]) -> str:
    """Why nothing is called: nothing fits, or, if that is not likelier than not, which operations may be meant."""
    if decoder.probability_of_set >= CALLED:
        return NOTHING
    order = sorted(range(len(apis)), key=lambda number: -decoder.called[number])[:_LIKELIEST]
    named = (apis[number].profile.api for number in order)
    said = " and ".join(f"“{(api.summary or api.name)[:_MAX_SUMMARY].rstrip('. ')}”" for api in named)
    likeliest = f"The likeliest are {said}" if len(order) > 1 else f"The likeliest is {said}"
    return f"I cannot tell which operation is meant. {likeliest}. Describe in more detail what you want."
