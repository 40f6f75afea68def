"""Implements ``nestor train data``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from evals.data import DataError
from training.llm.builder import HELD_OUT, TRAIN, LeakError, Stats, build
from training.llm.recipe import DataRecipe, read_data_recipe
from training.llm.statistics import as_table
from training.shared.cards import table
from training.shared.runs import progress_on


def build_data(
    folders: Sequence[Path],
    recipe_name: str | None,
    root: Path | None,
    made: int | None,
    hold_out_apis: float | None,
    excluded: Sequence[Path],
    out: Path,
    seed: int | None,
) -> int:
    """Build and check the data, and print the statistics. Progress goes to standard error.

    Args:
        folders: of data. A folder here takes precedence over one of the same name in ``root``.
        recipe_name: a shipped recipe, or a file; None: the defaults.
        root: holds the other folders that the recipe names.
        made: generated requests per catalogue that the recipe does not name; None: as in the recipe.
        hold_out_apis: share of the APIs held out; None: as in the recipe.
        excluded: folders that are used for measuring.
        out: folder to write to.
        seed: of all random draws; None: as in the recipe.

    Returns:
        The exit status: 0, or 1 if the data or the recipe cannot be used, or measured requests would be trained on.
    """
    err = Console(stderr=True)
    try:
        recipe = _changed(read_data_recipe(recipe_name), made, hold_out_apis, seed)
        paths = _paths(folders, recipe, root)
        with progress_on(err) as progress:
            stats = build(paths, recipe, excluded, out, progress)
    except (DataError, LeakError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    print(_summary(stats, out))
    return 0


def _changed(recipe: DataRecipe, made: int | None, hold_out_apis: float | None, seed: int | None) -> DataRecipe:
    others = recipe.others if made is None else recipe.others.model_copy(update={"made": made})
    share = recipe.hold_out_apis if hold_out_apis is None else hold_out_apis
    changed = recipe.model_copy(update={"others": others, "hold_out_apis": share})
    if seed is None:
        return changed
    properties = recipe.properties.model_copy(update={"seed": seed})
    return changed.model_copy(update={"seed": seed, "properties": properties})


def _paths(folders: Sequence[Path], recipe: DataRecipe, root: Path | None) -> list[Path]:
    given = {path.resolve().name: path.resolve() for path in folders}
    if len(given) < len(folders):
        raise DataError("two folders have the same name")
    if root is not None:
        given = {name: root / name for name in recipe.folders} | given
    if not given:
        raise DataError("no data: give --folder, --runs, or --recipe with --root")
    if missing := [name for name, path in given.items() if not path.is_dir()]:
        raise DataError(f"there is no folder {', '.join(missing)}: give each with --folder, or all in --root")
    return list(given.values())


def _summary(stats: Stats, out: Path) -> str:
    folders = table(
        ("folder", "APIs", "recorded", "made up", "held out", "held out by API", "left out as near"),
        [
            (name, *(f"{count:,}" for count in one.model_dump(exclude={"licence"}).values()))
            for name, one in stats.folders.items()
        ],
    )
    excluded = "".join(
        f"Nothing near {count:,} requests of {name} is learnt.\n" for name, count in stats.excluded.items()
    )
    form = f"prompt version {stats.prompt_version}, form {stats.recipe.properties.detail}"
    end = f"{excluded}{out / TRAIN}, {form}; to measure by: {out / HELD_OUT}"
    return f"{as_table(stats.counts)}\n\n{folders}\n\n{end}"
