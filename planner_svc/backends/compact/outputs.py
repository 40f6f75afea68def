"""Outputs of other calls that may be a parameter's value: those that the network finds likely and that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from planner_svc.backends.compact.calls import most_unsaid
from planner_svc.backends.compact.inputs import Floats, Origin
from planner_svc.backends.compact.items import Encoded, Kind
from planner_svc.backends.compact.links import (
    ID,
    MAX_LINKS,
    LinkCandidate,
    is_id_of_another,
    nearness,
    writes_back,
)
from planner_svc.backends.compact.spans import ParameterTarget
from planner_svc.backends.compact.task import Task
from planner_svc.compiler.assign import Mismatch, mismatch
from planner_svc.compiler.schemas import Schemas
from planner_svc.reading.profile import Field, first_item
from planner_svc.reading.text import stems

IMPLIED: Final = 0.15
"""Smallest probability at which an API that returns what a call needs is called as its supplier. It is scaled down by
the network's certainty that the value comes from another call."""
DEMONSTRATED: Final = 2.0
"""Log-odds that a demo of the same request adds to its calls and to its links."""
MAX_OUTPUTS: Final = 20
"""Fields tried for one parameter, likeliest first."""


class Outputs:
    """The outputs of a task's APIs.

    Args:
        task: what to decode.
        called: how likely each candidate is called.
        sources: the network's probabilities of each parameter's source.
    """

    def __init__(self, task: Task, called: Floats, sources: Floats) -> None:
        self._task, self._called, self._sources = task, called, sources
        self._schemas = Schemas()  # a profile's own are shared: another API would use up their budget
        self._unsaid = most_unsaid(task.reading.inputs, sources)

    def candidates(self, target: ParameterTarget, chosen: Sequence[int]) -> list[LinkCandidate]:
        """The likeliest outputs for a parameter, strongest first."""
        consumer = self._task.apis[target.number].profile
        surely = float(self._sources[target.place][Origin.REFERENCE]) if target.slot.required else 0.0
        strong: list[tuple[float, int, Field]] = []
        for other, api in enumerate(self._task.apis):
            implied = self._called[other] >= IMPLIED * (1 - surely) and not api.profile.api.mutating
            if other == target.number or (other not in chosen and not implied):
                continue
            shown = (api.profile.api.id, consumer.api.id) in self._task.hints.feeds
            strong += [(odds + DEMONSTRATED * shown, other, field) for odds, field in self._fields(target, other, api)]
        strong.sort(key=lambda one: -one[0])
        candidates: list[LinkCandidate] = []
        for strength, other, output in strong[:MAX_OUTPUTS]:
            wrong = self._misfit(output, target)
            if wrong is not None and wrong.certain and output.kinds == {"array"}:
                output = first_item(self._schemas, output)
                wrong = self._misfit(output, target)
            if wrong is None or not wrong.certain:
                called = float(self._called[other])
                near = nearness(consumer.api, self._task.apis[other].profile.api)
                unsaid = float(self._unsaid[other])
                candidates.append(
                    LinkCandidate(other, output, strength, called, other in chosen, wrong is None, near, unsaid)
                )
        return candidates[:MAX_LINKS]

    def _fields(self, target: ParameterTarget, other: int, api: Encoded) -> Iterator[tuple[float, Field]]:
        """The log-odds and the fields of an API's answer that may be the parameter's value.

        A change gets neither what is there already nor the id of another thing. A read gets the latter only from an
        operation that is named after the thing: "/workspaces/{id}/forms" lists forms.
        """
        logits = self._task.reading.logits["reference"][target.place]
        consumer = self._task.apis[target.number].profile.api
        for at, item in self._task.items(other, Kind.OUTPUT):
            field = api.profile.fields[item.field]
            if writes_back(consumer, target.slot, api.profile.api, field):
                continue
            named = not (consumer.mutating or api.profile.title.isdisjoint(target.slot.words[:-1]))
            if named or not is_id_of_another(target.slot, field, self._things_with_ids):
                yield float(logits[at]), field

    @cached_property
    def _things_with_ids(self) -> frozenset[frozenset[str]]:
        """What has an ``id`` in the answers of the candidates, as stems."""
        fields = (field for api in self._task.apis for field in api.profile.fields)
        return frozenset(frozenset(stems(field.holder)) for field in fields if field.words == (ID,))

    def _misfit(self, output: Field, target: ParameterTarget) -> Mismatch | None:
        return mismatch(self._schemas, output.node, target.slot.node, as_text=target.slot.as_text)
