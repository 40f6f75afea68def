"""``nestor eval bodies``."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.gateway import Json


def eval_bodies(
    documents: Annotated[Path, typer.Argument(help="Folder of OpenAPI documents.", file_okay=False, exists=True)],
    sample: Annotated[int, typer.Option(min=1, max=10_000, help="Writing operations to ask for.")] = 200,
    seed: Annotated[int, typer.Option(help="Which ones: the same seed draws the same.")] = 1,
    planner: Annotated[str | None, typer.Option(help="Planner backend. [the one that serves]")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print each request that failed.")] = False,
    json: Json = False,
) -> None:
    """Measure how often the body of a writing operation is built from a request that says all it needs.

    For each sampled operation a request is made from its own words, with every required value (`title "Spring sale",
    price 12.5`); the candidates are its nearest siblings. It counts as right if the proved plan calls only this
    operation and has every value in its place. Operations whose body no sentence can describe (a file, an object
    without declared fields) are listed separately.
    """
    from evals.bodies.command import print_bodies  # loads the services

    raise typer.Exit(print_bodies(documents, sample, seed, planner, verbose=verbose, as_json=json))
