"""``nestor apis set`` and ``nestor apis unset``: fixed values that every call of a provider sends."""

from typing import Annotated

import typer
from pydantic import ValidationError

from deploy.cli.gateway import ask
from deploy.drawing import counted, plain, screen, visible
from services.contracts.constants import ConstantsRequest

Provider = Annotated[str, typer.Argument(help="The provider's name.")]


def set_constants(
    provider: Provider,
    values: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="A parameter of the provider's operations and its value."),
    ],
) -> None:
    """Set values to send in every call that takes them, such as an account id or a version.

    Nestor no longer asks for these values; another value in a request takes precedence. They are not secret: for keys
    and tokens use `nestor secrets set`.
    """
    given: dict[str, str | None] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{visible(text)} is not NAME=VALUE")
        given[name] = value
    _change(provider, given)


def unset_constants(
    provider: Provider,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of the values to remove.")],
) -> None:
    """Remove values that were set with `nestor apis set`."""
    _change(provider, dict.fromkeys(names))


def _change(provider: str, given: dict[str, str | None]) -> None:
    try:
        request = ConstantsRequest(constants=given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][1]) if len(first["loc"]) > 1 else "constants"
        raise typer.BadParameter(visible(f"{name}: {first['msg']}")) from None
    told = ask(lambda g: g.set_constants(provider, request))
    console = screen()
    for one in told.constants:
        console.print(plain(f"{one.name}={one.value}  # {counted(one.operations)} of {provider}"), soft_wrap=True)
    if not told.constants:
        console.print(plain(f"{provider} has no constants"))
