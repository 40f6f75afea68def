"""The right to work on a run, and its loss.

The epoch is a fencing token: each takeover raises it, so a late write of the former owner, which names the old one, is
refused in its own transaction.
"""

from dataclasses import dataclass


class Fenced(Exception):
    """Another process owns the run now. This process must do nothing more for it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to work on a run: valid as long as the run's row names this owner and this epoch."""

    run_id: str
    owner: str
    epoch: int
