"""When a call may be retried, and after what pause."""

import email.utils
import random
import time
from dataclasses import dataclass
from typing import Final

from executor_svc.adapters.http.transport import Reply, SendFailed
from services.contracts.api import Api

_TRANSIENT: Final = frozenset({502, 503, 504})
_BUSY: Final = frozenset({429, 503})
GATEWAY: Final = frozenset({502, 504, 520, 524})
"""Answers of a gateway that does not know how the upstream handled the request. The last two are Cloudflare's."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Sends at most ``max_attempts`` times. Pauses start at up to ``base_s`` seconds and double, with full jitter."""

    max_attempts: int
    base_s: float

    def after_failure(self, api: Api, error: SendFailed, attempt: int) -> float | None:
        """Seconds before the next attempt, or None. A request that was never sent can always be retried."""
        if attempt >= self.max_attempts or error.reason != "connection":
            return None
        if error.sent and not api.resendable:
            return None
        return self._backoff_s(attempt)

    def after_reply(self, api: Api, reply: Reply, attempt: int) -> float | None:
        """Seconds before the next attempt, by the upstream's `Retry-After` or else by the backoff; or None."""
        if attempt >= self.max_attempts or not api.resendable:
            return None
        asked = retry_after_s(reply.headers.get("Retry-After", ""), time.time()) if reply.status in _BUSY else None
        if asked is not None:
            return asked + random.uniform(0, self.base_s)  # noqa: S311 - jitter, not a secret
        return self._backoff_s(attempt) if reply.status in _TRANSIENT else None

    def _backoff_s(self, attempt: int) -> float:
        return random.uniform(0, self.base_s * 2 ** (attempt - 1))  # noqa: S311 - jitter, not a secret


def retry_after_s(header: str, now: float) -> float | None:
    """The pause in `Retry-After` (RFC 9110, section 10.2.3): a number of seconds or a date; None if neither."""
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return None
