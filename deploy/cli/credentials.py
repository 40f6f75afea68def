"""``nestor secrets``: the credentials that calls present, in a file that the executor reads.

Values are read from a prompt or from standard input, never from the command line, and never printed.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table
from yarl import URL

from deploy.cli.binding import (
    Cookie,
    Header,
    InBody,
    InPath,
    Query,
    Tenants,
    bind_secret,
    chosen_place,
    for_tenants,
    given_place,
    in_places,
    place_of_secret,
)
from deploy.cli.gateway import EXIT_PROBLEM, ask, gateway
from deploy.cli.keeping import File, Hosts, Name, ask_value, checked, entries_of, host_of, hosts_of, keep
from deploy.drawing import plain, visible
from executor_svc.secret_changes import tell_change, told_changes
from executor_svc.secret_file import DEFAULT_FILE, SecretsUnreadable, change_file, load_file
from executor_svc.secret_store import AwsKey, Certificate, Client, Login, Secret, Token, parse
from services.clients import GatewayClient
from services.contracts.api import LOGINS, Location, NeededSecret, SecretKind
from services.errors import ServiceError

secrets = typer.Typer(no_args_is_help=True, help="The credentials that calls present. Values are never shown.")
secrets.command("bind")(bind_secret)
_MOST_SHOWN: Final = 40
_SHAPES: Final[dict[type[Secret], str]] = {
    Token: "a key or token",
    Login: "a user name and password",
    Client: "an OAuth2 client",
    Certificate: "a client certificate",
    AwsKey: "an AWS access key",
}


@secrets.command("set")
def set_secret(
    name: Name,
    host: Hosts = None,
    file: File = DEFAULT_FILE,
    username: Annotated[str | None, typer.Option(help="Of a login; it is asked for otherwise.")] = None,
    client_id: Annotated[str | None, typer.Option(help="Set an OAuth2 client; its secret is asked for.")] = None,
    access_key_id: Annotated[str | None, typer.Option(help="Of an AWS key; its secret is asked for.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file of a client certificate.", exists=True)] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of its private key.", exists=True)] = None,
    header: Header = None,
    query: Query = None,
    cookie: Cookie = None,
    path: InPath = None,
    body: InBody = None,
    tenant: Tenants = None,
) -> None:
    """Set a credential.

    The value is asked for without showing it, or read from standard input. It will be sent to the hosts that are
    named, and nowhere else; by default these are the hosts of the provider's APIs, as they were imported. A key also
    keeps the place in a request where these APIs want it.
    """
    needed = _needed(name)
    there = entries_of(file).get(name)
    before = checked(name, there) if there is not None else None
    kind = needed.kind if needed is not None else SecretKind.OTHER
    hosts = hosts_of(name, host, file, needed)
    tenants = tenant or (list(before.tenants) if before is not None and before.tenants else None)
    entry: dict[str, JsonValue] = {"hosts": list[JsonValue](hosts), **for_tenants(tenants)}
    if certificate is not None or kind is SecretKind.MUTUAL_TLS:
        if certificate is None or key is None:
            raise typer.BadParameter("a client certificate takes --certificate and --key")
        entry |= {"certificate": str(certificate.absolute()), "key": str(key.absolute())}
    elif access_key_id is not None or kind is SecretKind.AWS_SIGV4:
        entry["access_key_id"] = access_key_id or typer.prompt("Access key id")
        entry["secret_access_key"] = ask_value(name, hosts, "secret access key")
    elif client_id is not None:
        token_host = _token_host(needed)
        if token_host is not None and token_host not in hosts and host is None:
            hosts = [*hosts, *_agreed(name, token_host)]
            entry["hosts"] = list[JsonValue](hosts)
        entry |= {"client_id": client_id, "client_secret": ask_value(name, hosts, "client secret")}
    elif username is not None or kind in (SecretKind.BASIC, SecretKind.DIGEST):
        entry["username"] = username if username is not None else typer.prompt("User name")
        entry["password"] = ask_value(name, hosts, "password")
    else:
        place = given_place(in_places(header, query, cookie, path, body))
        entry |= chosen_place(name, place, before, needed)
        entry["value"] = ask_value(name, hosts, "value")
    keep(name, entry, file, "set")


@secrets.command("list")
def list_secrets(
    provider: Annotated[str | None, typer.Argument(help="What this provider's APIs ask for, too.")] = None,
    file: File = DEFAULT_FILE,
) -> None:
    """List credentials: those in the file, or those that a provider's APIs ask for. Never their values."""
    console = Console()
    if provider is not None:
        table = Table("secret", "kind", "operations", "sent to", "", box=None)
        for one in ask(lambda g: g.secrets(provider)).secrets:
            state = "configured" if one.configured else "missing"
            table.add_row(plain(one.secret), plain(said(one)), str(one.operations), plain(", ".join(one.hosts)), state)
        console.print(table)
        return
    try:
        known = parse(load_file(file), "the secrets file") if file.exists() else {}
    except SecretsUnreadable as error:
        raise typer.BadParameter(visible(str(error))) from None
    table = Table("secret", "holds", "sent to", "travels in", "for", box=None)
    for name, secret in sorted(known.items()):
        whom = plain(", ".join(secret.tenants)) if secret.tenants else "every tenant"
        table.add_row(
            plain(name), _SHAPES[type(secret)], plain(", ".join(secret.hosts)), plain(place_of_secret(secret)), whom
        )
    console.print(table)
    typer.echo(f"{len(known)} in {file}")
    _warn("may be used by every tenant", [n for n, one in known.items() if not one.tenants], "--tenant TENANT")
    nowhere = [n for n, one in known.items() if isinstance(one, Token) and one.place is None and one.scheme is None]
    _warn("may stand wherever a document says in a header or cookie", nowhere, "--header NAME")


