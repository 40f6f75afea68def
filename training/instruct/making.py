"""The stages of self-instruct: fields, subfields and tools, then requests for these tools or for a catalogue."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from rich.progress import Progress

from services.contracts.api import Api
from training.instruct.asking import Asker, Task
from training.instruct.journal import Journal
from training.instruct.requests import KINDS, Kind
from training.instruct.tasks import Fields, Request, Subfields, Tools
from training.instruct.tool_sampler import ToolSampler
from training.instruct.tools import Names, api_of
from training.shared.leaks import NearDuplicates

STAGES: Final = ("fields", "subfields", "tools", *KINDS)


class Wanted(BaseModel):
    """How much to generate.

    Attributes:
        fields: in total.
        subfields: per field.
        tools: per subfield.
        single: requests that one call solves.
        multiple: requests that need several calls.
        nested: requests whose calls depend on each other.
        seed: of all random draws.
    """

    model_config = ConfigDict(frozen=True)

    fields: int = Field(default=20, ge=1)
    subfields: int = Field(default=5, ge=1)
    tools: int = Field(default=4, ge=1)
    single: int = Field(default=400, ge=0)
    multiple: int = Field(default=300, ge=0)
    nested: int = Field(default=300, ge=0)
    seed: int = 7

    def of(self, stage: str, journal: Journal) -> int:
        """How many results a stage needs, given the results of the stages before."""
        if stage == "subfields":
            return self.subfields * len(journal.found("fields"))
        if stage == "tools":
            return self.tools * len(_subfields(journal))
        count: int = getattr(self, stage)
        return count


class Maker:
    """Generates tools and requests, stage by stage. Results in the journal are not generated again.

    Args:
        asker: asks the model.
        journal: of the run.
        wanted: how much to generate.
        catalogue: APIs to generate requests for; None: tools are generated.
        progress: shows bars.
    """

    def __init__(
        self, asker: Asker, journal: Journal, wanted: Wanted, catalogue: tuple[Api, ...] | None, progress: Progress
    ) -> None:
        self._asker, self._journal, self._wanted = asker, journal, wanted
        self._catalogue, self._progress = catalogue, progress

    async def make(self) -> None:
        """Generate everything that is wanted, as far as the budget and the model's answers allow.

        Raises:
            ChatError: the model's server does not work.
            DataError: the journal holds an invalid tool.
        """
        if self._catalogue is None:
            await self._stage("fields", self._fields())
            await self._stage("subfields", self._subfields())
            await self._stage("tools", self._tools())
        sampler = ToolSampler(
            made_apis(self._journal) if self._catalogue is None else self._catalogue, self._wanted.seed
        )
        asked = NearDuplicates(query for kind in KINDS for query in self._queries(kind).values())
        for kind in KINDS:
            await self._stage(kind, self._requests(kind, sampler, asked))

    async def _stage(self, stage: str, tasks: Iterable[Task]) -> None:
        if not self._asker.spent:
            total, done = self._wanted.of(stage, self._journal), self._journal.counts(stage)[1]
            bar = self._progress.add_task(stage, total=total, completed=done)
            await self._asker.work(tasks, partial(self._progress.advance, bar))

    def _fields(self) -> Iterator[Task]:
        found = map(str, self._journal.found("fields"))
        yield Fields(self._wanted.fields, Names(found), random.Random(self._wanted.seed))  # noqa: S311 - repeatable

    def _subfields(self) -> Iterator[Task]:
        for field in map(str, self._journal.found("fields")):
            found = map(str, self._journal.found(f"subfields/{field}"))
            yield Subfields(self._wanted.subfields, field, Names(found))

    def _tools(self) -> Iterator[Task]:
        names = Names(api.name for api in made_apis(self._journal))
        for field, subfield in _subfields(self._journal):
            yield Tools(self._wanted.tools, field, subfield, names)

    def _requests(self, kind: Kind, sampler: ToolSampler, asked: NearDuplicates) -> Iterator[Task]:
        draw = {"single": sampler.single, "multiple": sampler.multiple, "nested": sampler.nested}[kind]
        there, like = self._queries(kind), defaultdict[tuple[str, ...], list[str]](list)
        for number in range(getattr(self._wanted, kind)):
            offer = draw(number)
            if offer is None:
                return
            key = tuple(api.id for api in offer.apis)
            task = Request(kind, number, offer, asked, like[key])
            if task.key in there:
                like[key].append(there[task.key])
            yield task

    def _queries(self, kind: Kind) -> dict[str, str]:
        """The existing requests, by task."""
        return {
            task: str(one["query"])
            for task, found in self._journal.tasks(kind).items()
            for one in found
            if isinstance(one, dict)
        }


def made_apis(journal: Journal) -> tuple[Api, ...]:
    """The generated tools, as APIs.

    Raises:
        DataError: the journal holds an invalid tool.
    """
    return tuple(api_of(tool, task.split("/")[1]) for task, found in journal.tasks("tools").items() for tool in found)


def _subfields(journal: Journal) -> list[tuple[str, str]]:
    tasks = journal.tasks("subfields")
    return [(task.partition("/")[2], str(subfield)) for task, found in tasks.items() for subfield in found]
