"""Fits the second stage of a planner that is trained already, in place, to the requests held out from its training.

A new version may weigh other signs, and a planner that was trained with an earlier one then needs a new second stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.progress import Progress

from evals.data import DataError
from planner_svc.judging.fingerprint import JUDGE
from services.encoder import load_encoder
from training.planner.api_encodings import ApiEncodings
from training.planner.calibration import fit_stages
from training.planner.data import held_out_examples, read_folder, recorded_examples
from training.planner.recipe import Recipe


def refit_second_stage(
    model: Path, paths: Sequence[Path], work: Path, recipe: Recipe, progress: Progress
) -> Mapping[str, Mapping[str, float]]:
    """Fit the second stage and the confidence, and write both to the model's folder. Removes its judge.

    Args:
        model: folder of the planner.
        paths: folders that it was trained on.
        work: folder of examples and vectors. The one of the training, if it is still there, holds most of them.
        recipe: of the training. It determines which requests were held out.
        progress: shows what is done.

    Returns:
        How often the second stage is right, by data set; see :class:`~training.planner.judges.FittedJudges`.

    Raises:
        DataError: a folder cannot be read, or there is nothing to learn.
        EncoderError: the model is damaged.
    """
    work.mkdir(parents=True, exist_ok=True)
    folders = [read_folder(path, recipe) for path in paths]
    where = (work / "catalogues.npz", work, progress)
    held_out = {one.name: held for one in folders if (held := held_out_examples(one, *where))}
    if not held_out:
        raise DataError("no request was held out from the training: there is nothing to learn")
    aside = {one.name: recorded_examples(one, *where) for one in folders if one.name in recipe.aside}
    encodings = ApiEncodings(load_encoder(str(model)), work / "apis.npz")
    examples = (one for read in (*held_out.values(), *aside.values()) for one in read)
    apis = list({id(api): api for one in examples for api in one.candidates}.values())
    encodings.fill(progress.track(apis, description="reading APIs"))
    (model / JUDGE).unlink(missing_ok=True)
    return fit_stages(model, held_out, aside, encodings, recipe.withheld, progress)
