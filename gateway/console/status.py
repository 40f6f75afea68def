"""How states look: each has an icon, a word and a colour. No state is shown by its colour alone."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown: the icon's name, the word, and the colour's name."""

    icon: str
    word: str
    tone: str


LOOKS: Final = {
    # of runs
    "planning": Look("busy", "planning", "info"),
    "planned": Look("plan", "planned", "info"),
    "running": Look("busy", "running", "info"),
    "succeeded": Look("ok", "succeeded", "good"),
    "failed": Look("bad", "failed", "bad"),
    "needs_input": Look("ask", "needs input", "warn"),
    "needs_approval": Look("hand", "needs approval", "warn"),
    "in_doubt": Look("ask", "in doubt", "warn"),
    "cancelled": Look("none", "cancelled", "mute"),
    "no_plan": Look("none", "no plan", "mute"),
    # of steps
    "skipped": Look("none", "skipped", "mute"),
    "waiting": Look("wait", "waiting", "mute"),
    # of feedback on a run
    "confirmed": Look("ok", "confirmed", "good"),
    "rejected": Look("bad", "rejected", "bad"),
    # of checks
    "ok": Look("ok", "ok", "good"),
    "down": Look("bad", "down", "bad"),
    "up": Look("ok", "up", "good"),
    "unknown": Look("wait", "not asked yet", "mute"),
    "full": Look("hand", "at a limit", "warn"),
}
