"""The executor's metrics. Providers come from imported documents, so only the first hundred get their own label."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.contracts.execution import ExecutionEvent, ExecutionFinished, StepFinished
from services.contracts.outcome import StepRecord
from services.contracts.planning import CompiledPlan

_MAX_PROVIDERS: Final = 100
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ExecutorMetrics:
    """Counters and histograms of runs and steps, in the app's own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._providers: set[str] = set()
        self.active = Gauge("nestor_executions_active", "Active runs.", registry=registry)
        self.taken_over = Counter(
            "nestor_executions_taken_over", "Durable runs taken over from another process.", registry=registry
        )
        self._runs = Counter("nestor_executions_total", "Ended runs, by final status.", ["status"], registry=registry)
        self._steps = Counter(
            "nestor_steps_total", "Steps finished, by provider and outcome.", ["provider", "outcome"], registry=registry
        )
        self._attempts = Counter(
            "nestor_step_attempts_total", "Attempts of calls, sent or not.", ["provider"], registry=registry
        )
        self._seconds = Histogram(
            "nestor_step_seconds",
            "Duration of steps that made a call.",
            ["provider"],
            buckets=_BUCKETS,
            registry=registry,
        )

        self._upstreams = Counter(
            "nestor_upstream_events_total",
            "Retries and circuit breaker events, by kind.",
            ["event"],
            registry=registry,
        )

    def upstream(self, event: str) -> None:
        """Count an event of an upstream host that an adapter reports."""
        self._upstreams.labels(event).inc()

    def event(self, event: ExecutionEvent, compiled: CompiledPlan) -> None:
        """Count finished steps and runs."""
        if isinstance(event, StepFinished):
            self._step(event.record, compiled.apis[event.record.api].provider)
        elif isinstance(event, ExecutionFinished):
            self._runs.labels(event.status).inc()

    def _step(self, record: StepRecord, provider: str) -> None:
        label = self._label(provider)
        outcome = record.outcome.reason if record.outcome.kind == "failed" else record.outcome.kind
        self._steps.labels(label, outcome).inc()
        if record.attempts:
            self._attempts.labels(label).inc(record.attempts)
            self._seconds.labels(label).observe(record.duration_ms / 1000)

    def abandoned(self) -> None:
        """Count a run whose caller disconnected."""
        self._runs.labels("cancelled").inc()

    def _label(self, provider: str) -> str:
        if provider not in self._providers and len(self._providers) >= _MAX_PROVIDERS:
            return "other"
        self._providers.add(provider)
        return provider
