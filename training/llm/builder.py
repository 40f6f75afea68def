"""Builds the data set for finetuning a language model, from folders in the format that :mod:`evals.data` reads.

Measured requests stay out: a fifth of each folder's requests by a hash of their ids (the same fifth that the compact
planner holds out), all requests for held-out APIs, and near duplicates of requests in excluded folders. A held-out
request that is a near duplicate of a training request is not measured.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from rich.progress import Progress

from evals.data import DataError, Instance, licence, read_all, training_splits
from evals.recording import tool_row, write_folder
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from services.contracts.api import Api
from training.llm.conversations import Catalogue, Conversation, bare, conversations
from training.llm.recipe import DataRecipe, FolderRecipe
from training.llm.statistics import Counts, count
from training.llm.turns import Turn, made_turns, recorded_turns
from training.planner.data import CLOCKS, is_held_out
from training.planner.synthesis import MADE, synthesise
from training.shared.leaks import NearDuplicates

TRAIN: Final = "train.jsonl"
STATS: Final = "stats.json"
HELD_OUT: Final = "held-out"
HELD_OUT_APIS: Final = "held-out-apis"
_BUCKETS: Final = 10_000


class LeakError(ValueError):
    """The training set holds requests that are to be measured. The message shows them."""


class FolderStats(BaseModel):
    """Counts of a folder. ``near`` counts near duplicates that were left out."""

    licence: str
    apis: int
    recorded: int = 0
    made: int = 0
    held_out: int = 0
    held_out_apis: int = 0
    near: int = 0


class Stats(BaseModel):
    """The content of ``stats.json``."""

    prompt_version: str
    recipe: DataRecipe
    folders: dict[str, FolderStats]
    excluded: dict[str, int]
    sha256: str
    counts: dict[str, Counts]


@dataclass(slots=True)
class _Taken:
    """A folder that is being read: what is trained on and what is held out."""

    name: str
    apis: tuple[Api, ...]
    catalogue: Catalogue
    stats: FolderStats
    held_out: list[Instance] = field(default_factory=list)
    held_out_apis: list[Instance] = field(default_factory=list)
    conversations: list[Conversation] = field(default_factory=list)


def build(
    folders: Sequence[Path], recipe: DataRecipe, excluded: Sequence[Path], out: Path, progress: Progress
) -> Stats:
    """Build and write ``train.jsonl``, ``held-out/FOLDER``, ``held-out-apis/FOLDER`` and ``stats.json``.

    Args:
        folders: of data. They are read in the order of the recipe, then in the given order.
        recipe: what to take from each.
        excluded: folders whose requests, of all splits, are never trained on, nor their near duplicates. For a folder
            that is also in ``folders``, only its test splits are excluded.
        out: folder to write to.
        progress: shows a bar.

    Raises:
        DataError: a folder cannot be read, or there is nothing to train on.
        LeakError: the final check finds requests that are to be measured.
    """
    ordered = _ordered(folders, recipe)
    kept_out: dict[str, list[str]] = {}
    for path in excluded:
        kept_out.setdefault(path.name, []).extend(_measured(path, ordered))
    apart = NearDuplicates(query for queries in kept_out.values() for query in queries)
    rng = random.Random(recipe.seed)  # noqa: S311 - repeatable on purpose
    task = progress.add_task("reading", total=len(ordered))
    taken = []
    for path in ordered:
        progress.update(task, description=f"reading {path.name}")
        taken.append(_take(path, recipe, apart, rng))
        progress.advance(task)
    rows = [one for folder in taken for one in folder.conversations]
    if not rows:
        raise DataError("there is nothing to learn: no request has calls, and none was made up over the catalogues")
    rng.shuffle(rows)
    learnt = NearDuplicates(_queries(rows))
    out.mkdir(parents=True, exist_ok=True)
    written = [place for folder in taken for place in _write_held_out(folder, learnt, out)]
    part = out / f"{TRAIN}.part"
    part.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    check_leaks(part, written, kept_out)
    part.replace(out / TRAIN)
    stats = Stats(
        prompt_version=PROMPT_VERSIONS[recipe.properties.detail],
        recipe=recipe,
        folders={one.name: one.stats for one in taken},
        excluded={name: len(queries) for name, queries in kept_out.items()},
        sha256=hashlib.sha256((out / TRAIN).read_bytes()).hexdigest(),
        counts=count(rows),
    )
    (out / STATS).write_text(stats.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return stats


def check_leaks(train: Path, held_out: Iterable[Path], excluded: dict[str, list[str]] | None = None) -> None:
    """Read the written files again and compare them.

    Args:
        train: a file of conversations.
        held_out: folders of requests that are measured.
        excluded: further requests, by a name for messages.

    Raises:
        LeakError: a conversation holds one of these requests or a near duplicate.
    """
    with train.open(encoding="utf-8") as lines:
        learnt = NearDuplicates(_queries(json.loads(line) for line in lines))
    measured = {folder.name: [one.query for one in read_all(folder).instances] for folder in held_out}
    found = [
        f"{name}: {query!r} is learnt as {near!r}"
        for name, queries in (*measured.items(), *(excluded or {}).items())
        for query in queries
        if (near := learnt.of(query)) is not None
    ]
    if found:
        told = "\n".join(found[:5])
        raise LeakError(f"{len(found)} requests that are to be measured are in the training set:\n{told}")


def read_stats(folder: Path) -> Stats:
    """The ``stats.json`` of a data set.

    Raises:
        DataError: it is missing or malformed.
    """
    try:
        return Stats.model_validate_json((folder / STATS).read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / STATS} is not what `nestor train data` writes: {error}") from None


def _ordered(folders: Sequence[Path], recipe: DataRecipe) -> list[Path]:
    """The folders in the recipe's order: all draws come from one generator, so the arguments' order must not matter."""
    places = {name: place for place, name in enumerate(recipe.folders)}
    return sorted(folders, key=lambda path: places.get(path.name, len(places)))


def _measured(path: Path, learnt: Sequence[Path]) -> list[str]:
    """The requests of an excluded folder; if it is also trained on, only those of its other splits."""
    instances = read_all(path).instances
    if path.resolve() not in {one.resolve() for one in learnt}:
        return [one.query for one in instances]
    splits = training_splits({one.split or "" for one in instances})
    return [one.query for one in instances if (one.split or "") not in splits]


def _take(path: Path, recipe: DataRecipe, apart: NearDuplicates, rng: random.Random) -> _Taken:
    whole = read_all(path)
    wanted = recipe.of(path.name)
    hidden = {api.id for api in whole.apis if _is_hidden(api.id, recipe.hold_out_apis)}
    shown = tuple(api for api in whole.apis if api.id not in hidden)
    stats = FolderStats(licence=licence(path), apis=len(whole.apis))
    taken = _Taken(path.name, whole.apis, Catalogue.of(shown), stats)
    properties = recipe.properties.model_copy(update={"turns": wanted.turns})
    if wanted.recorded != 0:
        turns = _recorded(taken, whole.instances, hidden, recipe, wanted, apart, rng)
        stats.recorded = len(turns)
        taken.conversations += conversations(turns, taken.catalogue, properties, wanted.rounds)
    if wanted.made:
        made = _made(taken, shown, recipe, wanted, apart)
        stats.made = len(made)
        taken.conversations += conversations(made, taken.catalogue, properties)
    return taken


def _recorded(
    taken: _Taken,
    instances: Sequence[Instance],
    hidden: set[str],
    recipe: DataRecipe,
    wanted: FolderRecipe,
    apart: NearDuplicates,
    rng: random.Random,
) -> list[Turn]:
    splits = training_splits({one.split or "" for one in instances})
    free: list[Instance] = []
    for one in instances:
        if (one.split or "") not in splits:
            continue
        if one.apis & hidden:
            taken.held_out_apis.append(one)
        elif is_held_out(one.id):
            taken.held_out.append(one)
        elif apart.of(one.query) is not None:
            taken.stats.near += 1
        else:
            free.append(one)
    rng.shuffle(free)
    turns = [
        turn
        for turn in recorded_turns(free, taken.catalogue.apis, taken.name, CLOCKS.get(taken.name))
        if len(turn.query) < recipe.query_chars and len(str(turn.calls)) < recipe.calls_chars and _fits(turn, recipe)
    ]
    if wanted.nested is not None or wanted.flat is not None:
        nested = [turn for turn in turns if "$var" in str(turn.calls)]
        flat = [turn for turn in turns if "$var" not in str(turn.calls)]
        turns = nested[: wanted.nested] + flat[: wanted.flat]
    return turns[: wanted.recorded]


def _made(
    taken: _Taken, shown: tuple[Api, ...], recipe: DataRecipe, wanted: FolderRecipe, apart: NearDuplicates
) -> list[Turn]:
    source = f"{taken.name}{MADE}"
    examples = synthesise(shown, recipe.made_seed, wanted.made, source=source)
    turns = [
        turn for turn in made_turns(examples, source) if len(turn.query) < recipe.query_chars and _fits(turn, recipe)
    ]
    kept = [turn for turn in turns if apart.of(turn.query) is None]
    taken.stats.near += len(turns) - len(kept)
    return kept


def _fits(turn: Turn, recipe: DataRecipe) -> bool:
    number = len(turn.calls)
    return number >= recipe.least_calls and (recipe.most_calls is None or number <= recipe.most_calls)


def _is_hidden(api: str, share: float) -> bool:
    return int(hashlib.sha256(api.encode()).hexdigest(), 16) % _BUCKETS < share * _BUCKETS


def _queries(rows: Iterable[Conversation]) -> list[str]:
    return [bare(message["content"]) for row in rows for message in row["messages"] if message["role"] == "user"]


def _write_held_out(folder: _Taken, learnt: NearDuplicates, out: Path) -> list[Path]:
    """Write the held-out requests without near duplicates of training requests; return the written folders."""
    written = []
    for kind, instances in ((HELD_OUT, folder.held_out), (HELD_OUT_APIS, folder.held_out_apis)):
        kept = [one for one in instances if learnt.of(one.query) is None]
        folder.stats.near += len(instances) - len(kept)
        if kind == HELD_OUT:
            folder.stats.held_out = len(kept)
        else:
            folder.stats.held_out_apis = len(kept)
        if kept:
            written.append(out / kind / folder.name)
            write_folder(written[-1], map(tool_row, folder.apis), map(_row, kept))
    return written


def _row(instance: Instance) -> dict[str, Any]:
    """The instance without its split: a folder of held-out requests has only one."""
    return instance.model_dump(mode="json", exclude_none=True, exclude={"split"})
