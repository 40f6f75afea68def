"""``nestor eval retrieve``: does the retriever find every API that a request needs?

Each method is the retriever's own ranking with other options, so the measured code is the code in service. ``shipped``
is what the service does, without suppliers. Each budget ``k`` is a separate search, as in the service. ``offered`` is
what a planner gets: with as many suppliers as ``/solve`` asks for. ``fused`` is ``shipped`` without the relevance
model. ``per-clause`` adds the ten best APIs of every clause.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError
from rich.progress import Progress
from rich.table import Column, Table

from evals.data import NO_PROVIDER, DataError, Dataset, Instance
from evals.embedding import embed
from evals.metrics import all_at, ndcg_at, recall_at
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.ranking import RankingOptions, find
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.texts import record
from retriever_svc.models import Entry, Listing
from services.contracts.api import Api
from services.contracts.retrieval import RetrieveRequest
from services.encoder import Encoder, TokenEncoding, Vectors

SHIPPED = "shipped"
OFFERED = "offered"
_METRICS = {"recall": recall_at, "all": all_at, "ndcg": ndcg_at}
_SCORE: dict[str, float | str] = {"relevance": ""}
_LEXICAL: dict[str, float | str] = {"dense_weight": 0.0}
_DENSE: dict[str, float | str] = {"dense_weight": 1.0}
_WHOLE: dict[str, float | str] = _SCORE | {"split": False}
_CLAUSES: dict[str, float | str] = _SCORE | {"context": 0.0, "reserve": False}
METHODS: dict[str, dict[str, float | str]] = {
    "whole-lexical": _WHOLE | _LEXICAL,
    "whole-dense": _WHOLE | _DENSE,
    "whole-hybrid": _WHOLE,
    "clauses-lexical": _CLAUSES | _LEXICAL,
    "clauses-dense": _CLAUSES | _DENSE,
    "clauses-hybrid": _CLAUSES,
    "fused": _SCORE,
    "per-clause": {"per_clause": 10},
    OFFERED: {},
    SHIPPED: {},
}
"""By name, the options that differ from the shipped ones."""
_SUPPLIERS: int = RetrieveRequest.model_fields["suppliers"].default


class Report(BaseModel):
    """What was measured. Percentages are 0 to 100, averages over the requests.

    Attributes:
        n: number of measured requests.
        left_out: requests that were not measured: they need no API, or one that the catalogue lacks.
        catalogue: number of APIs searched.
        encoder: its name and the hash of its content.
        methods: by name, ``recall@k``, ``all@k`` and ``ndcg@k`` for every k.
        shipped: the name of the method that the service uses.
        latency_ms: time of a search by that method at the largest k, including the encoding of the request.
    """

    n: int
    left_out: int
    catalogue: int
    encoder: str
    methods: dict[str, dict[str, float]]
    shipped: str
    latency_ms: dict[str, float]


def ranking_options(method: str, shipped: RankingOptions) -> RankingOptions:
    """The options of ``NAME`` or ``NAME:OPTION=VALUE,...``, for example ``clauses-hybrid:context=0.4``.

    Args:
        method: a name of ``METHODS``, and fields of ``RankingOptions`` to change.
        shipped: the service's options, the defaults for everything else.

    Raises:
        DataError: there is no such method or option, or the value is invalid for the option.
    """
    name, _, rest = method.partition(":")
    if name not in METHODS:
        raise DataError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    values = dataclasses.asdict(shipped) | METHODS[name] | {option.strip(): value for option, _, value in pairs}
    if unknown := values.keys() - {field.name for field in dataclasses.fields(RankingOptions)}:
        raise DataError(f"{method}: there is no option {sorted(unknown)[0]!r}")
    try:
        return TypeAdapter(RankingOptions).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{method}: {first['loc'][0]}: {first['msg']}") from None


def build_snapshot(apis: Iterable[Api], encoder: Encoder, progress: Progress, cache: Path | None = None) -> Snapshot:
    """The catalogue as the service holds it; see :func:`embed` for the other arguments."""
    records = [record(api) for api in progress.track(list(apis), description="reading")]
    vectors = embed({new.text_hash: new.embedded for new in records}, encoder, progress, cache)
    entries = [
        Entry(
            number=number,
            **{name: getattr(new.api, name) for name in ("id", "provider", "name", "method", "path", "summary")},
            **{name: getattr(new, name) for name in ("text_hash", "lexical", "inputs", "outputs", "open")},
            content_hash=new.api.content_hash,
        )
        for number, new in enumerate(sorted(records, key=lambda new: new.api.id), start=1)
    ]
    return Snapshot.empty(encoder.dimension).advance(Listing(1, tuple(entries)), vectors)


def name_providers(dataset: Dataset) -> Dataset:
    """The same requests, each naming the provider as a user would: "... Use adyen." for ``adyen.com~Payments``."""
    providers = {api.id: api.provider for api in dataset.apis}

    def named(one: Instance) -> Instance:
        provider = next((providers[call.api] for call in one.calls if call.api in providers), NO_PROVIDER)
        vendor = re.split("[.~]", provider)[0]
        return one if vendor == NO_PROVIDER else one.model_copy(update={"query": f"{one.query} Use {vendor}."})

    return dataclasses.replace(dataset, instances=tuple(map(named, dataset.instances)))


def evaluate(
    snapshot: Snapshot,
    encoder: Encoder,
    instances: Sequence[Instance],
    methods: Sequence[str],
    ks: Sequence[int],
    shipped: RankingOptions,
    progress: Progress,
) -> Report:
    """Measure each method, and always the shipped one.

    Args:
        snapshot: the index to search.
        encoder: the encoder that made the snapshot's vectors, run as in the service because it is timed.
        instances: the requests.
        methods: as :func:`ranking_options` reads them.
        ks: budgets of candidates.
        shipped: the service's options.
        progress: shows a bar.

    Raises:
        DataError: no request can be measured, or a method is not known.
    """
    known = {entry.id for entry in snapshot.entries}
    asked = [one for one in instances if one.apis and one.apis <= known]
    if not asked:
        raise DataError("no request needs an API of this catalogue")
    options = {name: ranking_options(name, shipped) for name in dict.fromkeys([*methods, SHIPPED])}
    remembering = _Remembering(encoder)
    scores: dict[str, dict[str, float]] = {}
    for name, chosen in options.items():
        reader = encoder if name == SHIPPED else remembering
        scores[name] = {}
        for k in sorted(set(ks)):  # the largest k comes last: its times are reported
            values, seconds = _measure(snapshot, reader, asked, k, chosen, progress, name)
            scores[name] |= values
    times = np.percentile(seconds, [50, 95, 99]) * 1e3
    return Report(
        n=len(asked),
        left_out=len(instances) - len(asked),
        catalogue=len(snapshot.entries),
        encoder=encoder.name,
        methods=scores,
        shipped=SHIPPED,
        latency_ms={name: round(float(time), 2) for name, time in zip(("p50", "p95", "p99"), times, strict=True)},
    )


def table(report: Report) -> Table:
    """The scores of every method, one per row."""
    columns = list(report.methods[report.shipped])
    drawn = Table(Column("method", overflow="fold"), *columns, box=None)
    for name, scores in report.methods.items():
        drawn.add_row(name, *(f"{scores[column]:.1f}" for column in columns))
    return drawn


def _measure(
    snapshot: Snapshot,
    encoder: Encoder,
    asked: Sequence[Instance],
    k: int,
    options: RankingOptions,
    progress: Progress,
    name: str,
) -> tuple[dict[str, float], list[float]]:
    """Percentages by metric, and the seconds that each search took."""
    totals, seconds = dict.fromkeys(_METRICS, 0.0), []
    suppliers = _SUPPLIERS if name.partition(":")[0] == OFFERED else 0
    for one in progress.track(asked, description=f"{name} @{k}"):
        start = time.perf_counter()
        _, hits = find(snapshot, encoder, one.query, k, suppliers, Filters(), options)
        seconds.append(time.perf_counter() - start)
        ranked = [hit.entry.id for hit in hits]
        for metric, measure in _METRICS.items():
            # suppliers, and the ten best of every clause, come on top of k
            totals[metric] += measure(max(k, len(ranked)), ranked, one.apis)
    return {f"{metric}@{k}": round(100 * total / len(asked), 2) for metric, total in totals.items()}, seconds


class _Remembering:
    """An encoder that encodes each request once, because all methods search for the same requests."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, Vectors] = {}

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        return self._encoder.encode_tokens(text, special=special)
