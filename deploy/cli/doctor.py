"""``nestor apis doctor``: the share of a provider's operations that can be planned, called and authenticated."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table

from deploy.cli.credentials import command_for
from deploy.cli.gateway import gateway, run
from deploy.cli.importing import imported_documents
from deploy.cli.reasons import Group, grouped
from deploy.drawing import counted, plain, screen
from retriever_svc.importers.servers import private_host
from services.clients import GatewayClient
from services.contracts.api import Api, ImportedDocument, Location, NeededSecret, Parameter

_AT_ONCE = 8
_PAGE = 100
_FEW, _MOST = 3, 0.5
"""A parameter that at least this number and this share of operations need may be fixed for the account."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How many operations of a provider pass each stage. A stage counts only those that passed the one before.

    Attributes:
        operations: operations in the document, including those not imported.
        planned: those that can be planned.
        called: of those, the ones with a server that can be called.
        authenticated: of those, the ones that need no missing credential.
        obstacles: the reasons why operations fail, most frequent first within each stage.
        private: hosts that the executor calls only if its settings allow them.
    """

    operations: int
    planned: int
    called: int
    authenticated: int
    obstacles: tuple[Group, ...]
    private: tuple[str, ...]


def diagnose(apis: Sequence[Api], document: ImportedDocument | None, configured: Collection[str]) -> Diagnosis:
    """Diagnose a provider's APIs, given the names of the configured secrets."""
    skipped = [(one.operation, f"not imported: {one.reason}") for one in document.skipped] if document else []
    total = document.skipped_total if document else 0
    if unnamed := total - len(skipped):
        skipped += [("", "not imported, reason not listed")] * unnamed
    callable_ = [api for api in apis if api.server]
    no_server = [(api.id, "no server: import again with --server URL") for api in apis if not api.server]
    missing = [(api, names) for api in callable_ if (names := missing_for(api, configured))]
    unauthenticated = [(api.id, f"no credential: {names} must be set") for api, names in missing]
    obstacles = [group for reasons in (skipped, no_server, unauthenticated) for group in grouped(reasons)]
    private = dict.fromkeys(host for api in callable_ if (host := private_host(api.server)))
    return Diagnosis(
        operations=len(apis) + total,
        planned=len(apis),
        called=len(callable_),
        authenticated=len(callable_) - len(missing),
        obstacles=tuple(obstacles),
        private=tuple(private),
    )


def missing_for(api: Api, configured: Collection[str]) -> str:
    """The secrets that a call of the API lacks, as ``a and b, or c``; empty if it lacks none."""
    lacking = [[r.secret for r in alternative if r.secret not in configured] for alternative in api.security]
    if not lacking or not all(lacking):
        return ""
    return ", or ".join(dict.fromkeys(" and ".join(names) for names in lacking))


def examine(provider: Annotated[str, typer.Argument(help="The provider's name.")]) -> None:
    """Print the share of a provider's operations that can be planned, called and authenticated, and the obstacles."""
    apis, document, secrets = run(_fetch(provider))
    if not apis:
        raise typer.BadParameter(f"the catalogue has no APIs of {provider}")
    found = diagnose(apis, document, {one.secret for one in secrets if one.configured})
    console = screen()
    table = Table(provider, "operations", "share", box=None)
    stages = (("planned", found.planned), ("called", found.called), ("authenticated", found.authenticated))
    for stage, number in stages:
        table.add_row(f"can be {stage}", f"{number:,} of {found.operations:,}", f"{number / found.operations:.1%}")
    console.print(table)
    for obstacle in found.obstacles:
        console.print(plain(f"  {obstacle}"))
    for host in found.private:
        console.print(plain(f"  {host} is private: NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS has to contain it"))
    if not any(api.security for api in apis):
        hint = "the document declares no credentials; if calls need one, import it again with --auth"
        console.print(plain(f"  {hint}"), soft_wrap=True)
    for one in secrets:
        if not one.configured:
            console.print(plain(f"  {command_for(one)}  # {counted(one.operations)}"))
    for line in constant_lines(provider, apis, document):
        console.print(plain(f"  {line}"), soft_wrap=True)


def constant_lines(provider: str, apis: Sequence[Api], document: ImportedDocument | None) -> list[str]:
    """Lines on the provider's constants and how many operations send them, then on parameters that most need."""
    sent, asked = Counter[str](), Counter[str]()
    for api in apis:
        sent.update({one.wire_name.lower() for one in api.parameters if one.constant is not None})
        asked.update({one.wire_name for one in api.parameters if one.needed and _may_be_fixed(api, one)})
    constants = document.constants if document is not None else {}
    lines = [f"{name}={value} is set, sent by {counted(sent[name.lower()])}" for name, value in constants.items()]
    often = [(name, count) for name, count in asked.most_common() if count >= max(_FEW, len(apis) * _MOST)]
    return lines + [
        f"nestor apis set {provider} {name}=VALUE  # if it is always the same; needed by {counted(count)}"
        for name, count in often
    ]


def _may_be_fixed(api: Api, parameter: Parameter) -> bool:
    """Whether a parameter may be the same in all calls. Body fields and the id at a path's end cannot."""
    if parameter.location is Location.PATH:
        return not api.path.rstrip("/").endswith(f"{{{parameter.wire_name}}}")
    return parameter.location is not Location.BODY


async def _fetch(provider: str) -> tuple[list[Api], ImportedDocument | None, tuple[NeededSecret, ...]]:
    async with gateway() as client:
        ids = await _ids(client, provider)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(api_id: str) -> Api:
            async with slots:
                return await client.api(api_id)

        apis = await asyncio.gather(*map(one, ids))
        documents = [d async for d in imported_documents(client) if d.provider == provider]
        return list(apis), documents[0] if documents else None, (await client.secrets(provider)).secrets


async def _ids(client: GatewayClient, provider: str) -> list[str]:
    found, cursor = list[str](), None
    while True:
        page = await client.search_apis(provider=provider, limit=_PAGE, cursor=cursor)
        found += [hit.id for hit in page.hits]
        if (cursor := page.next) is None:
            return found
