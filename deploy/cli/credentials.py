"""``nestor secrets``: the credentials that calls send, in a file that the executor reads.

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
from deploy.cli.secret_entries import (
    File,
    Hosts,
    Name,
    ask_value,
    entries_of,
    host_of,
    hosts_of,
    parse_entry,
    save_entry,
)
from deploy.drawing import counted, plain, screen, visible
from executor_svc.secret_changes import tell_change, told_changes
from executor_svc.secret_file import DEFAULT_FILE, SecretsUnreadable, change_file, load_file
from executor_svc.secret_store import AwsKey, Certificate, Client, Login, Secret, Token, parse
from services.clients import GatewayClient
from services.contracts.api import LOGINS, Location, NeededSecret, SecretKind
from services.contracts.secret import TrySecret
from services.errors import ServiceError
from services.urls import url_of

secrets = typer.Typer(no_args_is_help=True, help="Manage the credentials that calls send. Values are never shown.")
secrets.command("bind")(bind_secret)
_MOST_SHOWN: Final = 40
_NO_CREDENTIALS: Final = (
    "No API of {provider} needs a credential. `nestor apis documents` lists the providers. If a document does not"
    " declare how calls authenticate, import it with --auth."
)
_SECRET_KINDS: Final[dict[type[Secret], str]] = {
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
    username: Annotated[str | None, typer.Option(help="User name of a login; prompted for if not given.")] = None,
    client_id: Annotated[str | None, typer.Option(help="Id of an OAuth2 client; its secret is prompted for.")] = None,
    token_url: Annotated[
        str | None, typer.Option(help="The client's token endpoint, instead of the one in the document.")
    ] = None,
    access_key_id: Annotated[str | None, typer.Option(help="Id of an AWS key; its secret is prompted for.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="PEM file of a client certificate.", exists=True)] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of the certificate's key.", exists=True)] = None,
    header: Header = None,
    query: Query = None,
    cookie: Cookie = None,
    path: InPath = None,
    body: InBody = None,
    tenant: Tenants = None,
) -> None:
    """Set a credential.

    The value is read from a prompt that does not show it, or from standard input. It is sent only to the named hosts;
    by default these are the hosts of the provider's APIs as imported. For a key, the place in the request where these
    APIs expect it is stored too.
    """
    needed = _needed(name)
    there = entries_of(file).get(name)
    before = parse_entry(name, there) if there is not None else None
    kind = needed.kind if needed is not None else SecretKind.OTHER
    hosts = hosts_of(name, host, file, needed)
    tenants = tenant or (list(before.tenants) if before is not None and before.tenants else None)
    entry: dict[str, JsonValue] = {"hosts": list[JsonValue](hosts), **for_tenants(tenants)}
    if certificate is not None or key is not None or kind is SecretKind.MUTUAL_TLS:
        if certificate is None or key is None:
            raise typer.BadParameter("a client certificate needs --certificate and --key")
        entry |= {"certificate": str(certificate.absolute()), "key": str(key.absolute())}
    elif access_key_id is not None or kind is SecretKind.AWS_SIGV4:
        entry["access_key_id"] = access_key_id or typer.prompt("Access key id")
        entry["secret_access_key"] = ask_value(name, hosts, "secret access key")
    elif client_id is not None or token_url is not None:
        if client_id is None:
            raise typer.BadParameter("--token-url needs --client-id")
        entry |= _client(name, client_id, token_url or _known_url(before), needed, hosts, asked=host is None)
    elif username is not None or kind in (SecretKind.BASIC, SecretKind.DIGEST):
        entry["username"] = username if username is not None else typer.prompt("User name")
        entry["password"] = ask_value(name, hosts, "password")
        if username is None and not entry["password"]:
            raise typer.BadParameter("standard input has a user name but no password after it: use --username")
    else:
        place = given_place(in_places(header, query, cookie, path, body))
        entry |= chosen_place(name, place, before, needed)
        is_whole = needed is not None and not place and is_whole_header(needed)
        entry["value"] = ask_value(name, hosts, "whole Authorization header" if is_whole else "value")
    save_entry(name, entry, file, "set")


@secrets.command("list")
def list_secrets(
    provider: Annotated[str | None, typer.Argument(help="List what this provider's APIs need instead.")] = None,
    file: File = DEFAULT_FILE,
) -> None:
    """List the credentials in the file, or those that a provider's APIs need. Values are never shown."""
    if provider is not None:
        table = Table("secret", "kind", "operations", "sent to", "", box=None)
        needed = ask(lambda g: g.secrets(provider)).secrets
        if not needed:
            typer.echo(visible(_NO_CREDENTIALS.format(provider=provider)))
            return
        for one in needed:
            state = "configured" if one.configured else "missing"
            table.add_row(
                plain(one.secret), plain(kind_label(one)), str(one.operations), plain(", ".join(one.hosts)), state
            )
        screen().print(table)
        return
    try:
        known = parse(load_file(file), f"the secrets file {file}") if file.exists() else {}
    except SecretsUnreadable as error:
        raise typer.BadParameter(visible(str(error))) from None
    table = Table("secret", "kind", "sent to", "sent in", "tenants", box=None)
    for name, secret in sorted(known.items()):
        whom = plain(", ".join(secret.tenants)) if secret.tenants else "every tenant"
        table.add_row(
            plain(name),
            _SECRET_KINDS[type(secret)],
            plain(", ".join(secret.hosts)),
            plain(place_of_secret(secret)),
            whom,
        )
    screen().print(table)
    typer.echo(f"{len(known)} in {file}")
    _warn("may be used by every tenant", [n for n, one in known.items() if not one.tenants], "--tenant TENANT")
    nowhere = [n for n, one in known.items() if isinstance(one, Token) and one.place is None and one.scheme is None]
    _warn("may be sent in any header or cookie that a document names", nowhere, "--header NAME")


