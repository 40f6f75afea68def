"""``nestor train corpus``: hand-written requests with their plans."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.training.needs import require

corpus = typer.Typer(no_args_is_help=True, help="The corpus of hand-written requests with their plans.")

_Documents = Annotated[
    Path,
    typer.Option(
        help="Folder of the vendors' documents, which are not in this repository.", file_okay=False, exists=True
    ),
]


@corpus.command("check")
def check_corpus(
    documents: _Documents,
    vendor: Annotated[
        list[str] | None, typer.Option(help="Only this vendor's requests; can be repeated. [all]")
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="Evaluation folder: nothing near its requests may be in the corpus; can be repeated.", file_okay=False
        ),
    ] = None,
) -> None:
    """Check that every plan compiles and that no two requests are nearly equal; print statistics of the corpus."""
    require(())
    from training.corpus.command import check_corpus as check

    raise typer.Exit(check(documents, vendor or [], against or []))


@corpus.command("list")
def list_apis(
    documents: _Documents, vendor: Annotated[str, typer.Argument(help="A vendor's name in vendors.json.")]
) -> None:
    """Print a vendor's APIs, one per line, for people who write requests."""
    require(())
    from training.corpus.command import list_apis as listed

    raise typer.Exit(listed(documents, vendor))


class Part(StrEnum):
    """The split that a vendor's requests belong to."""

    TRAIN = "train"
    STAGES = "stages"
    JUDGE = "judge"
    DEV = "dev"
    TEST = "test"


@corpus.command("export")
def export_corpus(
    documents: _Documents,
    out: Annotated[Path, typer.Option(help="Folder to write tools.jsonl and instances.jsonl to.", file_okay=False)],
    part: Annotated[Part, typer.Option(help="Part of the corpus to write.")] = Part.TRAIN,
) -> None:
    """Write a part as a folder that `nestor train data` and `nestor eval plan` read."""
    require(())
    from training.corpus.command import export_corpus as export

    raise typer.Exit(export(documents, part.value, out))
