"""Why plans were wrong: sorts the lines that ``nestor eval plan --predictions`` writes by their most serious error.

``python -m evals.failures FILE [--show N]`` prints how many requests failed for which reason, and N of them.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from evals.data import DataError, read_lines
from evals.predictions import Planned, without_answer
from planner_svc.reading.readings import same

_SEED = 7
_REFERENCE = "$var"


class Line(BaseModel):
    """The fields used from a line of ``nestor eval plan --predictions``."""

    model_config = ConfigDict(extra="ignore")

    id: str
    query: str
    gold: list[Planned]
    predicted: list[Planned]
    confidence: float
    full_match: bool
    full_match_any_order: bool
    missing_candidates: list[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One error of a plan. The order of the reasons is the order of the checks."""

    reason: str
    detail: str


def differences(line: Line) -> Iterator[Difference]:
    """The errors of a plan, the most serious first; none if the plan is right."""
    if line.full_match:
        return
    predicted = without_answer(line.predicted)
    if line.missing_candidates:
        yield Difference("not among the candidates", ", ".join(line.missing_candidates))
    wanted, made = Counter(one.name for one in line.gold), Counter(one.name for one in predicted)
    for name in wanted.keys() - made.keys() - {*line.missing_candidates}:
        yield Difference("not called", name)
    for name in made.keys() - wanted.keys():
        yield Difference("called, and not asked for", name)
    for name in wanted.keys() & made.keys():
        if wanted[name] != made[name]:
            yield Difference("called too often or too seldom", f"{name}: {made[name]} times, not {wanted[name]}")
    for name in wanted.keys() & made.keys():
        if wanted[name] == made[name]:
            pairs = zip(_of(line.gold, name), _of(predicted, name), strict=True)
            for right, planned in pairs:
                yield from _arguments(right, planned)
    if line.full_match_any_order:
        yield Difference("another order", "")


def reason_of(line: Line) -> Difference:
    """The most serious difference."""
    order = list(REASONS)
    found = sorted(differences(line), key=lambda one: order.index(one.reason))
    return found[0] if found else Difference("nothing found", "")


REASONS: dict[str, str] = {
    "not among the candidates": "the retriever did not find an API that is needed",
    "not called": "it was offered, and not called",
    "called, and not asked for": "an API too many",
    "called too often or too seldom": "the right API, another number of times",
    "a value instead of a reference": "the value comes from another call, and was taken from the request",
    "a reference instead of a value": "the request says it, and it was taken from another call",
    "another reference": "of another call, or another field",
    "no reference": "the value comes from another call, and was left out",
    "no value": "the request says it, and it was left out",
    "a value too many": "an argument that the solution does not have",
    "another form": "the right words, written otherwise",
    "other words": "the wrong words, too many or too few",
    "another order": "all calls are right",
    "nothing found": "",
}
"""What each reason means."""


def _of(calls: Sequence[Planned], name: str) -> list[Planned]:
    return [one for one in calls if one.name == name]


def _arguments(right: Planned, planned: Planned) -> Iterator[Difference]:
    for name in [*right.arguments, *(other for other in planned.arguments if other not in right.arguments)]:
        where = f"{right.name}.{name}"
        if name not in planned.arguments:
            missing = "no reference" if _refers(right.arguments[name]) else "no value"
            yield Difference(missing, f"{where}: {right.arguments[name]!r}")
        elif name not in right.arguments:
            yield Difference("a value too many", f"{where}: {planned.arguments[name]!r}")
        else:
            yield from _value(where, right.arguments[name], planned.arguments[name])


def _value(where: str, right: JsonValue, planned: JsonValue) -> Iterator[Difference]:
    detail = f"{where}: {planned!r}, not {right!r}"
    if _refers(right) and _refers(planned):
        if _field(right) != _field(planned):
            yield Difference("another reference", detail)
    elif _refers(right):
        yield Difference("a value instead of a reference", detail)
    elif _refers(planned):
        yield Difference("a reference instead of a value", detail)
    elif str(right) != str(planned):
        yield Difference("another form" if same(right, planned) else "other words", detail)


def _refers(value: JsonValue) -> bool:
    return isinstance(value, str) and _REFERENCE in value


def _field(value: JsonValue) -> str:
    """The field that a reference names, without the call: the numbering of calls may differ."""
    return str(value).strip("$").partition(".")[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts, and some failures; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m evals.failures", description=__doc__)
    parser.add_argument("file", type=Path, help="what `nestor eval plan --predictions` wrote")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print so many failures, always the same ones")
    options = parser.parse_args(argv)
    try:
        lines = [line for _, line in read_lines(options.file, Line)]
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    failed = [(line, reason_of(line)) for line in lines if not line.full_match]
    counts = Counter(reason.reason for _, reason in failed)
    print(f"{len(failed)} of {len(lines)} plans are not just the solution.\n")
    print("| gravest reason | plans | meaning |\n| --- | --- | --- |")
    for name, count in counts.most_common():
        print(f"| {name} | {count} | {REASONS[name]} |")
    for line, reason in random.Random(_SEED).sample(failed, min(options.show, len(failed))):  # noqa: S311
        print(f"\n- {line.id} ({line.confidence:.2f}) {line.query}\n  {reason.reason}: {reason.detail}")
        for other in differences(line):
            if other != reason:
                print(f"  also {other.reason}: {other.detail}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
