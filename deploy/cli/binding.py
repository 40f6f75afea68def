"""``nestor secrets bind``: restricts where in a request a credential is sent, and for which tenants."""

import re
from collections.abc import Mapping
from typing import Annotated

import typer
from pydantic import JsonValue

from deploy.cli.secret_entries import File, Name, entries_of, save_entry
from deploy.drawing import visible
from executor_svc.secret_file import DEFAULT_FILE
from executor_svc.secret_places import bind_command, place_text
from executor_svc.secret_store import Secret, Token
from services.contracts.api import Location, NeededSecret, SecretKind

Entry = dict[str, JsonValue]
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of headers and cookies (RFC 9110, section 5.6.2)."""
PLACE_FIELDS = ("in", "name", "header", "query", "cookie", "scheme")
Header = Annotated[str | None, typer.Option(help="Send it in this header.")]
Query = Annotated[str | None, typer.Option(help="Send it in this query parameter.")]
Cookie = Annotated[str | None, typer.Option(help="Send it in this cookie.")]
InPath = Annotated[str | None, typer.Option("--path", help="Send it in the path, as this path parameter.")]
InBody = Annotated[str | None, typer.Option("--body", help="Send it in this field of the body.")]
Tenants = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant", help="Only calls of this tenant send it; can be repeated. Default: as before, at first all."
    ),
]


def bind_secret(
    name: Name,
    header: Header = None,
    query: Query = None,
    cookie: Cookie = None,
    path: InPath = None,
    body: InBody = None,
    scheme: Annotated[
        SecretKind | None, typer.Option(help="Send it as this kind of credential, in its usual place.")
    ] = None,
    tenant: Tenants = None,
    every_tenant: Annotated[bool, typer.Option("--every-tenant", help="Calls of all tenants send it.")] = False,
    file: File = DEFAULT_FILE,
) -> None:
    """Set where in a request a credential is sent, or for which tenants, without setting its value again.

    A key is sent only there, even if a document that is imported later says otherwise.
    """
    entry = entries_of(file).get(name)
    if not isinstance(entry, dict):
        raise typer.BadParameter(visible(f"{name} is not in {file}"))
    place = given_place(in_places(header, query, cookie, path, body), scheme)
    if not (place or tenant or every_tenant) or (tenant and every_tenant):
        raise typer.BadParameter(
            "give one place (--header, --query, --cookie, --path, --body or --scheme), or --tenant or --every-tenant"
        )
    kept = {field: value for field, value in entry.items() if not (place and field in PLACE_FIELDS)} | place
    if tenant or every_tenant:
        kept = {field: value for field, value in kept.items() if field != "tenants"} | for_tenants(tenant)
    save_entry(name, kept, file, "bind")


def in_places(
    header: str | None, query: str | None, cookie: str | None, path: str | None, body: str | None
) -> dict[Location, str | None]:
    """The names given by the options, by place."""
    names = (header, query, cookie, path, body)
    places = (Location.HEADER, Location.QUERY, Location.COOKIE, Location.PATH, Location.BODY)
    return dict(zip(places, names, strict=True))


def given_place(places: Mapping[Location, str | None], scheme: SecretKind | None = None) -> Entry:
    """The fields of an entry for the given place; empty if none is given. Exits if several are given."""
    given = [(place.value, at) for place, at in places.items() if at]
    if len(given) + (scheme is not None) > 1:
        raise typer.BadParameter("give one place only: --header, --query, --cookie, --path, --body or --scheme")
    if given:
        if given[0][0] in (Location.HEADER.value, Location.COOKIE.value) and not _TOKEN.fullmatch(given[0][1]):
            raise typer.BadParameter(visible(f"{given[0][1]!r} cannot be the name of a {given[0][0]}"))
        return {"in": given[0][0], "name": given[0][1], "scheme": SecretKind.API_KEY.value}
    return {"scheme": scheme.value} if scheme is not None else {}


def declared_place(needed: NeededSecret | None) -> Entry:
    """The fields of an entry for the place where the imported operations expect the value."""
    if needed is None or needed.kind is SecretKind.OTHER:
        return {}
    if needed.kind is not SecretKind.API_KEY:
        return {"scheme": needed.kind.value}
    if not needed.parameter:
        return {}
    location = needed.location or Location.HEADER
    return {"in": location.value, "name": needed.parameter, "scheme": needed.kind.value}


def chosen_place(name: str, given: Entry, there: Secret | None, needed: NeededSecret | None) -> Entry:
    """The place of an entry to set: the given one, else that of the replaced entry, else what the operations declare.

    A later import never moves a credential: if its document declares another place than the entry has, this exits.
    """
    wanted = given or declared_place(needed)
    before: Entry = {}
    if isinstance(there, Token):
        before = {"in": there.place[0].value, "name": there.place[1]} if there.place else {}
        before |= {"scheme": there.scheme.value} if there.scheme else {}
    if given or not before:
        return wanted
    if wanted and any(not _equal(field, before[field], wanted.get(field)) for field in before):
        message = (
            f"{name} is set for {place_of_entry(before)}, but the imported document declares "
            f"{place_of_entry(wanted)}. If the document is right, run: "
            f"{bind_command(name, _place(wanted), SecretKind(str(wanted['scheme'])))}"
        )
        raise typer.BadParameter(visible(message))
    return wanted | before


def for_tenants(tenants: list[str] | None) -> Entry:
    """The fields of an entry for its tenants."""
    return {"tenants": list[JsonValue](tenants)} if tenants else {}


def place_of_entry(entry: Entry) -> str:
    """The place of a credential, in words."""
    place = _place(entry)
    return str(entry.get("scheme", "no place")) if place is None else place_text(*place)


def place_of_secret(secret: Secret) -> str:
    """The place of a secret in the file, in words. Kinds such as a login have only one place."""
    if not isinstance(secret, Token):
        return "its usual place"
    if secret.place is not None:
        return f"{secret.place[0]} {secret.place[1]}"
    return str(secret.scheme) if secret.scheme is not None else "any header or cookie"


def _equal(field: str, one: JsonValue, other: JsonValue) -> bool:
    return one == other or (field == "name" and str(one).lower() == str(other).lower())


def _place(entry: Entry) -> tuple[Location, str] | None:
    return (Location(str(entry["in"])), str(entry["name"])) if "in" in entry else None
