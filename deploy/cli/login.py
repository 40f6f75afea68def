"""``nestor login``: a person authorizes Nestor to call a provider's APIs on their behalf."""

import asyncio
import time
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pydantic import JsonValue
from yarl import URL

from deploy.cli.gateway import EXIT_PROBLEM, ask
from deploy.cli.secret_entries import File, Hosts, ask_value, entries_of, host_of, hosts_of, parse_entry, save_entry
from deploy.drawing import visible
from executor_svc.secret_file import DEFAULT_FILE
from executor_svc.secret_store import Client
from executor_svc.settings import ExecutorSettings
from services.contracts.api import LOGINS, NeededSecret, SecretKind

_MOST_NAMED: Final = 40

if TYPE_CHECKING:
    from deploy.logins import Endpoints
    from executor_svc.adapters.http.tokens import Issued


def login(
    provider: Annotated[str, typer.Argument(help="Provider to log in to.")],
    scheme: Annotated[str | None, typer.Option(help="Scheme to log in with; required if there are several.")] = None,
    client_id: Annotated[str | None, typer.Option(help="Client id of the application you registered there.")] = None,
    confidential: Annotated[
        bool, typer.Option("--client-secret", help="Prompt for the application's secret, if it has one.")
    ] = False,
    scope: Annotated[
        list[str] | None, typer.Option(help="Scope to request instead of all in the document; can be repeated.")
    ] = None,
    device: Annotated[bool, typer.Option("--device", help="Log in on another device, with a code.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the callback address; 0: any.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser; the address is printed either way.")] = True,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Do not ask to confirm the hosts, unless an unknown host would get the client's secret."
        ),
    ] = False,
    host: Hosts = None,
    file: File = DEFAULT_FILE,
) -> None:
    """Log in to a provider with OAuth2 or OpenID Connect, and store the tokens.

    Register `http://127.0.0.1:PORT/callback` with the provider if it asks for a callback address, and give the same
    `--port` here.
    """
    from deploy.logins import LoginFailed  # imported here: it loads the executor's HTTP client

    needed = _chosen_scheme(provider, scheme)
    if not (needed.token_url or needed.openid_url):
        why = (
            f"the document names no token endpoint for {needed.secret}, so a login is not possible; set a token instead"
        )
        raise typer.BadParameter(visible(f"{why}: nestor secrets set {needed.secret}"))
    known = _known_client(needed.secret, file)
    client_id = client_id or (known.client_id if known else None) or typer.prompt("Client id of your application")
    hosts = hosts_of(needed.secret, host, file, needed)
    secret: JsonValue = known.client_secret.get_secret_value() if known and known.client_secret else None
    if confidential:
        secret = ask_value(needed.secret, hosts, "client secret")
    entry = _client_entry(client_id, secret, hosts, known)
    client = parse_entry(needed.secret, entry)
    assert isinstance(client, Client)
    dialogue = _Dialogue(hosts, with_code=device, browser=browser, skip_confirmation=yes, secret=secret is not None)
    try:
        endpoints, scopes, issued = asyncio.run(_log_in(dialogue, needed, client, scope, host or (), port))
    except LoginFailed as error:
        typer.echo(visible(f"Login failed: {error}."), err=True)
        raise typer.Exit(EXIT_PROBLEM) from None
    save_entry(needed.secret, entry | _token_fields(entry, endpoints, scopes, issued), file, "login")
    if issued.refresh_token is None:
        left = "at an unknown time" if issued.lifetime_s is None else f"in {issued.lifetime_s / 60:.0f} minutes"
        typer.echo(f"The login cannot be renewed: it expires {left}. Then log in again.")


@dataclass(frozen=True, slots=True)
class _Dialogue:
    """The dialogue with the person who logs in.

    Attributes:
        hosts: where the tokens are sent.
        with_code: whether the person logs in on another device, with a code.
        browser: whether to open a browser.
        skip_confirmation: do not ask whether the hosts are right, unless an unknown host would get the client's secret.
        secret: whether the client has a secret.
    """

    hosts: Sequence[str]
    with_code: bool
    browser: bool
    skip_confirmation: bool
    secret: bool

    def agree(self, endpoints: "Endpoints") -> None:
        """Show the hosts and ask whether they are right. Exits if not."""
        where = endpoints.device if self.with_code or endpoints.authorization is None else endpoints.authorization
        typer.echo(
            visible(f"You log in at {where.raw_host if where else '?'}; tokens come from {host_of(endpoints.token)}.")
        )
        typer.echo(visible(f"The tokens are sent only to {', '.join(self.hosts)}."))
        unknown = self.secret and host_of(endpoints.token) not in self.hosts  # only the document names it
        if (unknown or not self.skip_confirmation) and not typer.confirm("Are these the right hosts?"):
            raise typer.Exit(EXIT_PROBLEM)

    def show(self, address: str) -> None:
        """Print the address to log in at on this machine, and open it."""
        typer.echo(visible(f"Open this address in a browser on this machine:\n\n  {address}\n"))
        if self.browser:
            with suppress(webbrowser.Error):
                webbrowser.open(address)

    def show_code(self, address: str, code: str) -> None:
        """Print the address to log in at on any device, and the code."""
        typer.echo(visible(f"Open {address} on any device, and enter the code: {code}"))


