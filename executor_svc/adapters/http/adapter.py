"""The HTTP adapter: a call becomes a request, the answer an outcome. Credentials are resolved and masked in here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from yarl import URL

from executor_svc.adapters.http.credentials import Authenticator, CredentialUnavailable
from executor_svc.adapters.http.hosts import HostEvent, Hosts, Observer
from executor_svc.adapters.http.request import BadRequest, Credentials, HttpRequest, build_request
from executor_svc.adapters.http.response import BadResponse, decode, decode_error
from executor_svc.adapters.http.retry import RetryPolicy
from executor_svc.adapters.http.sending import Sender, Sending
from executor_svc.adapters.http.transport import Reply, open_transport
from executor_svc.models import Call, CallOutcome, CallResult, Unpreviewable
from executor_svc.secret_store import Masker, SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.plan import content_hash
from services.contracts.run import Failed, RequestRecord, Succeeded


class HttpAdapter:
    """:class:`~executor_svc.models.Adapter` over HTTP. Everything it returns is masked."""

    def __init__(self, sender: Sender, masker: Masker) -> None:
        self._sender, self._masker = sender, masker

    async def call(self, call: Call) -> CallResult:
        """Make one call and say what came of it, before its deadline."""
        sending = Sending(call)
        try:
            request = build_request(call.api, call.arguments, idempotency_key(call.key))
        except BadRequest as error:
            failed = Failed(reason="bad_request", message=self._masker.text(str(error)))
            return CallResult(sending.settle(failed), None, 0)
        outcome = await self._outcome(request, sending)
        return CallResult(outcome, self._record(request, sending.credentials), sending.attempts)

    def preview(self, call: Call) -> RequestRecord:
        """The request that would be sent, masked, without credentials. Raises Unpreviewable."""
        try:
            request = build_request(call.api, call.arguments, idempotency_key(call.key))
        except BadRequest as error:
            raise Unpreviewable(self._masker.text(str(error))) from None
        return self._record(request, Credentials())

    async def _outcome(self, request: HttpRequest, sending: Sending) -> CallOutcome:
        try:
            reply = await self._sender.send(request, sending)
            if isinstance(reply, Failed):
                return self._settled(reply, sending)
            if not 200 <= reply.status < 300:
                return self._settled(self._refused(reply), sending)
            value = decode(sending.call.api, reply.status, reply.content_type, reply.body)
        except CredentialUnavailable as error:
            return self._settled(Failed(reason="credential", message=str(error)), sending)
        except BadResponse as error:
            return self._settled(Failed(reason="bad_response", message=str(error), status=reply.status), sending)
        return Succeeded.model_construct(value=self._masker.json(value), status=reply.status)

    def _settled(self, failed: Failed, sending: Sending) -> CallOutcome:
        outcome = sending.settle(failed)
        return outcome.model_copy(update={"message": self._masker.text(outcome.message)})

    def _refused(self, reply: Reply) -> Failed:
        detail = self._masker.json(decode_error(reply.content_type, reply.body, truncated=reply.truncated))
        message = f"the upstream answered {reply.status}"
        if 300 <= reply.status < 400:
            message = f"{message}, a redirect{_target(reply)}; redirects are not followed"
        return Failed(reason="upstream_error", message=message, status=reply.status, detail=detail)

    def _record(self, request: HttpRequest, credentials: Credentials) -> RequestRecord:
        """Masked twice: credentials by where they stand, and any known secret wherever else it stands."""
        record = request.record(credentials)
        return RequestRecord.model_construct(
            method=record.method,
            url=self._masker.text(record.url),
            headers={name: self._masker.text(value) for name, value in record.headers.items()},
            body=self._masker.json(record.body),
        )


def idempotency_key(call_key: str) -> str:
    """The `Idempotency-Key` of a call: the same for every attempt at it, and equal to no other call's."""
    return content_hash(call_key)[:32]


def _target(reply: Reply) -> str:
    """Where a redirect points, without its path: that is the upstream's own text."""
    try:
        location = URL(reply.headers.get("Location", ""))
    except ValueError:
        return ""
    return f" to {location.host}" if location.host else ""


def _unobserved(_: HostEvent) -> None:
    """Nobody counts."""


@asynccontextmanager
async def open_http_adapter(
    settings: ExecutorSettings, store: SecretStore, observe: Observer = _unobserved
) -> AsyncIterator[HttpAdapter]:
    """An adapter with its connections, closed at the end. ``observe`` is told of retries and of hosts in trouble."""
    masker = Masker(store.masked())
    async with open_transport(settings) as transport:
        auth = Authenticator(store, transport, masker, settings.oauth_skew_s)
        retry = RetryPolicy(settings.max_attempts, settings.retry_base_s)
        yield HttpAdapter(Sender(transport, auth, Hosts(settings, observe), retry), masker)
