"""Sends a request with retries until it is answered, and tracks whether it may have had an effect."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from yarl import URL

from executor_svc.adapters.http.credentials import Authenticator, CredentialUnavailable
from executor_svc.adapters.http.digest import UnusableChallenge
from executor_svc.adapters.http.hosts import CircuitOpen, Host, Hosts, NoConnection, NoSlot
from executor_svc.adapters.http.request import Credentials, HttpRequest
from executor_svc.adapters.http.retry import GATEWAY, RetryPolicy
from executor_svc.adapters.http.transport import Reply, SendFailed, Transport
from executor_svc.masking import Masker, masker_of
from executor_svc.models import Call
from executor_svc.workers import NotDone, Workers
from services.byte_budget import FREE_BYTES, Share
from services.contracts.operations import Breaker
from services.contracts.outcome import Failed, InDoubt

_RESENT: Final = "an earlier process may have sent the request"
_NOT_READY: Final = "the credentials could not be added to the large request in time"
_NO_SLOT: Final = "nothing was sent: the limits of {name} did not allow it before the deadline"
_NO_CONNECTION: Final = "nothing was sent: the tenant's other calls had all its connections until the deadline"


@dataclass(slots=True)
class PendingCall:
    """A call in progress.

    Attributes:
        call: the call to make.
        credentials: what it presents; none before the first attempt.
        attempts: how often a request was sent or tried.
        doubt: why an attempt may have had an unknown effect; empty if none may.
        doubted: the number of that attempt.
        presented: the secrets that an attempt has presented, or is about to present.
        share: holds the bytes of the values in the request, and those of its answer.
    """

    call: Call
    share: Share
    credentials: Credentials = field(default_factory=Credentials)
    attempts: int = 0
    doubt: str = ""
    doubted: int = 0
    presented: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def masker(self) -> Masker:
        """Masks the secrets that this call has presented, and nothing else."""
        return masker_of(self.presented)

    def present(self, credentials: Credentials) -> None:
        """Use these credentials from now on."""
        self.credentials = credentials
        self.presented |= credentials.secrets

    def __post_init__(self) -> None:
        """Start in doubt if a former process may have sent the call."""
        if self.call.resent and self.call.api.mutating:
            self.doubt = _RESENT

    def raise_doubt(self, why: str) -> None:
        """Note that the current attempt may have had an effect."""
        self.doubt, self.doubted = why, self.attempts

    def settle(self, failed: Failed) -> Failed | InDoubt:
        """The outcome of the whole call after a failure.

        If an earlier attempt may have had an effect, a later failure does not show that it had none: a repeated
        `DELETE` answers 404 because the first one worked. Only a success settles the call.
        """
        if not self.doubt or (failed.status is not None and 200 <= failed.status < 300):
            return failed
        if self.doubted == self.attempts and self.attempts:
            return InDoubt(message=self.doubt)
        return InDoubt(message=f"{self.doubt}; after that: {failed.message}")


class Sender:
    """Sends requests with credentials and retries, within the limits and the circuit breaker of the host."""

    def __init__(
        self, transport: Transport, auth: Authenticator, hosts: Hosts, retry: RetryPolicy, workers: Workers
    ) -> None:
        self._transport, self._auth, self._hosts, self._retry = transport, auth, hosts, retry
        self._workers = workers

    def breakers(self) -> tuple[Breaker, ...]:
        """The circuit breakers of hosts whose last request failed."""
        return self._hosts.breakers()

    def share(self, host: str, tenant: str | None) -> Share:
        """The share of the answer budget for a tenant's call to this host. Use it in a ``with`` statement."""
        return self._transport.budget.share(host, tenant or "")

    async def hold(self, pending: PendingCall, size: int) -> None:
        """Have memory for a request with a body of ``size`` bytes reserved, before it is built.

        Raises:
            BudgetTimeout: there was not enough in time.
        """
        call, budget = pending.call, self._transport.budget
        if (missing := size - FREE_BYTES - pending.share.held) > 0:
            patient_until = asyncio.get_running_loop().time() + budget.patience_s
            until = call.deadline if call.api.mutating else min(patient_until, call.deadline)
            await pending.share.take(missing, until)

    async def present(self, request: HttpRequest, pending: PendingCall) -> None:
        """Get the credentials for the request without sending it. Raises CredentialUnavailable."""
        call = pending.call
        pending.present(await self._auth.present(call.api, request.origin, call.deadline, call.tenant))

    async def send(self, request: HttpRequest, pending: PendingCall) -> Reply | Failed:
        """Send until there is an answer, or no further attempt is allowed or fits before the deadline.

        Raises:
            CredentialUnavailable: the credentials that the call needs cannot be had.
        """
        call, loop = pending.call, asyncio.get_running_loop()
        host = self._hosts.of(request.origin, call.tenant)
        host.budget.earn(loop.time())
        if not pending.attempts:
            await self.present(request, pending)
        refreshed, before = False, pending.attempts
        last: Reply | Failed | None = None
        while True:
            try:
                ended = await self._attempt(host, request, pending)
            except CircuitOpen as error:
                return last or Failed(reason="circuit_open", message=str(error))
            except NoSlot:
                return last or Failed(reason="timeout", message=_NO_SLOT.format(name=host.name))
            except NoConnection:
                return last or Failed(reason="timeout", message=_NO_CONNECTION)
            last = ended if isinstance(ended, Reply) else _lost(ended)
            if isinstance(ended, Reply) and ended.status == 401 and not refreshed:
                refreshed = True
                if await self._again(request, pending, ended):
                    continue
            pause_s = self._pause_s(host, call, ended, pending.attempts - before)
            if pause_s is None:
                return last
            await asyncio.sleep(pause_s)

    async def _again(self, request: HttpRequest, pending: PendingCall, refused: Reply) -> bool:
        """Whether to resend after a 401: with a new token, or with an answer to the challenge.

        Raises:
            CredentialUnavailable: there is no other token, or the challenge cannot be answered.
        """
        presented = pending.credentials
        if presented.digest is not None:
            try:
                return presented.digest.challenged(request.method, request.url(presented), refused)
            except UnusableChallenge:
                raise CredentialUnavailable("the server's challenge (HTTP Digest) cannot be answered") from None
        if not presented.token or not self._auth.forget(presented.token):
            return False
        await self.present(request, pending)
        return True

    async def _attempt(self, host: Host, request: HttpRequest, pending: PendingCall) -> Reply | SendFailed:
        """Make one attempt; record health and a possible effect. Raises CircuitOpen, NoSlot and NoConnection."""
        call, fresh = pending.call, not pending.call.api.resendable
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._hosts.connection(host, call.tenant, call.deadline, fresh=fresh))
            if host.limits is not None:
                await stack.enter_async_context(host.limits.slot(call.tenant or "", call.deadline))
            return await self._once(host, request, pending)

    async def _once(self, host: Host, request: HttpRequest, pending: PendingCall) -> Reply | SendFailed:
        call, clock = pending.call, asyncio.get_running_loop().time
        host.check()
        pending.attempts += 1
        began = clock()
        try:
            url, headers, body = await self._with_credentials(request, pending)
            reply = await self._transport.send(
                request.method,
                url,
                headers,
                body,
                deadline=call.deadline,
                once=not call.api.resendable,
                tls=pending.credentials.tls,
                share=pending.share,
                confirm=call.confirm,
            )
        except SendFailed as error:
            host.failed(error, clock() - began)
            if call.api.mutating and error.sent and (error.status is None or error.status in GATEWAY):
                pending.raise_doubt(f"the request was sent, but {_lost(error).message}")
            return error
        host.answered(reply.status)
        if call.api.mutating and reply.status in GATEWAY:
            pending.raise_doubt(f"a gateway answered {reply.status}, which does not show whether the call took effect")
        return reply

    async def _with_credentials(
        self, request: HttpRequest, pending: PendingCall
    ) -> tuple[URL, dict[str, str], bytes | None]:
        """The URL, the headers and the body to send. Keys in a body, or a signature of it, take long if it is large.

        Raises:
            SendFailed: they were not ready in time. Nothing was sent.
        """
        credentials = pending.credentials
        size = request.body_bytes if credentials.body or credentials.aws is not None else 0
        try:
            return await self._workers.run(size, pending.call.deadline, request.whole, credentials)
        except NotDone as error:
            raise SendFailed(error.reason, _NOT_READY, sent=False) from None

    def _pause_s(self, host: Host, call: Call, ended: Reply | SendFailed, attempt: int) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        if isinstance(ended, Reply):
            pause_s = self._retry.after_reply(call.api, ended, attempt)
        else:
            pause_s = self._retry.after_failure(call.api, ended, attempt)
        if pause_s is None or asyncio.get_running_loop().time() + pause_s >= call.deadline:
            return None
        allowed = host.budget.spend()
        self._hosts.observe("retry" if allowed else "retry_refused")
        return pause_s if allowed else None


def _lost(error: SendFailed) -> Failed:
    """The failure for an incomplete answer. Keeps the status: it tells the effect even if the body is missing."""
    message = error.message if error.status is None else f"answered {error.status}, but {error.message}"
    return Failed(reason=error.reason, message=message, status=error.status)