async def _log_in(
    dialogue: _Dialogue,
    needed: NeededSecret,
    client: Client,
    wanted: Sequence[str] | None,
    private: Sequence[str],
    port: int,
) -> tuple["Endpoints", tuple[str, ...], "Issued"]:
    """Log in. Returns the endpoints, the requested scopes and the tokens. Raises LoginFailed."""
    from deploy.logins import LoginFailed, LoginRequest, find_endpoints, log_in_with_browser, log_in_with_code
    from executor_svc.adapters.http.transport import open_transport

    settings = ExecutorSettings()
    allowed = (*settings.allowed_private_hosts, *private)
    async with open_transport(settings.model_copy(update={"allowed_private_hosts": allowed})) as transport:
        server = URL(f"https://{needed.hosts[0]}") if needed.hosts else URL("https://invalid.")
        endpoints = await find_endpoints(transport, needed, server)
        if endpoints.authorization is None and endpoints.device is None:
            raise LoginFailed(f"nobody logs in with {needed.secret}: nestor secrets set {needed.secret} --client-id ID")
        dialogue.agree(endpoints)
        scopes = _scopes(needed, endpoints, wanted)
        request = LoginRequest(client, scopes)
        if dialogue.with_code or (endpoints.authorization is None and endpoints.device is not None):
            return endpoints, scopes, await log_in_with_code(transport, endpoints, request, dialogue.show_code)
        return endpoints, scopes, await log_in_with_browser(transport, endpoints, request, dialogue.show, port)


def _client_entry(
    client_id: str, secret: JsonValue, hosts: Sequence[str], known: Client | None
) -> dict[str, JsonValue]:
    """The application's entry before the login."""
    entry: dict[str, JsonValue] = {"hosts": list(hosts), "client_id": client_id}
    entry |= {"tenants": list[JsonValue](known.tenants)} if known and known.tenants else {}
    entry |= {"client_secret": secret} if secret else {}
    entry |= {"client_auth": known.client_auth} if known else {}
    return entry


def _token_fields(
    entry: dict[str, JsonValue], endpoints: "Endpoints", scopes: Sequence[str], issued: "Issued"
) -> dict[str, JsonValue]:
    """The fields that a login adds to an entry."""
    hosts = entry["hosts"] if isinstance(entry["hosts"], list) else []
    given: dict[str, JsonValue] = {
        "hosts": list(dict.fromkeys([*map(str, hosts), host_of(endpoints.token)])),
        "token_url": str(endpoints.token),
        "access_token": issued.access_token,
        "scopes": list(scopes),
        "refresh_token": issued.refresh_token,
        "expires_at": None if issued.lifetime_s is None else round(time.time() + issued.lifetime_s),
    }
    return {name: value for name, value in given.items() if value not in (None, [])}


def _chosen_scheme(provider: str, scheme: str | None) -> NeededSecret:
    needed = ask(lambda g: g.secrets(provider)).secrets
    offered = [one for one in needed if one.kind in LOGINS and scheme in (None, one.scheme)]
    if not offered:
        names = ", ".join(one.secret for one in needed[:_MOST_NAMED]) or "nothing"
        asked = f"its APIs need {names} (nestor secrets list {provider})"
        raise typer.BadParameter(visible(f"{provider} has no such OAuth2 or OpenID Connect scheme; {asked}"))
    if len(offered) > 1:
        names = ", ".join(one.scheme for one in offered)
        raise typer.BadParameter(visible(f"{provider} has several schemes; use --scheme with one of: {names}"))
    return offered[0]


def _known_client(name: str, file: Path) -> Client | None:
    entry = entries_of(file).get(name)
    known = parse_entry(name, entry) if isinstance(entry, dict) else None
    return known if isinstance(known, Client) else None


def _scopes(needed: NeededSecret, endpoints: "Endpoints", given: Sequence[str] | None) -> tuple[str, ...]:
    if given:
        return tuple(given)
    always = ("openid",) if needed.kind is SecretKind.OPENID_CONNECT else ()
    offline = ("offline_access",) if endpoints.offline else ()
    return tuple(dict.fromkeys([*always, *needed.scopes, *offline]))
