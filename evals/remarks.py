"""How often remarks about plans that only read are wrong. On reference solutions all of them are.

``python -m evals.remarks FOLDER [--split NAME] [--predictions FILE]`` prints counts and texts of two remarks: that no
API tells what is asked for (``planner_svc.proving.untold``), and that the plan leaves out a value
(``planner_svc.proving.unused_values``). The candidates of a solution are all APIs of the vendors that it calls, up to
the number that a planner is offered. The candidates of a request that nothing fits are the tools that it names.
``FILE`` is the output of ``nestor eval plan --predictions``: plans for requests that nothing fits are taken from it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evals.data import Call, DataError, Instance, read_dataset, read_lines
from evals.planning.demonstrations import plan_of
from evals.predictions import Planned, without_answer
from planner_svc.proving.untold import untold
from planner_svc.proving.unused_values import values_left_out
from services.contracts.api import Api
from services.contracts.context import Context
from services.contracts.plan import Plan

_OFFERED = 24
"""How many candidates a planner reads."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    status: str
    predicted: tuple[Planned, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """Read-only plans, and the remarks among them.

    Attributes:
        reads: number of plans.
        sentences: pairs of a request and the remark about it.
    """

    reads: int
    sentences: tuple[tuple[str, str], ...]


def of_solutions(instances: Sequence[Instance], apis: Mapping[str, Api], *, alone: bool) -> Said:
    """The sentences about the reference solutions; all of them are wrong.

    Args:
        instances: requests with their solutions.
        apis: all APIs of the folder by id.
        alone: whether the called APIs are the only candidates.
    """
    vendors: dict[str, list[Api]] = {}
    for api in apis.values():
        vendors.setdefault(api.provider, []).append(api)
    offered = {name: tuple(found[:_OFFERED]) for name, found in vendors.items()}
    rows = (
        (one, () if alone else tuple(api for name in _vendors(one, apis) for api in offered[name])) for one in instances
    )
    return _said(rows, apis)


def of_drafts(instances: Sequence[Instance], apis: Mapping[str, Api], lines: Mapping[str, _Line]) -> Said:
    """The sentences about plans that were drafted for requests that nothing fits.

    Args:
        instances: requests; those that something fits are skipped.
        apis: all APIs of the folder by id.
        lines: predictions by request.
    """
    drafts = (
        (
            one.model_copy(update={"calls": _calls(lines[one.id])}),
            tuple(apis[name] for name in one.tools or () if name in apis),
        )
        for one in instances
        if not one.calls and one.id in lines and lines[one.id].status == "planned"
    )
    return _said(drafts, apis)


def leaving_values_out(instances: Sequence[Instance], apis: Mapping[str, Api]) -> Said:
    """The values that reference solutions seem to leave out; all of them are wrong."""
    reads, sentences = 0, []
    for one in instances:
        plan = plan_of(one)
        if plan is None or not _only_reads(plan, apis):
            continue
        reads += 1
        context = Context(now=one.now) if one.now is not None else Context()
        left = values_left_out(one.query, context, plan, apis)
        if left:
            sentences.append((one.query, ", ".join(left)))
    return Said(reads, tuple(sentences))


def _only_reads(plan: Plan, apis: Mapping[str, Api]) -> bool:
    return all(step.api in apis and not apis[step.api].mutating for step in plan.steps)


def _said(rows: Iterable[tuple[Instance, tuple[Api, ...]]], apis: Mapping[str, Api]) -> Said:
    reads, sentences = 0, []
    for one, offered in rows:
        plan = plan_of(one)
        if plan is None or not _only_reads(plan, apis):
            continue
        reads += 1
        sentence = untold(one.query, plan, {step.api: apis[step.api] for step in plan.steps}, offered)
        if sentence:
            sentences.append((one.query, sentence))
    return Said(reads, tuple(sentences))


def _vendors(instance: Instance, apis: Mapping[str, Api]) -> list[str]:
    return list(dict.fromkeys(apis[call.api].provider for call in instance.calls if call.api in apis))


def _calls(line: _Line) -> tuple[Call, ...]:
    made = without_answer(line.predicted)
    return tuple(Call(api=call.name, args=call.arguments, label=call.label) for call in made)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts and every sentence."""
    parser = argparse.ArgumentParser(prog="python -m evals.remarks", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--predictions", type=Path)
    options = parser.parse_args(arguments)
    try:
        dataset = read_dataset(options.folder, options.split)
        file = options.predictions
        lines = {line.id: line for _, line in read_lines(file, _Line)} if file is not None else {}
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    apis = {api.id: api for api in dataset.apis}
    told = {
        "solutions, a vendor's APIs as candidates (wrongly)": of_solutions(dataset.instances, apis, alone=False),
        "solutions, no other candidates (wrongly)": of_solutions(dataset.instances, apis, alone=True),
        "plans for what nothing fits": of_drafts(dataset.instances, apis, lines),
        "solutions, values left out (wrongly)": leaving_values_out(dataset.instances, apis),
    }
    for name, said in told.items():
        print(f"{name}: {len(said.sentences)} of {said.reads} plans that only read")
        for query, sentence in said.sentences:
            print(f"  {' '.join(query.split())[:120]}\n    {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
