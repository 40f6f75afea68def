"""The HTTP adapter: a call becomes a request, the answer an outcome. Credentials are resolved and masked in here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from yarl import URL

from executor_svc.adapters.http.conformance import MAX_VIOLATIONS, Checker, checker_of
from executor_svc.adapters.http.credentials import Authenticator, CredentialUnavailable
from executor_svc.adapters.http.hosts import HostEvent, Hosts, Observer
from executor_svc.adapters.http.listing import Listing, ListLimits, listing_of
from executor_svc.adapters.http.paging import Paging, paging_of
from executor_svc.adapters.http.recent import Recent
from executor_svc.adapters.http.request import BadRequest, Credentials, HttpRequest, build_request
from executor_svc.adapters.http.response import CUT, BadResponse, decode, decode_error
from executor_svc.adapters.http.retry import RetryPolicy
from executor_svc.adapters.http.sending import Sender, Sending
from executor_svc.adapters.http.transport import Reply, open_transport
from executor_svc.masking import Masker
from executor_svc.models import Call, CallOutcome, CallResult, Unpreviewable
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Api
from services.contracts.run import Failed, RequestRecord, SecretOutcome, SecretTest, Succeeded

_MAX_PROFILES: Final = 512
_MAX_VIOLATION: Final = 200
_MAX_MESSAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Profile:
    """What the adapter works out once for each API."""

    checker: Checker | None
    paging: Paging | None


@dataclass(slots=True)
class _Reading:
    """What is learned of a call beside its outcome."""

    sending: Sending
    profile: _Profile
    requests: int = 0
    pages: int = 1
    more: bool = False
    violations: tuple[str, ...] = ()


class HttpAdapter:
    """:class:`~executor_svc.models.Adapter` over HTTP. What it returns of a call is masked with what that presented."""

    def __init__(self, sender: Sender, settings: ExecutorSettings) -> None:
        self._sender = sender
        self._strict = settings.strict_responses
        self._limits = ListLimits(settings.max_pages, settings.max_list_items, settings.max_response_bytes)
        self._profiles: Recent[tuple[str, str], _Profile] = Recent(_MAX_PROFILES)

    async def call(self, call: Call) -> CallResult:
        """Make one call and say what came of it, before its deadline.

        A list is followed over its pages as far as the plan makes use of it, unless the plan itself says which part it
        wants. If a page cannot be had, the whole call has failed: half a list must not pass for a list.
        """
        sending = Sending(call)
        try:
            request = build_request(call.api, call.arguments, call.key)
        except BadRequest as error:
            return CallResult(self._settled(Failed(reason="bad_request", message=str(error)), sending), None, 0)
        reading = _Reading(sending, self._profile(call.api))
        ended = await self._read(request, reading)
        outcome = self._settled(ended, sending) if isinstance(ended, Failed) else ended
        attempts = sending.attempts - max(0, reading.requests - 1)
        record = request.record(sending.credentials, sending.masker)
        return CallResult(outcome, record, attempts, reading.pages, reading.more, reading.violations)

    def preview(self, call: Call) -> RequestRecord:
        """The request that would be sent, without credentials. Raises Unpreviewable.

        Nothing is presented, so nothing is masked: whoever wrote a guess into an argument must not see it confirmed.
        """
        try:
            request = build_request(call.api, call.arguments, call.key)
        except BadRequest as error:
            raise Unpreviewable(str(error)) from None
        return request.record(Credentials(), Masker(()))

    async def test(self, call: Call, *, send: bool) -> SecretTest:
        """What comes of presenting the credentials of a call; it is sent once if at all, and its answer not shown."""
        sending = Sending(call)
        try:
            request = build_request(call.api, call.arguments, call.key)
            await self._sender.present(request, sending)
            if not send:
                return SecretTest(outcome="ready", message="It can be presented; nothing was called.")
            reply = await self._sender.send(request, sending)
        except CredentialUnavailable as error:
            return SecretTest(outcome="unavailable", message=sending.masker.text(str(error))[:_MAX_MESSAGE])
        except BadRequest as error:
            return SecretTest(outcome="unclear", message=sending.masker.text(str(error))[:_MAX_MESSAGE])
        if isinstance(reply, Failed):
            return SecretTest(outcome="unclear", message=sending.masker.text(reply.message)[:_MAX_MESSAGE])
        outcomes: dict[int, SecretOutcome] = {401: "refused", 403: "refused"}
        outcome = "accepted" if 200 <= reply.status < 300 else outcomes.get(reply.status, "unclear")
        return SecretTest(outcome=outcome, message=f"{call.api.method} {call.api.path} answered {reply.status}.")

    async def _read(self, request: HttpRequest, reading: _Reading) -> Succeeded | Failed:
        """Read the answer, or all pages of it."""
        page = await self._page(request, reading)
        if isinstance(page, Failed):
            return page
        reply, value = page
        call, paging = reading.sending.call, reading.profile.paging
        if paging is not None and isinstance(value, (list, dict)) and not paging.chosen(call.arguments):
            listing = listing_of(paging, self._limits.for_items(call.items), request, reply, value)
            if listing is not None:
                failed = await self._follow(listing, reading)
                reading.pages, reading.more = listing.pages, listing.more
                if failed is not None:
                    return failed
                value = listing.value
        return Succeeded.model_construct(value=reading.sending.masker.json(value), status=reply.status)

    async def _follow(self, listing: Listing, reading: _Reading) -> Failed | None:
        while (request := listing.following(reading.sending.credentials)) is not None:
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
        """One answer and its value, or why there is none."""
        sending, reading.requests = reading.sending, reading.requests + 1
        try:
            reply = await self._sender.send(request, sending)
            if isinstance(reply, Failed):
                return reply
            if not 200 <= reply.status < 300:
                return _refused(reply, sending.masker)
            # Masked before it is read: reading changes the case of a media type, and takes it apart.
            kind = sending.masker.text(reply.content_type)
            value = decode(sending.call.api, reply.status, kind, reply.body)
        except CredentialUnavailable as error:
            return Failed(reason="credential", message=str(error))
        except BadResponse as error:
            return Failed(reason="bad_response", message=str(error), status=reply.status)
        checker = reading.profile.checker
        if checker is not None and (violations := checker.violations(reply.status, value, reply.body)):
            found = dict.fromkeys([*reading.violations, *(sending.masker.text(v)[:_MAX_VIOLATION] for v in violations)])
            reading.violations = tuple(found)[:MAX_VIOLATIONS]
            if self._strict:
                message = f"the answer is not what the API promises: {'; '.join(reading.violations)}"
                return Failed(reason="bad_response", message=message, status=reply.status)
        return reply, value

    def _profile(self, api: Api) -> _Profile:
        def make() -> _Profile:
            return _Profile(checker_of(api), paging_of(api))

        return self._profiles.get((api.content_hash, api.id), make) if api.content_hash else make()

    def _settled(self, failed: Failed, sending: Sending) -> CallOutcome:
        outcome = sending.settle(failed)
        return outcome.model_copy(update={"message": sending.masker.text(outcome.message)[:_MAX_MESSAGE]})


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
    """Where a redirect points, without its path: that is the upstream's own text."""
    try:  # masked before it is read: reading changes the case of a host
        host = URL(masker.text(reply.headers.get("Location", ""))).raw_host
    except ValueError:
        return ""
    return f" to {host}" if host else ""


def _unobserved(_: HostEvent) -> None:
    """Nobody counts."""


@asynccontextmanager
async def open_http_adapter(
    settings: ExecutorSettings, store: SecretStore, observe: Observer = _unobserved
) -> AsyncIterator[HttpAdapter]:
    """An adapter with its connections, closed at the end. ``observe`` is told of retries and of hosts in trouble."""
    async with open_transport(settings) as transport:
        auth = Authenticator(store, transport, settings.oauth_skew_s)
        retry = RetryPolicy(settings.max_attempts, settings.retry_base_s)
        yield HttpAdapter(Sender(transport, auth, Hosts(settings, observe), retry), settings)
