"""Implements ``nestor train supply``: learns from recorded plans which output feeds which parameter.

Each parameter of a recorded call is weighed against the fields of its provider's operations. Where the plan refers to
an earlier answer, that field is right and the others are not; where it has a literal or nothing, none is.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table

from evals.data import EACH, DataError, Instance, read_all, training_splits
from retriever_svc.engine.fields import output_names
from services.contracts.api import Api, Parameter
from services.supply import SIGNS, Input, Operation, Roots, Scorer, full_name, likely_signs, roots, signs
from services.trees import Floats
from training.shared.boosting import TreeOptions, fit_trees

_REFERENCE = re.compile(r"\$(\w+?)((?:\.[^$\[\]]+|\[\d+\])*)\$")
_REPEATED: Final = 3
"""Most times that a parameter is learnt with the same source: a few data sets repeat theirs a thousand times."""
_OTHERS: Final = 12
"""Most other operations that a parameter is weighed against: as many about the same thing as about others."""
_ELSEWHERE: Final = 6
"""Operations of any provider that it is weighed against."""
_UNFED: Final = 0.2
"""Share of the parameters without a reference that is learnt."""
_OPTIONS: Final = TreeOptions(60, leaves=12, depth=6, rate=0.1, least=60)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A parameter of a recorded call, weighed against possible sources.

    Attributes:
        rows: (n, ``SIGNS``).
        sources: (n,) number of the operation that each row is about.
        right: (n,) whether the plan refers to that field; it comes first.
        weights: (n,) how many operations that one stands for.
    """

    rows: Floats
    sources: NDArray[np.int32]
    right: NDArray[np.bool_]
    weights: NDArray[np.float64]


def cases(instances: Sequence[Instance], apis: Sequence[Api]) -> Iterator[Case]:
    """The parameters of recorded calls; each with the same source only a few times."""
    rng = random.Random("supply")  # noqa: S311 - a repeatable choice, not a secret
    catalogue = _Catalogue(apis, rng)
    seen = Counter[tuple[str, ...]]()
    for call, labels in ((call, _labels(one)) for one in instances for call in one.calls):
        api = catalogue.apis.get(call.api)
        for parameter in () if api is None else api.parameters:
            value = call.args.get(parameter.name)
            if isinstance(value, dict):
                continue  # which of its members a reference fills is not what the parameter's name tells
            source, field = next(_fed(value, labels), ("", ()))
            key = (call.api, parameter.name, source, *field)
            seen[key] += 1
            known = source in catalogue.apis if source else rng.random() < _UNFED
            if known and seen[key] <= _REPEATED:
                yield catalogue.case(call.api, parameter, source, field)


class _Catalogue:
    """The operations that parameters are weighed against."""

    def __init__(self, apis: Sequence[Api], rng: random.Random) -> None:
        self.apis, self._rng = {api.id: api for api in apis}, rng
        self._operations = {api.id: Operation.of(api, (name for name, _ in output_names(api))) for api in apis}
        self._ids = list(self.apis)
        self._providers = defaultdict[str, list[str]](list)
        for api in apis:
            self._providers[api.provider].append(api.id)

    def case(self, api: str, parameter: Parameter, source: str, field: Roots) -> Case:
        """A parameter of an API, and the field that fills it; of no API if none does."""
        need, provider = Input.of_parameter(self._operations[api], parameter), self.apis[api].provider
        elsewhere = [self._rng.choice(self._ids) for _ in range(_ELSEWHERE)]
        mine = [one for one in self._providers[provider] if one not in (api, source)]
        about = set(need.subject)
        near = [one for one in mine if not about.isdisjoint(self._operations[one].nouns)]
        far = [one for one in mine if about.isdisjoint(self._operations[one].nouns)]
        others = [one for one in elsewhere if self.apis[one].provider != provider]
        found: list[tuple[int, float, tuple[float, ...]]] = []
        if source:
            own = signs(need, self._operations[source], field)
            found = [(0, 1.0, own), *((0, 1.0, row) for row in _distinct(need, self._operations[source]) if row != own)]
        drawn = [pair for some in (near, far, others) for pair in self._drawn(some)]
        for number, (other, weight) in enumerate(drawn, start=1):
            found += [(number, weight, row) for row in _distinct(need, self._operations[other])]
        numbers, weights, rows = zip(*found, strict=True) if found else ((), (), ())
        right = np.arange(len(found)) < bool(source)
        table = np.array(rows, np.float32).reshape(-1, len(SIGNS))
        return Case(table, np.array(numbers, np.int32), right, np.array(weights))

    def _drawn(self, ids: Sequence[str]) -> list[tuple[str, float]]:
        """Some of the operations, and how many each stands for."""
        drawn = self._rng.sample(ids, min(len(ids), _OTHERS))
        return [(one, len(ids) / len(drawn)) for one in drawn]


