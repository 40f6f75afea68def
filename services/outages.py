"""What the log says of work that is tried again and again while something is down."""

import time
from typing import Final

from services.telemetry import get_logger

_log = get_logger(__name__)
_REMIND_S: Final = 60.0


class Outage:
    """Logs that work fails, then once a minute while it does, and that it works again.

    A line for each attempt would hide everything else: there are several in a second.

    Args:
        what: the work, such as `writing the ledger`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = self._told = 0.0

    def failed(self, error: BaseException) -> None:
        """Record a failure."""
        now = time.monotonic()
        self._since = self._since or now
        if not self._told or now - self._told >= _REMIND_S:
            self._told = now
            why, cause = str(error), _cause(error)
            more = {} if cause == why else {"cause": cause}
            _log.warning(f"{self._what} fails", why=why, **more, for_s=round(now - self._since, 1))

    def worked(self) -> None:
        """Record a success."""
        if self._since:
            _log.info(f"{self._what} works again", after_s=round(time.monotonic() - self._since, 1))
            self._since = self._told = 0.0


def _cause(error: BaseException) -> str:
    """What the driver says, in one line: `password authentication failed` rather than `cannot be reached`."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    return str(first).partition("\n")[0] or type(first).__name__
