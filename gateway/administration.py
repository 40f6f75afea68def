"""Changes that administrators make to the catalogue and to demonstrations, each with its entries in the audit log."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final

from gateway.affected import MOST_CHANGES, Touched, affected_by
from gateway.audit import AuditLog
from gateway.peers import Peers
from gateway.principals import Principal
from gateway.quotas import Quotas
from gateway.storage import RunStore
from services.contracts.access import Action
from services.contracts.api import ImportChange, ImportEvent, ImportReport, ImportRequest, NeededSecrets
from services.contracts.constants import ConstantsRequest, ProviderConstants
from services.contracts.demo import Demo, ImportDemosReport, ImportDemosRequest, demo_id
from services.contracts.planning import Policy
from services.contracts.run import Run
from services.contracts.secret import SecretTest, SecretTestRequest
from services.errors import NotFound
from services.fair_slots import FairSlots

_MOST_NAMED = 40
_ADDING_WAIT_S: Final = 20.0
"""How long a demonstration waits until the tenant's earlier ones are added: a large one takes some 0.1 s of the event
loop, here and in the demo service."""


class Administration:
    """Imports and removes APIs and demonstrations, and tests credentials.

    ``policy`` gives the policy of a tenant.
    """

    def __init__(
        self, peers: Peers, store: RunStore, quotas: Quotas, audit: AuditLog, policy: Callable[[str], Policy]
    ) -> None:
        self._peers, self._store, self._quotas, self._audit, self._policy = peers, store, quotas, audit, policy
        self._adding = FairSlots(each=1, what="demonstrations")

    async def import_apis(self, request: ImportRequest, principal: Principal) -> AsyncGenerator[ImportEvent, None]:
        """Import an API description and report progress. Raises QuotaExceeded if too many imports are running."""
        self._quotas.check("imports", principal.tenant)
        with self._quotas.holding("imports", principal.tenant):
            asked = self._peers.retriever.import_document(request, tenant=principal.owner)
            events = asked if request.dry_run else self._audited(request, principal, asked)
            touched = dict[str, Touched]()
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, ImportChange) and event.action != "added" and len(touched) < MOST_CHANGES:
                        touched[event.id] = Touched.by(event)
                    if isinstance(event, ImportReport) and not event.applied:
                        event = await self._with_affected(event, touched, principal)
                    yield event

    async def _with_affected(self, report: ImportReport, touched: dict[str, Touched], who: Principal) -> ImportReport:
        """The report with the demonstrations and runs that the import would affect."""
        affected, total = await affected_by(touched, who, self._peers, self._store, self._quotas)
        return report.model_copy(update={"affected": affected, "affected_total": total})

    async def _audited(
        self, request: ImportRequest, principal: Principal, events: AsyncGenerator[ImportEvent, None]
    ) -> AsyncGenerator[ImportEvent, None]:
        action = Action.IMPORT if request.confirm is None else Action.ACCEPT_CHANGES
        digest, report = await asyncio.to_thread(_sha256, request.document), None
        async with aclosing(events), self._audit.around(principal, action, request.provider or "", digest) as pending:
            pending.outcome = "unknown"
            async for event in events:
                if isinstance(event, ImportReport):
                    pending.target, pending.outcome = event.provider, "done" if event.applied else "held"
                    report = event
                else:
                    yield event
        if report is not None:  # its reader may close the connection: the outcome is logged before
            yield report

    async def set_constants(self, provider: str, request: ConstantsRequest, principal: Principal) -> ProviderConstants:
        """Set what a provider's calls always send. All its APIs are rewritten, so it counts as an import.

        Raises:
            NotFound: the tenant sees no such provider.
            Conflict: the provider belongs to another tenant, or is being changed.
            ValidationFailed: no operation takes the parameter or allows the value, or the parameter is a credential.
            QuotaExceeded: too many imports of the tenant are running.
        """
        self._quotas.check("imports", principal.tenant)
        with self._quotas.holding("imports", principal.tenant):
            digest = _sha256(request.model_dump_json())
            async with self._audit.around(principal, Action.SET_CONSTANTS, provider, digest):
                return await self._peers.retriever.set_constants(provider, request, tenant=principal.owner)

    async def delete_provider(self, provider: str, principal: Principal) -> None:
        """Remove a provider with all its APIs. Raises NotFound, and Conflict where another tenant imported it."""
        async with self._audit.around(principal, Action.REMOVE_PROVIDER, provider):
            await self._peers.retriever.delete_provider(provider, tenant=principal.owner)

    async def add_demo(self, demo: Demo, principal: Principal, *, shared: bool) -> Demo:
        """Add a demonstration for the tenant or, if the principal may, for everyone (else Forbidden).

        One of a tenant at a time. Raises Overloaded if the others take too long.
        """
        audience = principal.audience(shared=shared)
        adding = self._adding.slot(principal.tenant, _ADDING_WAIT_S)
        async with adding, self._audit.around(principal, Action.ADD_DEMO, demo_id(demo)):
            return await self._peers.demos.add(demo, tenant=audience)

    async def import_demos(
        self, request: ImportDemosRequest, principal: Principal, *, shared: bool
    ) -> ImportDemosReport:
        """Add demonstrations for everyone or for the tenant. Raises QuotaExceeded if too many imports are running."""
        audience = principal.audience(shared=shared)
        self._quotas.check("imports", principal.tenant)
        with self._quotas.holding("imports", principal.tenant):
            digest = await asyncio.to_thread(lambda: _sha256(request.model_dump_json()))
            target = f"{len(request.demos)} demonstrations"
            async with self._audit.around(principal, Action.IMPORT_DEMOS, target, digest):
                return await self._peers.demos.import_demos(request, tenant=audience)

    async def delete_demo(self, demo: str, principal: Principal) -> None:
        """Remove a demonstration of the principal's tenant or, for the operator, one that is everyone's.

        Raises:
            NotFound: the tenant sees no such demonstration.
            Forbidden: it is everyone's, and the principal does not belong to the operator's tenant.
        """
        async with self._audit.around(principal, Action.REMOVE_DEMO, demo):
            try:
                await self._peers.demos.delete(demo, tenant=principal.tenant)
            except NotFound:
                await self._peers.demos.get(demo)
                await self._peers.demos.delete(demo, tenant=principal.audience(shared=True))

    async def forget_demo(self, run: Run, principal: Principal) -> None:
        """Remove the demonstrations that were made of a run. An equal one with another source stays.

        One that is everyone's stays unless the principal belongs to the operator's tenant: another tenant's run may
        be the source of a demonstration that the operator shared.
        """
        for tenant in (run.tenant, None) if principal.operator else (run.tenant,):
            with suppress(NotFound):
                demo = await self._peers.demos.get(demo_id(demo_of(run)), tenant=tenant)
                if demo.source == run.id:
                    async with self._audit.around(principal, Action.REMOVE_DEMO, demo.id):
                        await self._peers.demos.delete(demo.id, tenant=tenant)

    async def secrets(self, provider: str, principal: Principal) -> NeededSecrets:
        """The credentials that a provider's APIs ask for, and which of them are configured."""
        needed, there = await asyncio.gather(
            self._peers.retriever.secrets(provider, tenant=principal.tenant),
            self._peers.executor.credentials(principal.tenant),
        )
        known = frozenset(there.secrets)
        marked = (one.model_copy(update={"configured": one.secret in known}) for one in needed.secrets)
        return NeededSecrets(secrets=tuple(marked))

    async def try_secret(self, name: str, principal: Principal) -> SecretTest:
        """Test a credential with a call that only reads and needs no arguments, if there is one.

        If the policy does not allow that call, it is prepared but not sent.

        Raises:
            NotFound: no API that this tenant sees asks for the credential, or none asks for it alone.
        """
        needed = await self._peers.retriever.secrets(name.partition(".")[0], tenant=principal.tenant)
        one = next((one for one in needed.secrets if one.secret == name), None)
        if one is None:
            others = ", ".join(other.secret for other in needed.secrets[:_MOST_NAMED])
            raise NotFound(
                f"No API asks for {name!r}." + (f" Its provider's APIs ask for: {others}." if others else "")
            )
        if one.probe is None:
            raise NotFound(f"No API can be called with {name!r} alone: all that need it also need another credential.")
        api = await self._peers.retriever.get(one.probe, tenant=principal.tenant)
        alone = next((r,) for alternative in api.security for r in alternative if r.secret == name)
        bare = api.model_copy(update={"security": (alone,)})
        allowed = self._policy(principal.tenant).decide(api).allows
        asked = SecretTestRequest(api=bare, tenant=principal.tenant, send=one.harmless and allowed)
        async with self._audit.around(principal, Action.TEST_CREDENTIAL, name):
            return await self._peers.executor.test_secret(asked)


def demo_of(run: Run) -> Demo:
    """The demonstration of a run that has a plan."""
    assert run.plan is not None, "a run that can be confirmed has a plan"
    return Demo(query=run.query, plan=run.plan, source=run.id)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
