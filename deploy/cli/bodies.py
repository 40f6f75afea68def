"""``nestor eval bodies``."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.gateway import Json


def eval_bodies(
    documents: Annotated[Path, typer.Argument(help="Folder of OpenAPI documents.", file_okay=False, exists=True)],
    sample: Annotated[int, typer.Option(min=1, max=10_000, help="Number of writing operations to sample.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed of the sample.")] = 1,
    planner: Annotated[str | None, typer.Option(help="Planner backend. [the one that serves]")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print each failed request.")] = False,
    json: Json = False,
) -> None:
    """Measure how often the planner builds the right body for a writing operation from a complete request.

    For each sampled operation, a request is generated from the operation's own words, with every required value
    (`title "Spring sale", price 12.5`); the candidates are it and its nearest siblings. A plan is right if it is
    proved, calls only this operation and has every value in its place. Operations whose body a sentence cannot describe
    (a file, an object without declared fields) are listed separately.
    """
    from evals.bodies.command import print_bodies  # loads the services

    raise typer.Exit(print_bodies(documents, sample, seed, planner, verbose=verbose, as_json=json))