def _warn(what: str, names: list[str], option: str) -> None:
    """Print a warning, and the command that fixes it."""
    if names:
        shown = ", ".join(sorted(names)[:_MOST_SHOWN])
        typer.echo(visible(f"warning: {what}: {shown}. To restrict one: nestor secrets bind NAME {option}"), err=True)


@secrets.command("test")
def test_secret(name: Name) -> None:
    """Test a credential from the executor, in a harmless call if the provider has one, and print the result.

    For OAuth2 it fetches a token. Exits 0 if no problem with the credential was found.
    """
    try:
        secret = TrySecret(secret=name).secret
    except ValueError:
        raise typer.BadParameter(visible(f"{name} is not PROVIDER.SCHEME")) from None
    tried = ask(lambda g: g.try_secret(secret))
    typer.echo(visible(f"{name}: {tried.outcome}. {tried.message}"))
    if tried.outcome not in ("accepted", "ready"):
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
    name: Annotated[str | None, typer.Argument(help="Only changes of this one.")] = None, file: File = DEFAULT_FILE
) -> None:
    """Show who set, bound and removed credentials with these commands, newest first. Edits by hand: `nestor audit`."""
    table = Table("when", "who", "what", "credential", "for", "place", "tenants", box=None)
    for one in reversed([one for one in told_changes(file) if name in (None, one.secret)]):
        when = one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        place = ", ".join(f"{field} {value}" for field, value in one.place.items())
        row = (one.user, one.action, one.secret, ", ".join(one.hosts), place, ", ".join(one.tenants))
        table.add_row(when, *map(plain, row))
    screen().print(table)


def kind_label(one: NeededSecret) -> str:
    """The kind of a credential and its place in a request, in words."""
    if one.kind is SecretKind.API_KEY:
        places = {
            Location.QUERY: "the query",
            Location.COOKIE: "a cookie",
            Location.PATH: "the path",
            Location.BODY: "the body",
        }
        place = places.get(one.location or Location.HEADER, "a header")
        whole = ": the whole value, including the word before the key if there is one" if is_whole_header(one) else ""
        return f"API key in {place}, {one.parameter}{whole}"
    words = {
        SecretKind.BASIC: "user name and password",
        SecretKind.DIGEST: "user name and password, HTTP Digest",
        SecretKind.BEARER: "bearer token",
        SecretKind.OAUTH2: "OAuth2",
        SecretKind.OPENID_CONNECT: "OpenID Connect",
        SecretKind.MUTUAL_TLS: "client certificate",
        SecretKind.AWS_SIGV4: "AWS access key",
    }
    if one.kind is SecretKind.OAUTH2 and not one.token_url:
        return "OAuth2 without a token endpoint: a token, or a client with --client-id and --token-url"
    return words.get(one.kind, "kind not declared by the document: a bearer token, or use --header or --query")


def is_whole_header(one: NeededSecret) -> bool:
    """Whether a key is the whole `Authorization` header; services expect different words before the key."""
    is_header = one.location in (None, Location.HEADER)
    return one.kind is SecretKind.API_KEY and is_header and (one.parameter or "").lower() == "authorization"


