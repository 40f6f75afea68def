"""``nestor apis set`` and ``nestor apis unset``: values that each call of a provider sends, set once."""

from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from deploy.cli.gateway import ask
from deploy.drawing import plain, visible
from services.contracts.constants import ConstantsRequest

Provider = Annotated[str, typer.Argument(help="The provider's name.")]


def set_constants(
    provider: Provider,
    values: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="A parameter of the provider's operations and its value."),
    ],
) -> None:
    """Set values that are sent in every call which takes them, such as an account's id or a version.

    Nobody is asked for them any more; a request that names another value gets that one. They are no secrets: see
    `nestor secrets set` for keys and tokens.
    """
    given: dict[str, str | None] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{visible(text)} is not NAME=VALUE")
        given[name] = value
    _change(provider, given)


def unset_constants(
    provider: Provider, names: Annotated[list[str], typer.Argument(metavar="NAME...", help="What to forget.")]
) -> None:
    """Remove values that `nestor apis set` has set."""
    _change(provider, dict.fromkeys(names))


def _change(provider: str, given: dict[str, str | None]) -> None:
    try:
        request = ConstantsRequest(constants=given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][1]) if len(first["loc"]) > 1 else "constants"
        raise typer.BadParameter(visible(f"{name}: {first['msg']}")) from None
    told = ask(lambda g: g.set_constants(provider, request))
    console = Console()
    for one in told.constants:
        console.print(plain(f"{one.name}={one.value}  # {one.operations} operations of {provider}"), soft_wrap=True)
    if not told.constants:
        console.print(plain(f"{provider} has no constants"))