def _distinct(need: Input, source: Operation) -> list[tuple[float, ...]]:
    return list(dict.fromkeys(likely_signs(need, source)))


def _labels(one: Instance) -> dict[str, str]:
    return {call.label: call.api for call in one.calls if call.label}


def _fed(value: JsonValue, labels: Mapping[str, str]) -> Iterator[tuple[str, Roots]]:
    """The operations and fields that a value refers to."""
    if isinstance(value, str):
        for found in _REFERENCE.finditer(value):
            if found[1] in labels:
                names = [name for name in re.findall(r"\.([^.\[\]]+)", found[2]) if name != EACH]
                yield labels[found[1]], roots(full_name(names)) if names else ()
    elif isinstance(value, list):
        for inner in value:
            yield from _fed(inner, labels)


def read_cases(folder: Path) -> list[Case]:
    """The cases of a folder's training splits.

    Raises:
        DataError: it cannot be read.
    """
    whole = read_all(folder)
    splits = training_splits({one.split or "" for one in whole.instances})
    return list(cases([one for one in whole.instances if (one.split or "") in splits], whole.apis))


def fit(found: Sequence[Case]) -> Scorer:
    """The scorer that these cases teach."""
    rows = np.concatenate([one.rows for one in found])
    right, weights = (np.concatenate([getattr(one, name) for one in found]) for name in ("right", "weights"))
    return Scorer(fit_trees(rows, right, _OPTIONS, weights))


def shares(scorer: Scorer, found: Sequence[Case]) -> list[float]:
    """How often the right operation is the likeliest, one of the two likeliest, and how often its right field is.

    In percent. Of equals, none is the likeliest.
    """
    fed = [one for one in found if one.right.any()]
    counts = np.zeros(3)
    for one in fed:
        likely, own = scorer.scores(one.rows), one.sources == 0
        best = np.zeros(int(one.sources.max()) + 1)
        np.maximum.at(best, one.sources, likely)
        before = int((best[1:] >= best[0]).sum())
        counts += (before == 0, before < 2, int(likely[own].argmax()) == 0)
    shares: list[float] = (100 * counts / max(len(fed), 1)).round(1).tolist()
    return shares


def train_supply(folders: Sequence[Path], measured: Sequence[Path], out: Path) -> int:
    """Fit the scorer and write it; print how often it is right on each folder.

    Args:
        folders: to learn from.
        measured: to measure only.
        out: the file to write.

    Returns:
        The exit status: 0, or 1 if the data cannot be used.
    """
    try:
        found = {folder: read_cases(folder) for folder in [*folders, *measured]}
        learnt = [case for folder in folders for case in found[folder]]
        if not any(case.right.any() for case in learnt):
            raise DataError("plans are needed in which a call takes a value from another call's answer")
    except DataError as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        return 1
    scorer = fit(learnt)
    scorer.save(out)
    table = Table("folder", "references", "operation", "of the first two", "field", box=None)
    for folder, own in found.items():
        fed = sum(bool(case.right.any()) for case in own)
        table.add_row(folder.name, str(fed), *map(str, shares(scorer, own)))
    Console().print(table)
    return 0
