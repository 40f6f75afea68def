"""Writes the results as a folder that `nestor eval plan` and `nestor train data` read, and counts them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from evals.data import DataError, Instance, licence
from evals.recording import tool_row, write_folder
from services.app import version
from services.contracts.api import Api
from training.instruct.journal import Journal
from training.instruct.making import STAGES, Wanted
from training.instruct.refusals import Reason
from training.instruct.requests import KINDS, Kind
from training.instruct.tool_sampler import Part, part_of
from training.shared.cards import table

STATS: Final = "stats.json"
_PARTS: Final[tuple[Part, ...]] = ("train", "dev", "test")


class Stage(BaseModel):
    """The counts of a stage.

    Attributes:
        wanted: number of fields, subfields, tools or requests.
        asked: number of answers.
        accepted: number of accepted results.
        dropped: number of dropped results, by reason.
    """

    wanted: int
    asked: int
    accepted: int
    dropped: dict[Reason, int]


class Stats(BaseModel):
    """The content of ``stats.json``.

    Attributes:
        model: the model that was asked.
        wanted: how much was to be generated.
        tokens: of all questions and answers.
        apis: in ``tools.jsonl``.
        stages: by name.
        requests: in ``instances.jsonl``, by split and kind.
    """

    model: str
    wanted: Wanted
    tokens: int
    apis: int
    stages: dict[str, Stage]
    requests: dict[Part, dict[Kind, int]]


def write(
    out: Path, model: str, journal: Journal, wanted: Wanted, apis: Sequence[Api], catalogue: Path | None
) -> Stats:
    """Write ``tools.jsonl``, ``instances.jsonl``, ``info.json`` and ``stats.json``.

    A request belongs to the split of its tools. If they are of several splits, ``test`` takes precedence over ``dev``,
    and ``dev`` over ``train``.

    Args:
        out: folder to write to.
        model: the model that was asked.
        journal: of the run.
        wanted: how much was to be generated.
        apis: the catalogue.
        catalogue: the folder that it comes from; None: it was generated.

    Raises:
        DataError: the journal holds an invalid request.
    """
    rows = list(_rows(journal))
    write_folder(out, map(tool_row, apis), (row for _, row in rows))
    told = f"Made by the language model {model}: the terms of its licence and of its provider hold for what it writes"
    if catalogue is not None:
        told = f"APIs: {licence(catalogue)}. Requests: {told[0].lower()}{told[1:]}"
    info = {"licence": told, "repo": "nestor train instruct", "commit": version(), "model": model}
    (out / "info.json").write_text(json.dumps(info, ensure_ascii=False) + "\n", encoding="utf-8")
    counted = Counter((row["split"], kind) for kind, row in rows)
    stats = Stats(
        model=model,
        wanted=wanted,
        tokens=journal.tokens,
        apis=len(apis),
        stages={stage: _stage(stage, journal, wanted) for stage in STAGES if catalogue is None or stage in KINDS},
        requests={part: {kind: counted[part, kind] for kind in KINDS} for part in _PARTS},
    )
    (out / STATS).write_text(stats.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return stats


def summary(stats: Stats, out: Path) -> str:
    """The counts in Markdown, and the output folder."""
    stages = table(
        ("stage", "wanted", "asked", "accepted", "dropped"),
        [
            (name, f"{one.wanted:,}", f"{one.asked:,}", f"{one.accepted:,}", _reasons(one.dropped))
            for name, one in stats.stages.items()
        ],
    )
    requests = table(
        ("split", *KINDS),
        [(part, *(f"{count:,}" for count in counts.values())) for part, counts in stats.requests.items()],
    )
    total = sum(sum(counts.values()) for counts in stats.requests.values())
    return f"{stages}\n\n{requests}\n\n{out}: {stats.apis:,} APIs, {total:,} requests, {stats.tokens:,} tokens"


def _stage(stage: str, journal: Journal, wanted: Wanted) -> Stage:
    asked, accepted, dropped = journal.counts(stage)
    return Stage(wanted=wanted.of(stage, journal), asked=asked, accepted=accepted, dropped=dict(dropped.most_common()))


def _reasons(dropped: dict[Reason, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in dropped.items()) or "-"


def _rows(journal: Journal) -> Iterator[tuple[Kind, dict[str, Any]]]:
    for kind in KINDS:
        for task, found in journal.tasks(kind).items():
            for one in found:
                try:
                    row = {"id": task.replace("/", "-")} | (one if isinstance(one, dict) else {})
                    apis = Instance.model_validate(row).apis
                except ValueError:
                    raise DataError(f"the journal has a request {task} that is none") from None
                parts = {part_of(api) for api in apis}
                yield kind, row | {"split": next((part for part in reversed(_PARTS) if part in parts), "train")}
