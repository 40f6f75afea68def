"""The HTTP adapter: turns a call into a request and the answer into an outcome. Resolves and masks credentials."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from pydantic import JsonValue

from executor_svc.adapters.http.body import body_estimate
from executor_svc.adapters.http.conformance import MAX_VIOLATIONS, Checker, checker_of, has_response_schema
from executor_svc.adapters.http.credentials import Authenticator, CredentialUnavailable
from executor_svc.adapters.http.hosts import HostEvent, Hosts, Observer
from executor_svc.adapters.http.listing import Listing, ListLimits
from executor_svc.adapters.http.lru import LruCache
from executor_svc.adapters.http.paging import Paging, paging_of
from executor_svc.adapters.http.request import BadRequest, Credentials, HttpRequest, build_request, origin_of
from executor_svc.adapters.http.response import CUT, BadResponse, decode, decode_error
from executor_svc.adapters.http.retry import RetryPolicy
from executor_svc.adapters.http.sending import PendingCall, Sender
from executor_svc.adapters.http.tokens import CredentialRefused
from executor_svc.adapters.http.transport import Reply, open_transport
from executor_svc.held import memory_of
from executor_svc.masking import Masker
from executor_svc.models import LARGE_BYTES, Call, CallOutcome, CallResult, Unpreviewable
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from executor_svc.workers import BESIDE, NotDone, Workers
from services.byte_budget import BudgetTimeout
from services.compute import ComputePool, for_tenant
from services.contracts.api import Api
from services.contracts.operations import Breaker
from services.contracts.outcome import Failed, RequestRecord, Succeeded
from services.contracts.secret import SecretOutcome, SecretTest
from services.errors import Overloaded
from services.urls import url_of

_MAX_PAGINGS: Final = 512
_CHECKERS_BYTES: Final = 100_000_000
"""Memory for the cached checkers, in bytes."""
_NO_CHECKER_BYTES: Final = 1_000
"""Cost of a cache entry that records that an API has no checker."""
_MAX_VIOLATION: Final = 200
_MAX_MESSAGE: Final = 1_000
_READERS: Final = 2
_PART: Final = 206
_MAX_READ_AT_ONCE: Final = 2_000
_USUAL_GROWTH: Final = 8
"""Bytes of memory that each byte of an answer usually takes at most once it is parsed. The budget counts text."""
_NOT_TRIED: Final = (
    "The credential can be sent, but nothing was called: there is no operation for a test that only reads and needs "
    "no argument. Only a real call can show whether it is valid."
)
_TOO_LATE: Final = "the answer could not be read before the deadline"
_NO_ROOM: Final = "nothing was sent: other calls use all memory for answers; try again"
_NOT_READ: Final = "its answer was not read: other calls use all memory for answers; try again"
_TOO_MANY: Final = "too many large answers are waiting to be read; try again"
_NOT_BUILT: Final = "nothing was sent: the large request could not be built in time; try again"
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CheckerEntry:
    """The checker of an API; None where its answers cannot be checked."""

    checker: Checker | None

    @property
    def bytes(self) -> int:
        """Its memory use: an upper bound."""
        return self.checker.bytes if self.checker is not None else _NO_CHECKER_BYTES


@dataclass(slots=True)
class _Reading:
    """What is learned about a call besides its outcome."""

    pending: PendingCall
    paging: Paging | None
    requests: int = 0
    part: bool = False
    bytes: int = 0
    memory: int = 0
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()


class _ReadFailed(Exception):
    """An answer arrived but could not be read. ``failed`` says why; it does not hold the status."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class HttpAdapter:
    """:class:`~executor_svc.models.Adapter` over HTTP. Masks in each result the secrets that the call presented.

    Attributes:
        workers: the threads that read large answers. They take other work on large values as well.
    """

    def __init__(self, sender: Sender, pool: ComputePool, settings: ExecutorSettings) -> None:
        self._sender, self._pool, self._max_values = sender, pool, settings.max_response_values
        self.workers = Workers(pool)
        self._strict = settings.strict_responses
        self._limits = ListLimits(settings.max_pages, settings.max_list_items, settings.max_response_bytes)
        self._pagings: LruCache[tuple[str, str], Paging | None] = LruCache(_MAX_PAGINGS)
        self._checkers: LruCache[tuple[str, str], _CheckerEntry] = LruCache(_CHECKERS_BYTES, lambda made: made.bytes)
        self._lock = threading.Lock()

    def breakers(self) -> tuple[Breaker, ...]:
        """The circuit breakers of hosts whose last request failed."""
        return self._sender.breakers()

    async def call(self, call: Call) -> CallResult:
        """Make one call and return its result before its deadline.

        Follows the pages of a list as far as the plan uses it, unless the plan itself selects a part. If a page cannot
        be fetched, the whole call fails: a partial list must not be taken for the complete one.
        """
        for_tenant.set(call.tenant or "")
        with self._sender.share(origin_of(call.api), call.tenant) as share:
            pending = PendingCall(call, share)
            try:
                request = await self._built(pending)
            except BadRequest as error:
                refused = Failed(reason="bad_request", message=str(error)[:_MAX_MESSAGE])
            except BudgetTimeout:
                refused = Failed(reason="overloaded", message=_NO_ROOM)
            except NotDone as error:
                refused = Failed(reason=error.reason, message=_NOT_BUILT)
            else:
                return await self._perform(request, pending)
            return CallResult(pending.settle(refused), None, 0)

    async def _built(self, pending: PendingCall) -> HttpRequest:
        """The request, built once there is memory for its body. Raises BadRequest, BudgetTimeout, NotDone."""
        call, size = pending.call, body_estimate(pending.call.api, pending.call.value_bytes)
        while True:
            await self._sender.hold(pending, size)
            built = self.workers.run(size, call.deadline, build_request, call.api, call.arguments, call.key)
            if (request := await built).body_bytes <= size + LARGE_BYTES:
                return request
            size = request.body_bytes
            del request  # whatever waits for memory holds no body meanwhile

    async def _perform(self, request: HttpRequest, pending: PendingCall) -> CallResult:
        reading = _Reading(pending, self._paging(pending.call.api))
        ended = await self._read(request, reading)
        outcome = self._settled(ended, pending) if isinstance(ended, Failed) else ended
        attempts = pending.attempts - max(0, reading.requests - 1)
        record = request.record(pending.credentials, pending.masker)
        return CallResult(
            outcome,
            record,
            attempts,
            reading.pages,
            reading.more or reading.part,
            reading.violations,
            secrets=pending.credentials.names,
            bytes=reading.bytes,
            memory=reading.memory,
        )

    def preview(self, call: Call) -> RequestRecord:
        """The whole request that would be sent, without credentials. Raises Unpreviewable.

        A person approves what it shows, so no part of a body is left out.

        No secret is presented, so nothing is masked. Masking would confirm a guessed secret in an argument.
        """
        try:
            request = build_request(call.api, call.arguments, call.key)
        except BadRequest as error:
            raise Unpreviewable(str(error)) from None
        return request.record(Credentials(), Masker(()), whole=True)

    async def test(self, call: Call, *, send: bool) -> SecretTest:
        """The result of presenting a call's credentials. The call is sent at most once; its answer is not shown."""
        for_tenant.set(call.tenant or "")
        with self._sender.share(call.api.server, call.tenant) as share:
            return await self._test(PendingCall(call, share), send=send)

    async def _test(self, pending: PendingCall, *, send: bool) -> SecretTest:
        call = pending.call
        outcome: SecretOutcome
        try:
            request = build_request(call.api, call.arguments, call.key)
            await self._sender.present(request, pending)
            if not send:
                return SecretTest(outcome="ready", message=_NOT_TRIED)
            reply = await self._sender.send(request, pending)
        except CredentialUnavailable as error:
            outcome = "refused" if isinstance(error, CredentialRefused) else "unavailable"
            return SecretTest(outcome=outcome, message=pending.masker.text(str(error))[:_MAX_MESSAGE])
        except BadRequest as error:
            return SecretTest(outcome="unclear", message=pending.masker.text(str(error))[:_MAX_MESSAGE])
        if isinstance(reply, Failed):
            return SecretTest(outcome="unclear", message=pending.masker.text(reply.message)[:_MAX_MESSAGE])
        outcomes: dict[int, SecretOutcome] = {401: "refused", 403: "refused"}
        outcome = "accepted" if 200 <= reply.status < 300 else outcomes.get(reply.status, "unclear")
        return SecretTest(outcome=outcome, message=f"{call.api.method} {call.api.path} answered {reply.status}.")

    async def _read(self, request: HttpRequest, reading: _Reading) -> Succeeded | Failed:
        """Read the answer, or all pages of it."""
        page = await self._page(request, reading)
        if isinstance(page, Failed):
            return page
        reply, value = page
        call, paging = reading.pending.call, reading.paging
        if paging is not None and isinstance(value, (list, dict)) and not paging.selects_part(call.arguments):
            limits = self._limits.for_items(call.items)
            listing = Listing(paging, limits, request, reply, value, anywhere=call.pages_anywhere)
            if listing.may_have_more:
                failed = await self._follow(listing, reading)
                reading.pages, reading.more = listing.pages, listing.more
                if failed is not None:
                    return failed
                value = listing.value
        try:
            masked = await self._in_worker(reading, reading.bytes, reading.pending.masker.json, value)
        except _ReadFailed as error:
            return error.failed.model_copy(update={"status": reply.status})
        return Succeeded.model_construct(value=masked, status=reply.status)

    async def _follow(self, listing: Listing, reading: _Reading) -> Failed | None:
        while (request := listing.next_request(reading.pending.credentials)) is not None:
            page = await self._page(request, reading)
            try:
                if isinstance(page, Failed):
                    failed = page
                else:
                    listing.add(*page)
                    continue
            except BadResponse as error:
                failed = Failed(reason="bad_response", message=str(error))
            return failed.model_copy(update={"message": f"page {listing.pages + 1} of the list: {failed.message}"})
        return None

    async def _page(self, request: HttpRequest, reading: _Reading) -> tuple[Reply, JsonValue] | Failed:
        """One answer with its value, or the failure."""
        pending, reading.requests = reading.pending, reading.requests + 1
        try:
            reply = await self._sender.send(request, pending)
            if isinstance(reply, Failed):
                return reply
            if not 200 <= reply.status < 300:
                return _refused(reply, pending.masker)
            reading.bytes += len(reply.body)
            # RFC 9110, section 15.3.7: for a request that names a range. Without one, the rest is missing.
            reading.part |= reply.status == _PART and not any(name.lower() == "range" for name in request.headers)
            checker = await self._checker(pending.call, reply.status)
            reading.memory += await self._in_worker(reading, reading.bytes, memory_of, reply.body)
            if (grown := reading.memory // _USUAL_GROWTH) > LARGE_BYTES:
                await self._sender.hold(pending, grown)
            quick = checker is None or (reading.bytes <= LARGE_BYTES and checker.is_quick(reply.body))
            size = reading.bytes if quick else BESIDE  # a schema may make the check of a small answer long
            value, violations = await self._in_worker(reading, size, self._parse, reply, pending, checker)
        except _ReadFailed as error:
            return error.failed.model_copy(update={"status": reply.status})
        except CredentialUnavailable as error:
            return Failed(reason="credential", message=str(error))
        except BudgetTimeout:
            return Failed(reason="overloaded", message=_NOT_READ, status=reply.status)
        except BadResponse as error:
            return Failed(reason="bad_response", message=str(error), status=reply.status)
        if violations:
            reading.violations = tuple(dict.fromkeys([*reading.violations, *violations]))[:MAX_VIOLATIONS]
            if self._strict:
                message = f"the answer does not match the API's schema: {'; '.join(reading.violations)}"
                return Failed(reason="bad_response", message=message, status=reply.status)
        return reply, value

    def _parse(self, reply: Reply, pending: PendingCall, checker: Checker | None) -> tuple[JsonValue, tuple[str, ...]]:
        """The value of an answer, and where it breaks the schema. Raises BadResponse."""
        masker = pending.masker
        # Mask first: parsing changes the case of the media type and splits it, so a secret in it would not be found.
        kind = masker.text(reply.content_type)
        value = decode(pending.call.api, reply.status, kind, reply.body, self._max_values)
        violations = checker.violations(reply.status, value, reply.body) if checker is not None else ()
        return value, tuple(masker.text(violation)[:_MAX_VIOLATION] for violation in violations)

    async def _in_worker(
        self, reading: _Reading, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``work`` on values of ``size`` bytes; in a worker thread if they are large. Raises _ReadFailed."""
        try:
            return await self.workers.run(size, reading.pending.call.deadline, work, *args, **kwargs)
        except NotDone as error:
            message = _TOO_LATE if error.reason == "timeout" else _TOO_MANY
            raise _ReadFailed(Failed(reason=error.reason, message=message)) from None

    def _paging(self, api: Api) -> Paging | None:
        key = (api.content_hash, api.id)
        return self._pagings.get(key, lambda: paging_of(api)) if api.content_hash else paging_of(api)

    async def _checker(self, call: Call, status: int) -> Checker | None:
        """The checker for answers of this status, built in a worker thread. None if there is none in time."""
        api = call.api
        if not has_response_schema(api, status):
            return None
        key = (api.content_hash, api.id)
        if api.content_hash and (made := self._checkers.peek(key)) is not None:
            return self._kept(key, made).checker

        def make() -> _CheckerEntry:  # looks in the cache again: concurrent calls may wait for the same checker
            if not api.content_hash:
                return _CheckerEntry(checker_of(api))
            return self._kept(key, self._checkers.peek(key) or _CheckerEntry(checker_of(api)))

        try:
            async with asyncio.timeout_at(call.deadline):
                return (await self._pool.run(make)).checker
        except (TimeoutError, Overloaded):
            return None

    def _kept(self, key: tuple[str, str], made: _CheckerEntry) -> _CheckerEntry:
        """Cache ``made`` unless the key is cached already; return the cached entry. Thread-safe."""
        with self._lock:
            return self._checkers.get(key, lambda: made)

    def _settled(self, failed: Failed, pending: PendingCall) -> CallOutcome:
        outcome = pending.settle(failed)
        return outcome.model_copy(update={"message": pending.masker.text(outcome.message)[:_MAX_MESSAGE]})


def _refused(reply: Reply, masker: Masker) -> Failed:
    detail = decode_error(masker.text(reply.content_type), reply.body, truncated=reply.truncated)
    if isinstance(detail, str) and detail.endswith(CUT) and reply.truncated:
        detail = masker.cut_text(detail.removesuffix(CUT)) + CUT
    else:
        detail = masker.json(detail)
    message = f"the upstream answered {reply.status}"
    if 300 <= reply.status < 400:
        message = f"{message}, a redirect{_target(reply, masker)}; redirects are not followed"
    return Failed(reason="upstream_error", message=message, status=reply.status, detail=detail)


def _target(reply: Reply, masker: Masker) -> str:
    """The host that a redirect points to. Leaves out the path, since the upstream can write any text there."""
    try:  # mask first: parsing changes the case of the host
        host = url_of(masker.text(reply.headers.get("Location", ""))).raw_host
    except ValueError:
        return ""
    return f" to {host}" if host else ""


def _unobserved(_: HostEvent) -> None:
    """Ignore the event."""


@asynccontextmanager
async def open_http_adapter(
    settings: ExecutorSettings, store: SecretStore, observe: Observer = _unobserved
) -> AsyncIterator[HttpAdapter]:
    """Open an adapter with its connections, and close it at the end. Calls ``observe`` for each :data:`HostEvent`."""
    async with open_transport(settings) as transport:
        auth = Authenticator(store, transport, settings.oauth_skew_s)
        retry = RetryPolicy(settings.max_attempts, settings.retry_base_s)
        pool = ComputePool(_READERS, _MAX_READ_AT_ONCE, "answers")
        try:
            sender = Sender(transport, auth, Hosts(settings, observe), retry, Workers(pool))
            yield HttpAdapter(sender, pool, settings)
        finally:
            await pool.close()
