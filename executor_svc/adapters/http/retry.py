"""When a call may be sent again, and after how long."""

import email.utils
import random
import time
from dataclasses import dataclass

from executor_svc.adapters.http.transport import Reply, SendFailed
from services.contracts.api import Api

_BUSY = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most ``max_attempts`` sends; pauses of up to ``base_s``, doubling, with full jitter."""

    max_attempts: int
    base_s: float

    def after_failure(self, api: Api, error: SendFailed, attempt: int) -> float | None:
        """Seconds to wait before the next attempt, or None. What was never sent can always be sent again."""
        if attempt >= self.max_attempts or error.reason != "connection":
            return None
        if error.sent and not api.resendable:
            return None
        return random.uniform(0, self.base_s * 2 ** (attempt - 1))  # noqa: S311 - jitter, not a secret

    def after_reply(self, api: Api, reply: Reply, attempt: int) -> float | None:
        """Seconds to wait as a busy upstream asks for in `Retry-After`, or None."""
        if attempt >= self.max_attempts or reply.status not in _BUSY or not api.resendable:
            return None
        asked = retry_after_s(reply.headers.get("Retry-After", ""), time.time())
        return None if asked is None else asked + random.uniform(0, self.base_s)  # noqa: S311


def retry_after_s(header: str, now: float) -> float | None:
    """Seconds asked for by `Retry-After` (RFC 9110, section 10.2.3): a number of seconds or a date; None if neither."""
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return None
