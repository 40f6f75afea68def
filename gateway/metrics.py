"""The gateway's metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.contracts.run import EvidenceRound, Run

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class GatewayMetrics:
    """Counters, gauges and histograms of runs, in the app's own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.active = Gauge("nestor_runs_active", "Active runs in this process.", registry=registry)
        self.recovered = Counter("nestor_runs_recovered", "Runs taken over from stopped processes.", registry=registry)
        self.waiting_runs = Gauge("nestor_runs_waiting", "Runs that wait to begin.", registry=registry)
        self.refused = Counter(
            "nestor_quota_refused",
            "Requests refused by a limit: requests, runs, streams or imports of the tenant, or all_runs. Tenants that "
            "are not named in settings are `other`.",
            ["limit", "tenant"],
            registry=registry,
        )
        self.issuer_reachable = Gauge(
            "nestor_issuer_reachable",
            "Whether the last fetch of an authorization server's keys succeeded.",
            ["issuer"],
            registry=registry,
        )
        self.issuer_tokens = Counter(
            "nestor_issuer_tokens",
            "Tokens of an authorization server, by result: taken (accepted), refused (expired, for others), forged "
            "(no such key, or a wrong signature) or unavailable (its keys could not be fetched).",
            ["issuer", "outcome"],
            registry=registry,
        )
        self.followers = Gauge("nestor_run_followers", "Open streams of run events.", registry=registry)
        self.sentences = Counter(
            "nestor_sentences",
            "Answers, by the result of writing a sentence: written, refused, failed, unfit or late.",
            ["outcome"],
            registry=registry,
        )
        self._rounds = Counter(
            "nestor_evidence_rounds",
            "Plans whose calls found nothing, by the planner's response: replanned, no_plan, needs_input, same_plan, "
            "other_changes or unasked.",
            ["outcome"],
            registry=registry,
        )
        self._attempts = Counter(
            "nestor_evidence_attempts",
            "Calls that did not return what was needed: empty, not_found or rejected.",
            ["outcome"],
            registry=registry,
        )
        self.feedback = Counter(
            "nestor_run_feedback",
            "Verdicts on runs. A changed verdict counts again.",
            ["verdict"],
            registry=registry,
        )
        self._runs = Counter("nestor_runs_total", "Ended runs, by final status.", ["status"], registry=registry)
        self._parts = Histogram(
            "nestor_solve_part_seconds",
            "Duration of each part of a request, in seconds.",
            ["part"],
            buckets=_BUCKETS,
            registry=registry,
        )

    def count_evidence(self, what: EvidenceRound) -> None:
        """Count a round of replanning and its failed calls."""
        self._rounds.labels(what.outcome).inc()
        for attempt in what.attempts:
            self._attempts.labels(attempt.outcome).inc()

    def count_run(self, run: Run) -> None:
        """Count a run that has reached a final state."""
        self._runs.labels(run.status.value).inc()
        for part, ms in run.timings.model_dump().items():
            self._parts.labels(part.removesuffix("_ms")).observe(ms / 1000)
