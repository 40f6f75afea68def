"""Collects the compiler's diagnostics, within limits: even a plan of ten thousand bad steps gets a readable answer."""

import difflib
from collections.abc import Iterable

from services.compute import checkpoint
from services.contracts.planning import Diagnostic, DiagnosticCode, Fix

MAX_DIAGNOSTICS = 200
MAX_SUGGESTIONS = 20
"""Most diagnostics with a "did you mean": comparing names is the slowest part of the compiler."""
_MAX_MESSAGE = 2_000
_MAX_NAME = 64
"""Longest name that is compared, in characters."""
_MAX_COMPARED = 2_000_000
"""Most pairs of characters that all comparisons of a plan may take: about 0.2 s."""


class Findings:
    """Diagnostics, and the number of facts checked."""

    def __init__(self) -> None:
        self.checks = 0
        self.errors = 0
        self._all: list[Diagnostic] = []
        self._suggestions = 0
        self._left = _MAX_COMPARED

    @property
    def full(self) -> bool:
        """Whether further errors are only counted."""
        return len(self._all) >= MAX_DIAGNOSTICS

    def error(
        self,
        code: DiagnosticCode,
        message: str,
        step: str | None = None,
        argument: str | None = None,
        fixes: Iterable[Fix] = (),
    ) -> None:
        """Record a finding that keeps the plan from being proved."""
        self.errors += 1
        if not self.full:
            self._all.append(
                Diagnostic(code=code, step=step, argument=argument, message=_cut(message), fixes=tuple(fixes))
            )

    def warning(
        self,
        code: DiagnosticCode,
        message: str,
        step: str | None = None,
        argument: str | None = None,
        fixes: Iterable[Fix] = (),
    ) -> None:
        """Record a finding that does not keep the plan from being proved."""
        if len(self._all) < MAX_DIAGNOSTICS // 2:
            fixed = tuple(fixes)
            self._all.append(
                Diagnostic(
                    code=code, severity="warning", step=step, argument=argument, message=_cut(message), fixes=fixed
                )
            )

    def similar(self, name: str, known: Iterable[str]) -> list[str]:
        """Up to three known names similar to a wrong one, best first."""
        if self._suggestions >= MAX_SUGGESTIONS or len(name) > _MAX_NAME:
            return []
        self._suggestions += 1
        near = []
        for other in known:
            if len(other) <= _MAX_NAME:
                self._left -= len(name) * len(other)
                if self._left < 0:
                    break
                near.append(other)
        checkpoint()
        return difflib.get_close_matches(name, near)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Errors first, otherwise in the order found."""
        return tuple(sorted(self._all, key=lambda diagnostic: diagnostic.severity))


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"
