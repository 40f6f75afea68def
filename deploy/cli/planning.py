"""``nestor eval plan``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.gateway import Json
from deploy.cli.llm import exit_on_llm_error


class Candidates(StrEnum):
    """Where the planner's candidates come from."""

    OWN = "own"
    VENDOR = "vendor"
    GIVEN = "given"
    GOLD = "gold"


Distractors = Annotated[
    int, typer.Option(min=0, max=150, help="Wrong APIs to add to the `gold` ones: the nearest, shuffled.")
]
Demos = Annotated[
    Path | None,
    typer.Option(help="Demonstrations for the planner: a folder like DATA, or a file for `nestor demos import`."),
]
Shots = Annotated[
    int | None,
    typer.Option(min=0, max=20, help="Maximum number of demonstrations, from DEMOS or DATA's training splits."),
]
Predictions = Annotated[Path | None, typer.Option(help="Write one line per request to this file.", dir_okay=False)]
RequestsOut = Annotated[
    Path | None,
    typer.Option(help="Write the prompts of `served` as an OpenAI Batch file instead of measuring.", dir_okay=False),
]
ResponsesIn = Annotated[
    list[Path] | None,
    typer.Option(help="Read the answers of `served` from this batch file; can be repeated.", dir_okay=False),
]


def eval_plan(
    data: Annotated[Path, typer.Option(help="Folder with tools.jsonl and instances.jsonl, or the papers' files.")],
    split: Annotated[str | None, typer.Option(help="Split to measure. Default: `dev`, or the only one.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Measure a fixed sample of this many requests.")] = None,
    candidates: Annotated[
        Candidates,
        typer.Option(
            help="`own`: found in the whole folder; `vendor`: found among the needed vendors' APIs; `given`: each "
            "request's own tools; `gold`: the needed ones."
        ),
    ] = Candidates.OWN,
    k: Annotated[
        int | None, typer.Option("--k", min=1, max=100, help="Number of candidates. [as many as `/solve`]")
    ] = None,
    distractors: Distractors = 0,
    planner: Annotated[str | None, typer.Option(help="Planner backend. [the one that serves]")] = None,
    demos: Demos = None,
    shots: Shots = None,
    encoder: Annotated[str | None, typer.Option(help="Sentence encoder instead of the default.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Cache embeddings in this .npz file.", dir_okay=False)] = None,
    predictions: Predictions = None,
    requests_out: RequestsOut = None,
    responses_in: ResponsesIn = None,
    json: Json = False,
) -> None:
    """Measure plans: the right calls, arguments and references, and whether they run.

    Prints Seal-Tools' tool and parameter scores, NESTFUL's sequence match and pass rate, and reference scores, in
    percent; docs/planning-results.md explains each. Plans are run against a mock. PREDICTIONS has both solutions,
    what a language model wrote, the compiler's findings and the counts.

    REQUESTS_OUT writes the prompts for a language model to a file. Once a batch of any server has answered them,
    RESPONSES_IN measures the answers. With both, the prompts that are still open (to repair a plan) are written.

    `--planner served` uses the configured model (NESTOR_PLANNER_SERVED_URL), or starts the one that
    `nestor serve --llm` takes.
    """
    from evals.planning.command import Measurement, measure_planning  # loads the services
    from evals.planning.offers import Source

    wanted = Measurement(
        data=data,
        split=split,
        limit=limit,
        candidates=Source(candidates.value),
        k=k,
        distractors=distractors,
        planner=planner,
        demos=demos,
        shots=shots,
        encoder=encoder,
        cache=cache,
        predictions=predictions,
        requests_out=requests_out,
        responses_in=tuple(responses_in or ()),
    )
    with _shipped_model() if _needs_model(wanted.offline, planner) else nullcontext():
        status = measure_planning(wanted, as_json=json)
    raise typer.Exit(status)


def _needs_model(offline: bool, planner: str | None) -> bool:
    return planner == "served" and not offline and not os.environ.get("NESTOR_PLANNER_SERVED_URL")


@contextmanager
def _shipped_model() -> Iterator[None]:
    """Serve the model that ships."""
    from deploy.llm.supervisor import planning_model

    with exit_on_llm_error(), planning_model():
        yield
