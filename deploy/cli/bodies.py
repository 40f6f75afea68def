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

    Each operation drawn is asked for in its own words with every required value named (`title "Spring sale", price
    12.5`), among its nearest siblings. Counted is whether the proved plan calls it alone and holds every value where
    it belongs. Operations whose body no sentence can say (a file, an object without declared fields) are listed apart.
    """
    from evals.bodies.command import print_bodies  # services are loaded by those who measure only

    raise typer.Exit(print_bodies(documents, sample, seed, planner, verbose=verbose, as_json=json))
