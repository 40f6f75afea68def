"""The planner's metrics."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

from services.clients.chat import ChatError, Completion

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)

_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class PlannerMetrics:
    """Counters and histograms of planning and of the language model, in the app's own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.outcomes = Counter("nestor_plans", "Requests planned.", ["backend", "status"], registry=registry)
        self.fallbacks = Counter(
            "nestor_planner_fallbacks",
            "Planners whose result was not used, so that the next one was asked.",
            ["backend", "reason"],
            registry=registry,
        )
        self.judged = Histogram(
            "nestor_planner_judged",
            "Probability that a planner's result is right, as estimated by its judge.",
            buckets=_SHARES,
            registry=registry,
        )
        self.abstained = Counter(
            "nestor_planner_abstained",
            "Plans that were not returned because they are not likely enough.",
            ["backend"],
            registry=registry,
        )
        self.unsure = Counter(
            "nestor_planner_unsure",
            "Plans that were returned and marked as unsure, by planner.",
            ["backend"],
            registry=registry,
        )
        self.untold = Counter(
            "nestor_planner_untold", "Plans for requests with a value that no API provides.", registry=registry
        )
        self.needs = Counter(
            "nestor_planner_needs", "Model answers that ask for operations that were not offered.", registry=registry
        )
        self.repairs = Counter(
            "nestor_planner_model_repairs",
            "Repair turns, in which a model is shown the errors of its plan.",
            registry=registry,
        )
        self._answers = Counter(
            "nestor_planner_model_answers", "Completions of the language model.", ["outcome"], registry=registry
        )
        self._tokens = Counter(
            "nestor_planner_model_tokens", "Tokens, as counted by the server.", ["kind"], registry=registry
        )
        self._seconds = Histogram(
            "nestor_planner_model_seconds", "Duration of a completion, in seconds.", buckets=_BUCKETS, registry=registry
        )

    @contextmanager
    def completing(self) -> Iterator[None]:
        """Time one completion; a failed one is counted by its ``trouble``."""
        try:
            with self._seconds.time():
                yield
        except ChatError as error:
            self._answers.labels(error.trouble).inc()
            raise

    def completed(self, completion: Completion) -> None:
        """Count a completion and its tokens."""
        self._answers.labels("answered").inc()
        self._tokens.labels("prompt").inc(completion.prompt_tokens or 0)
        self._tokens.labels("completion").inc(completion.completion_tokens or completion.tokens)

    @property
    def completions(self) -> dict[str, int]:
        """How many completions were answered, and how many failed, by ``trouble``."""
        return _counted(self._answers, "outcome")

    @property
    def tokens(self) -> dict[str, int]:
        """Tokens of prompts and of completions."""
        return _counted(self._tokens, "kind")

    @property
    def mean_completion_s(self) -> float:
        """Mean seconds per completion, failed ones included; 0 if there was none."""
        samples = {sample.name: sample.value for metric in self._seconds.collect() for sample in metric.samples}
        return samples["nestor_planner_model_seconds_sum"] / max(samples["nestor_planner_model_seconds_count"], 1)


def _counted(counter: Counter, label: str) -> dict[str, int]:
    """A counter's values by the value of one label."""
    samples = [sample for metric in counter.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return {sample.labels[label]: int(sample.value) for sample in samples}
