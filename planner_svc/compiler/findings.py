"""Collects the compiler's diagnostics, within limits: even a plan of ten thousand bad steps gets a readable answer."""

import difflib
from collections.abc import Iterable

from services.compute import checkpoint
from services.contracts.planning import Diagnostic, DiagnosticCode, Fix

MAX_DIAGNOSTICS = 200
MAX_SUGGESTIONS = 20
"""Most diagnostics with a "did you mean": comparing names is the slowest part of the compiler."""
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
        self._add(Diagnostic(code=code, step=step, argument=argument, message=message, fixes=tuple(fixes)))

    def warning(
        self,
        code: DiagnosticCode,
        message: str,
        step: str | None = None,
        argument: str | None = None,
        fixes: Iterable[Fix] = (),
    ) -> None:
        """Record a finding that does not keep the plan from being proved."""
        self._add(
            Diagnostic(code=code, severity="warning", step=step, argument=argument, message=message, fixes=tuple(fixes))
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

    def _add(self, diagnostic: Diagnostic) -> None:
        room = MAX_DIAGNOSTICS if diagnostic.severity == "error" else MAX_DIAGNOSTICS // 2
        if len(self._all) < room:
            self._all.append(diagnostic)