def _warn(what: str, names: list[str], option: str) -> None:
    """Say what ought to be looked at, and the command that mends it."""
    if names:
        shown = ", ".join(sorted(names)[:_MOST_SHOWN])
        typer.echo(visible(f"warning: {what}: {shown}. To restrict one: nestor secrets bind NAME {option}"), err=True)


@secrets.command("test")
def test_secret(name: Name) -> None:
    """Have the executor present a credential, in a harmless call where the provider has one, and say what came of it.

    Of OAuth2 a token is fetched. The exit status is 0 where the credential works as far as that tells.
    """
    came = ask(lambda g: g.try_secret(name))
    typer.echo(visible(f"{name}: {came.outcome}. {came.message}"))
    if came.outcome not in ("accepted", "ready"):
        raise typer.Exit(EXIT_PROBLEM)


@secrets.command("remove")
def remove_secret(name: Name, file: File = DEFAULT_FILE) -> None:
    """Remove a credential from the file."""
    if not file.exists() or name not in entries_of(file):
        raise typer.BadParameter(visible(f"{name} is not in {file}"))
    tell_change(file, "remove", name)
    change_file(file, {name: None})
    typer.echo(visible(f"{name} is removed from {file}."))


@secrets.command("history")
def show_changes(
    name: Annotated[str | None, typer.Argument(help="Only this one's.")] = None, file: File = DEFAULT_FILE
) -> None:
    """Show who set, bound and removed credentials with these commands, newest first. What was edited by hand is not."""
    table = Table("when", "who", "what", "credential", "for", "place", "tenants", box=None)
    for one in reversed([one for one in told_changes(file) if name in (None, one.secret)]):
        when = one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        place = ", ".join(f"{field} {value}" for field, value in one.place.items())
        row = (one.user, one.action, one.secret, ", ".join(one.hosts), place, ", ".join(one.tenants))
        table.add_row(when, *map(plain, row))
    Console().print(table)


