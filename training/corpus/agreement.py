"""Agreement on the right solution: a sample was solved again by writers who saw only the request and the APIs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from evals.data import DataError
from services.codecs.calls import RESULT
from services.codecs.text import CodecError, read_json
from training.corpus.requests import Request

SECOND = "second.jsonl"
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of requests solved twice, of those with calls of the same APIs, and of those with equal solutions."""

    solved: int
    calls: int
    whole: int


def compare(requests: Iterable[Request], file: Path) -> Agreement:
    """Compare second solutions with the corpus' plans.

    The order of calls and of arguments, capitals, and the index of a referenced list item do not matter. References
    name calls by their place, though: a call that uses one of two in another order counts as another one.

    Args:
        requests: of the corpus.
        file: one ``{"id", "plan"}`` per line.

    Raises:
        DataError: a line is not a solution.
    """
    known = {request.id: request for request in requests}
    solved = calls = whole = 0
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            told = read_json(line)
        except CodecError as error:
            raise DataError(f"{file.name}, line {number}: {error}") from None
        plan = told.get("plan") if isinstance(told, dict) else None
        if not isinstance(told, dict) or not isinstance(plan, list):
            raise DataError(f"{file.name}, line {number}: it has no plan")
        request = known.get(str(told.get("id")))
        if request is not None:
            ours, theirs = _calls(request.plan), _calls(plan)
            solved += 1
            calls += Counter(name for name, _ in ours) == Counter(name for name, _ in theirs)
            whole += Counter(ours) == Counter(theirs)
    return Agreement(solved, calls, whole)


def _calls(plan: Iterable[JsonValue | Mapping[str, JsonValue]]) -> list[tuple[str, str]]:
    listed = [call for call in plan if isinstance(call, Mapping) and call.get("name") != RESULT]
    return [(str(call.get("name")), repr(_plain(call.get("arguments")))) for call in listed]


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return sorted((str(name), _plain(one)) for name, one in value.items())
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return _INDEX.sub("", value) if value.startswith("$") else " ".join(value.lower().split())
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
