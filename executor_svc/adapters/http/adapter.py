"""The HTTP adapter: a call becomes a request, the answer an outcome. Credentials are resolved and masked in here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from yarl import URL

from executor_svc.adapters.http.credentials import Authenticator, CredentialUnavailable
from executor_svc.adapters.http.request import BadRequest, Credentials, HttpRequest, build_request
from executor_svc.adapters.http.response import BadResponse, decode, decode_error
from executor_svc.adapters.http.retry import RetryPolicy
from executor_svc.adapters.http.transport import Reply, SendFailed, Transport, open_transport
from executor_svc.models import Call, CallOutcome, CallResult, Unpreviewable
from executor_svc.secret_store import Masker, SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Api
from services.contracts.plan import content_hash
from services.contracts.run import Failed, InDoubt, RequestRecord, Succeeded


@dataclass(slots=True)
class _Attempts:
    """A call under way: how often it was tried, and whether an earlier try may have had an effect."""

    count: int = 0
    doubtful: bool = False
    refreshed: bool = False


class HttpAdapter:
    """:class:`~executor_svc.models.Adapter` over HTTP. Everything it returns is masked."""

    def __init__(self, transport: Transport, auth: Authenticator, masker: Masker, retry: RetryPolicy) -> None:
        self._transport, self._auth, self._masker, self._retry = transport, auth, masker, retry

    async def call(self, call: Call) -> CallResult:
        """Make one call and say what came of it, before its deadline."""
        try:
            request = build_request(call.api, call.arguments, idempotency_key(call.key))
        except BadRequest as error:
            return CallResult(Failed(reason="bad_request", message=self._masker.text(str(error))), None, 0)
        attempts = _Attempts()
        try:
            credentials = await self._auth.present(call.api, request.origin, call.deadline)
            outcome, credentials = await self._attempt(call, request, credentials, attempts)
        except CredentialUnavailable as error:
            outcome, credentials = _failed("credential", self._masker.text(str(error))), Credentials()
        return CallResult(outcome, self._record(request, credentials), attempts.count)

    def preview(self, call: Call) -> RequestRecord:
        """The request that would be sent, masked, without credentials. Raises Unpreviewable."""
        try:
            request = build_request(call.api, call.arguments, idempotency_key(call.key))
        except BadRequest as error:
            raise Unpreviewable(self._masker.text(str(error))) from None
        return self._record(request, Credentials())

    async def _attempt(
        self, call: Call, request: HttpRequest, credentials: Credentials, attempts: _Attempts
    ) -> tuple[CallOutcome, Credentials]:
        """Send until there is an outcome, or no further attempt is allowed or would fit before the deadline."""
        while True:
            attempts.count += 1
            try:
                reply = await self._send(call, request, credentials)
            except SendFailed as error:
                attempts.doubtful |= error.sent and error.status is None and call.api.mutating
                outcome = self._lost(error, attempts)
                pause = self._retry.after_failure(call.api, error, attempts.count)
            else:
                if reply.status == 401 and credentials.token and not attempts.refreshed:
                    attempts.refreshed = True
                    self._auth.forget(credentials.token)
                    credentials = await self._auth.present(call.api, request.origin, call.deadline)
                    continue
                outcome = self._answered(call.api, reply, attempts)
                pause = self._retry.after_reply(call.api, reply, attempts.count)
            if pause is None or asyncio.get_running_loop().time() + pause >= call.deadline:
                return outcome, credentials
            await asyncio.sleep(pause)

    async def _send(self, call: Call, request: HttpRequest, credentials: Credentials) -> Reply:
        return await self._transport.send(
            request.method,
            request.url(credentials),
            request.all_headers(credentials),
            request.body.content if request.body is not None else None,
            deadline=call.deadline,
            once=not call.api.resendable,
        )

    def _lost(self, error: SendFailed, attempts: _Attempts) -> CallOutcome:
        """A known status means a known effect, even where the body never came."""
        message = self._masker.text(error.message)
        if attempts.doubtful:
            return InDoubt(message=f"the request went out, but {message}")
        if error.status is not None:
            message = f"answered {error.status}, but {message}"
        return Failed(reason=error.reason, message=message, status=error.status)

    def _answered(self, api: Api, reply: Reply, attempts: _Attempts) -> CallOutcome:
        if 200 <= reply.status < 300:
            try:
                value = decode(api, reply.status, reply.content_type, reply.body)
            except BadResponse as error:
                return _failed("bad_response", self._masker.text(str(error)), reply.status)
            return Succeeded.model_construct(value=self._masker.json(value), status=reply.status)
        if attempts.doubtful:
            return InDoubt(message=f"an earlier attempt went out without an answer; the last one gave {reply.status}")
        detail = self._masker.json(decode_error(reply.content_type, reply.body, truncated=reply.truncated))
        message = f"the upstream answered {reply.status}"
        if 300 <= reply.status < 400:
            message = self._masker.text(f"{message}, a redirect{_target(reply)}; redirects are not followed")
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


def _failed(reason: str, message: str, status: int | None = None) -> Failed:
    return Failed.model_validate({"reason": reason, "message": message, "status": status})


def _target(reply: Reply) -> str:
    """Where a redirect points, without its path: that is the upstream's own text."""
    try:
        location = URL(reply.headers.get("Location", ""))
    except ValueError:
        return ""
    return f" to {location.host}" if location.host else ""


@asynccontextmanager
async def open_http_adapter(settings: ExecutorSettings, store: SecretStore) -> AsyncIterator[HttpAdapter]:
    """An adapter with its connections, closed at the end."""
    masker = Masker(store.masked())
    async with open_transport(settings) as transport:
        auth = Authenticator(store, transport, masker, settings.oauth_skew_s)
        yield HttpAdapter(transport, auth, masker, RetryPolicy(settings.max_attempts, settings.retry_base_s))
