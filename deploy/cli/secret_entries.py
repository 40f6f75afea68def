"""Reads and writes the secrets file for the command line: an entry's value, and the hosts it may be sent to."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue
from yarl import URL

from deploy.drawing import visible
from executor_svc.secret_changes import Changed, tell_change
from executor_svc.secret_file import SecretsUnreadable, change_file, load_file
from executor_svc.secret_store import HOST_PATTERN, Secret, parse
from services.contracts.api import NeededSecret

Name = Annotated[str, typer.Argument(help="PROVIDER.SCHEME, as shown by `nestor secrets list PROVIDER`.")]
File = Annotated[
    Path,
    typer.Option("--file", envvar="NESTOR_EXECUTOR_SECRETS_FILE", help="The executor's secrets file.", dir_okay=False),
]
_HOST = re.compile(HOST_PATTERN)
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", help="`host` (HTTPS) or `host:port` to send it to; can be repeated. Default: the API's."),
]


def entries_of(file: Path) -> dict[str, JsonValue]:
    """The entries by name, not validated. Exits if the file cannot be read."""
    try:
        return load_file(file) if file.exists() else {}
    except SecretsUnreadable as error:
        raise typer.BadParameter(visible(str(error))) from None


def hosts_of(name: str, given: Sequence[str] | None, file: Path, needed: NeededSecret | None) -> list[str]:
    """The hosts a secret may be sent to: the given ones, else those of the replaced entry, else those of the APIs.

    A later import never adds hosts: the set that a person agreed to stays.
    """
    there = entries_of(file).get(name)
    before = there.get("hosts") if isinstance(there, dict) else None
    for one in given or ():
        if not _HOST.fullmatch(one):
            raise typer.BadParameter(visible(f"{one} is not `host` or `host:port`"), param_hint="--host")
    hosts = list(given or ()) or ([str(h) for h in before] if isinstance(before, list) else [])
    hosts = hosts or list(needed.hosts if needed is not None else ())
    if not hosts:
        raise typer.BadParameter("the hosts that it may be sent to are not known: use --host")
    return hosts


def host_of(url: URL) -> str:
    """A URL's host in the form that entries use."""
    host = url.host_subcomponent or ""
    return host if (url.scheme, url.port) == ("https", 443) else f"{host}:{url.port}"


def ask_value(name: str, hosts: Sequence[str], what: str) -> str:
    """Read the value from a prompt that does not show it, or from standard input."""
    if not sys.stdin.isatty():
        typer.echo(visible(f"{name} will be sent only to {', '.join(hosts)}."), err=True)
        return sys.stdin.read().strip("\r\n")
    question = f"The {what} of {name}, sent only to {', '.join(hosts)}"
    return str(typer.prompt(visible(question), hide_input=True))


def parse_entry(name: str, entry: JsonValue) -> Secret:
    """The secret of an entry. Exits if the entry is invalid."""
    try:
        return parse({name: entry}, "the entry")[name]
    except SecretsUnreadable as error:
        raise typer.BadParameter(visible(str(error))) from None


def save_entry(name: str, entry: dict[str, JsonValue], file: Path, action: Changed) -> None:
    """Write an entry to the file, record who did it in the history file, and print it. Exits if that fails."""
    parse_entry(name, entry)
    try:
        tell_change(file, action, name, entry)
        change_file(file, {name: entry})
    except (OSError, SecretsUnreadable) as error:
        raise typer.BadParameter(visible(f"{file} cannot be written: {error}")) from None
    hosts = entry["hosts"] if isinstance(entry["hosts"], list) else []
    typer.echo(visible(f"{name} is set in {file}, only for {', '.join(map(str, hosts))}."))