def command_for(one: NeededSecret) -> str:
    """The command that sets a credential."""
    name = one.secret if one.secret.replace(".", "").replace("_", "").replace("-", "").isalnum() else f"'{one.secret}'"
    provider = one.secret.partition(".")[0]
    interactive = one.openid_url or (one.token_url and (one.authorization_url or one.device_url))
    if one.kind in LOGINS and interactive:
        return f"nestor login {provider} --scheme {name.replace(f'{provider}.', '', 1)}"
    if one.kind is SecretKind.OAUTH2 and one.token_url:
        return f"nestor secrets set {name} --client-id ID"
    if one.kind is SecretKind.MUTUAL_TLS:
        return f"nestor secrets set {name} --certificate FILE --key FILE"
    return f"nestor secrets set {name}"


async def missing_secrets(client: GatewayClient, providers: Sequence[str]) -> list[NeededSecret]:
    """The credentials that these providers' APIs need and that are not configured."""
    return [one for p in providers for one in (await client.secrets(p)).secrets if not one.configured]


def print_missing(console: Console, missing: Sequence[NeededSecret]) -> None:
    """Print how to set the missing credentials, if any."""
    if not missing:
        return
    console.print("Missing credentials (if an operation accepts alternatives, one is enough):")
    for one in missing[:_MOST_SHOWN]:  # whole lines: a command that is cut or broken cannot be copied
        line = f"   {command_for(one)}  # {kind_label(one)}; {counted(one.operations)}"
        console.print(plain(line), soft_wrap=True)
    if len(missing) > _MOST_SHOWN:
        console.print(f"  and {len(missing) - _MOST_SHOWN} more: nestor secrets list PROVIDER")


def _needed(name: str) -> NeededSecret | None:
    """What the catalogue knows about a credential; None if it does not know it, or the gateway does not answer."""
    provider = name.partition(".")[0]
    if "." not in name:
        raise typer.BadParameter("the name of a secret is PROVIDER.SCHEME")

    async def asked() -> tuple[NeededSecret, ...]:
        async with gateway() as client:
            return (await client.secrets(provider)).secrets

    try:
        offered = asyncio.run(asked())
    except ServiceError as error:
        typer.echo(visible(f"Cannot look up {name} in the catalogue: {error.detail}"), err=True)
        return None
    found = next((one for one in offered if one.secret == name), None)
    if found is None:
        known = ", ".join(one.secret for one in offered[:_MOST_SHOWN])
        others = f" The APIs of {provider} need: {known}." if known else ""
        told = others or " " + _NO_CREDENTIALS.format(provider=provider)
        typer.echo(visible(f"No API in the catalogue needs {name}.{told}"), err=True)
    return found


def _client(
    name: str, client_id: str, token_url: str | None, needed: NeededSecret | None, hosts: list[str], *, asked: bool
) -> dict[str, JsonValue]:
    """The entry of an OAuth2 client. ``asked``: whether the token endpoint's host may be added to its hosts."""
    where = _url(token_url or (needed.token_url if needed is not None else None))
    if token_url is not None and where is None:
        raise typer.BadParameter(visible(f"{token_url} is not an http or https URL"), param_hint="--token-url")
    if where is None and needed is not None and not needed.openid_url:
        raise typer.BadParameter("the document names no token endpoint: use --token-url")
    if where is not None and (host := host_of(where)) not in hosts and asked:
        hosts = [*hosts, *([host] if token_url is not None else _confirmed_host(name, host))]
    entry: dict[str, JsonValue] = {"hosts": list[JsonValue](hosts), "client_id": client_id}
    entry |= {"token_url": token_url} if token_url is not None else {}
    return entry | {"client_secret": ask_value(name, hosts, "client secret")}


def _known_url(before: Secret | None) -> str | None:
    return str(before.token_url) if isinstance(before, Client) and before.token_url is not None else None


def _url(text: str | None) -> URL | None:
    """The text as an http or https URL; None if it is not one."""
    try:
        url = url_of(text or "")
        return url if url.scheme in ("http", "https") and url.raw_host else None
    except ValueError:
        return None


def _confirmed_host(name: str, token_host: str) -> list[str]:
    """The token endpoint's host from the document, if the user agrees. Without a terminal this exits."""
    question = f"The document names {token_host} as the host of the token endpoint. Send {name} there, too?"
    if not sys.stdin.isatty():
        raise typer.BadParameter(visible(f"{question} If so, name every host with --host."))
    return [token_host] if typer.confirm(visible(question)) else []
