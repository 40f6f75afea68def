"""``nestor keys`` and ``nestor audit``: API keys of the gateway, and the audit log."""

from datetime import datetime
from typing import Annotated

import typer
from rich.table import Column, Table

from deploy.cli.gateway import Json, Limit, ask, echo_json, utc
from deploy.drawing import plain, screen, visible
from services.contracts.access import Action, Key, KeyRequest, Role

keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")
Tenant = Annotated[
    str | None, typer.Option(help="Tenant, for administrators of the operator's tenant. Default: the token's tenant.")
]
Cursor = Annotated[str | None, typer.Option(help="Cursor printed below the previous page.")]


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Name of the key in runs, approvals and the audit log.")],
    role: Annotated[
        list[Role], typer.Option(help="Role of the key; can be repeated. You can grant only roles that you have.")
    ],
    tenant: Tenant = None,
    days: Annotated[int, typer.Option(min=0, max=3_650, help="Days until it expires; 0: never.")] = 90,
    json: Json = False,
) -> None:
    """Create a key and print it. It cannot be shown again.

    To rotate a key, create another one with the same name, then revoke the old one.
    """
    try:
        asked = KeyRequest(name=name, tenant=tenant, roles=frozenset(role), expires_in_days=days or None)
    except ValueError:
        raise typer.BadParameter(
            "a name has 1 to 100 characters; a tenant only letters, digits, `_`, `.`, `-`"
        ) from None
    made = ask(lambda g: g.create_key(asked))
    if json:
        echo_json(made)
        return
    typer.echo(visible(f"{made.id}, {_state(made)}. The key is shown only once:"), err=True)
    typer.echo(visible(made.key))


@keys.command("list")
def list_keys(tenant: Tenant = None, limit: Limit = 20, cursor: Cursor = None, json: Json = False) -> None:
    """List keys, newest first, including expired and revoked ones."""
    page = ask(lambda g: g.keys(tenant=tenant, limit=limit, cursor=cursor))
    if json:
        echo_json(page)
        return
    table = Table(Column("id", no_wrap=True, min_width=20), "name", "tenant", "roles", "created by", "state", box=None)
    for key in page.keys:
        named = (plain(text) for text in (key.name, key.tenant))
        table.add_row(key.id, *named, ", ".join(key.roles), plain(key.created_by), _state(key))
    screen().print(table)
    if page.next:
        typer.echo(visible(f"More results: --cursor {page.next}"))


@keys.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(help="The key's id, as shown by `nestor keys list`.")]) -> None:
    """Revoke a key: it is refused within two seconds."""
    ask(lambda g: g.revoke_key(key_id))
    typer.echo(visible(f"{key_id} revoked"))


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    return "never expires" if key.expires_at is None else f"expires {key.expires_at:%Y-%m-%d}"


def read_audit(
    action: Annotated[list[Action] | None, typer.Option(help="Only this action; can be repeated.")] = None,
    principal: Annotated[str | None, typer.Option(help="Only actions of this principal.")] = None,
    target: Annotated[str | None, typer.Option(help="Only actions on this id.")] = None,
    tenant: Tenant = None,
    after: Annotated[datetime | None, typer.Option(help="Only entries after this local time.")] = None,
    before: Annotated[datetime | None, typer.Option(help="Only entries before this local time.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> None:
    """Show the audit log, newest first: who imported, approved, rejected, resolved or deleted what, or created keys."""
    actions = [one.value for one in action or ()]
    page = ask(
        lambda g: g.audit(
            tenant=tenant,
            actions=actions,
            principal=principal,
            target=target,
            after=utc(after),
            before=utc(before),
            limit=limit,
            cursor=cursor,
        )
    )
    if json:
        echo_json(page)
        return
    kept = (Column("action", no_wrap=True), "outcome", Column("target", overflow="fold"))
    table = Table("when", "who", "tenant", *kept, "digest", "detail", box=None)
    for one in page.entries:
        when = one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        who = plain(one.principal if not one.key else f"{one.principal} ({one.key})")
        table.add_row(
            when,
            who,
            plain(one.tenant),
            plain(one.action),
            plain(one.outcome),
            plain(one.target),
            plain(one.digest[:12]),
            plain(one.detail),
        )
    screen().print(table)
    if page.next:
        typer.echo(visible(f"More results: --cursor {page.next}"))
