"""How states look: each has an icon, a word and a colour. No state is shown by its colour alone."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StateStyle:
    """How a state is shown: the icon's name, the word, and the colour's name."""

    icon: str
    word: str
    tone: str


STATE_STYLES: Final = {
    # of runs
    "planning": StateStyle("busy", "planning", "info"),
    "planned": StateStyle("plan", "planned", "info"),
    "running": StateStyle("busy", "running", "info"),
    "succeeded": StateStyle("ok", "succeeded", "good"),
    "failed": StateStyle("bad", "failed", "bad"),
    "needs_input": StateStyle("ask", "needs input", "warn"),
    "needs_approval": StateStyle("hand", "needs approval", "warn"),
    "in_doubt": StateStyle("ask", "in doubt", "warn"),
    "cancelled": StateStyle("none", "cancelled", "mute"),
    "no_plan": StateStyle("none", "no plan", "mute"),
    # of steps
    "skipped": StateStyle("none", "skipped", "mute"),
    "waiting": StateStyle("wait", "waiting", "mute"),
    # of feedback on a run
    "confirmed": StateStyle("ok", "confirmed", "good"),
    "rejected": StateStyle("bad", "rejected", "bad"),
    # of checks
    "ok": StateStyle("ok", "ok", "good"),
    "down": StateStyle("bad", "down", "bad"),
    "up": StateStyle("ok", "up", "good"),
    "unknown": StateStyle("wait", "not asked yet", "mute"),
    "full": StateStyle("hand", "at a limit", "warn"),
}