def said(one: NeededSecret) -> str:
    """The kind of a credential in words, and where it travels."""
    if one.kind is SecretKind.API_KEY:
        places = {
            Location.QUERY: "the query",
            Location.COOKIE: "a cookie",
            Location.PATH: "the path",
            Location.BODY: "the body",
        }
        place = places.get(one.location or Location.HEADER, "a header")
        return f"API key in {place}, {one.parameter}"
    words = {
        SecretKind.BASIC: "user name and password",
        SecretKind.DIGEST: "user name and password, HTTP Digest",
        SecretKind.BEARER: "bearer token",
        SecretKind.OAUTH2: "OAuth2",
        SecretKind.OPENID_CONNECT: "OpenID Connect",
        SecretKind.MUTUAL_TLS: "client certificate",
        SecretKind.AWS_SIGV4: "AWS access key",
    }
    return words.get(one.kind, "the document does not say what")


def command_for(one: NeededSecret) -> str:
    """The command that sets a credential."""
    name = one.secret if one.secret.replace(".", "").replace("_", "").replace("-", "").isalnum() else f"'{one.secret}'"
    provider = one.secret.partition(".")[0]
    interactive = one.authorization_url or one.device_url or one.openid_url
    if one.kind in LOGINS and interactive:
        return f"nestor login {provider} --scheme {name.replace(f'{provider}.', '', 1)}"
    if one.kind is SecretKind.OAUTH2 and one.token_url:
        return f"nestor secrets set {name} --client-id ID"
    if one.kind is SecretKind.MUTUAL_TLS:
        return f"nestor secrets set {name} --certificate FILE --key FILE"
    return f"nestor secrets set {name}"


async def missing_secrets(client: GatewayClient, providers: Sequence[str]) -> list[NeededSecret]:
    """The credentials that these providers' APIs ask for and that are not configured."""
    return [one for p in providers for one in (await client.secrets(p)).secrets if not one.configured]


def print_missing(console: Console, missing: Sequence[NeededSecret]) -> None:
    """How to set the credentials that are missing, if any."""
    if not missing:
        return
    console.print("Credentials that are missing (where an operation takes one or another, one is enough):")
    table = Table(box=None, show_header=False, padding=(0, 1))
    for one in missing[:_MOST_SHOWN]:
        table.add_row(plain(f"  {command_for(one)}"), plain(f"# {said(one)}; {one.operations} operations"))
    console.print(table)
    if len(missing) > _MOST_SHOWN:
        console.print(f"  and {len(missing) - _MOST_SHOWN} more: nestor secrets list PROVIDER")


def _needed(name: str) -> NeededSecret | None:
    """What the catalogue knows of a credential; None where it does not know it, or nobody can be asked."""
    provider = name.partition(".")[0]
    if "." not in name:
        raise typer.BadParameter("a secret is called PROVIDER.SCHEME")

    async def asked() -> NeededSecret | None:
        async with gateway() as client:
            return next((one for one in (await client.secrets(provider)).secrets if one.secret == name), None)

    try:
        found = asyncio.run(asked())
    except ServiceError as error:
        typer.echo(visible(f"The catalogue cannot be asked about {name}: {error.detail}"), err=True)
        return None
    if found is None:
        typer.echo(visible(f"No API in the catalogue asks for {name}."), err=True)
    return found


def _token_host(needed: NeededSecret | None) -> str | None:
    url = URL(needed.token_url) if needed is not None and needed.token_url else None
    return host_of(url) if url is not None else None


def _agreed(name: str, token_host: str) -> list[str]:
    """The host that the document says tokens come from, if whoever sits here agrees; nobody there disagrees."""
    question = f"The document says that tokens come from {token_host}. May {name} be sent there, too?"
    if not sys.stdin.isatty():
        raise typer.BadParameter(visible(f"{question} Say so with --host, for every host."))
    return [token_host] if typer.confirm(visible(question)) else []
