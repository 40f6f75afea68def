"""How likely a whole draft is right: the network's confidences, weighted by a regression on held-out requests."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner_svc.backends.compact.decode import Decoder
from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from services.errors import UnusableSettings

CALIBRATION: Final = "calibration.json"
SIGNS: Final = (
    "least sure call",
    "calls made",
    "calls left out",
    "least sure value",
    "values said",
    "values from calls",
    "missing values",
    "several calls of one API",
    "all together",
    "least sure call, as a probability",
    "least sure value, as a probability",
    "calls left out, as a probability",
    "values said, as a probability",
    "least relevant call",
    "calls that change something",
    "words of the request",
    "just these called",
    "just these called, as a probability",
)
_LEAST: Final = 1e-4


class CalibrationError(UnusableSettings):
    """The file is not a calibration of this planner; the message names it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic regression over :func:`signs_of`.

    Attributes:
        weights: one for each of ``SIGNS``.
        bias: the log-odds of a draft whose signs are all 0.
    """

    weights: tuple[float, ...]
    bias: float

    def probability(self, signs: Sequence[float]) -> float:
        """The probability that a draft with these signs is right."""
        odds = self.bias + math.fsum(weight * sign for weight, sign in zip(self.weights, signs, strict=True))
        return 1 / (1 + math.exp(-min(max(odds, -30.0), 30.0)))

    def save(self, directory: Path) -> None:
        """Write the calibration to the model's directory."""
        content = {"weights": dict(zip(SIGNS, self.weights, strict=True)), "bias": self.bias}
        (directory / CALIBRATION).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Calibration:
        """Read the calibration from the model's directory.

        Raises:
            CalibrationError: the file is missing or invalid.
        """
        file = directory / CALIBRATION
        try:
            content = json.loads(file.read_bytes())
            return cls(tuple(float(content["weights"][sign]) for sign in SIGNS), float(content["bias"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CalibrationError(f"{file} cannot be used: {error}") from None


def signs_of(decoder: Decoder, calls: Sequence[DraftCall]) -> tuple[float, ...]:
    """The evidence for and against a draft; ``SIGNS`` names the entries.

    Sums and minima of log-probabilities tell bad drafts apart; the same as probabilities tell good ones apart.
    """
    made = {call.api for call in calls}
    chosen = [_log(float(decoder.called[number])) for number in made]
    left = [_log(1 - float(sure)) for number, sure in enumerate(decoder.called) if number not in made]
    said = [_log(one.sure) for call in calls for one in call.arguments.values() if isinstance(one, LiteralArgument)]
    fed = [_log(one.sure) for call in calls for one in call.arguments.values() if not isinstance(one, LiteralArgument)]
    least_call, least_value = min(chosen, default=0.0), min([*said, *fed], default=0.0)
    sums = [math.fsum(part) for part in (chosen, left, said, fed)]
    return (
        least_call,
        sums[0],
        sums[1],
        least_value,
        sums[2],
        sums[3],
        float(sum(len(call.missing) for call in calls)),
        float(len(calls) - len(made)),
        *map(math.exp, (math.fsum(sums), least_call, least_value, sums[1], sums[2])),
        min((decoder.relevance(number) for number in made), default=0.0),
        float(sum(decoder.changes(number) for number in made)),
        math.log1p(decoder.words),
        _log(decoder.probability_of_set),
        decoder.probability_of_set,
    )


def _log(probability: float) -> float:
    return math.log(min(max(probability, _LEAST), 1.0))
