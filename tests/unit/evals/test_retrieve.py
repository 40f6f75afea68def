"""Measuring retrieval with the real encoder: methods, the report, the cache of vectors, the command."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from deploy.cli import app
from evals.data import DataError, Dataset, Instance, read_dataset
from evals.embedding import embed
from evals.retrieve import METHODS, OFFERED, SHIPPED, build_snapshot, evaluate, name_providers, ranking_options
from retriever_svc.engine.filters import NO_FILTERS
from retriever_svc.engine.ranking import RankingOptions, find
from retriever_svc.engine.snapshot import Snapshot
from services.contracts.api import Location, Parameter
from services.encoder import Encoder, TokenEncoding, Vectors
from tests.unit.evals.folders import INSTANCES, folder
from tests.unit.retriever_svc.catalogue import api

QUIET = Progress(disable=True)


class Counting:
    """The real encoder, counting the texts it reads; fails at the one it is told to."""

    def __init__(self, encoder: Encoder, fails_after: int = 1_000) -> None:
        self.inner, self.texts, self.fails_after = encoder, 0, fails_after
        self.name, self.dimension = encoder.name, encoder.dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        if self.texts >= self.fails_after:
            raise KeyboardInterrupt
        self.texts += len(texts)
        return self.inner.encode(texts)

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        return self.inner.encode_tokens(text, special=special)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return read_dataset(folder(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def snapshot(dataset: Dataset, encoder: Encoder) -> Snapshot:
    return build_snapshot(dataset.apis, encoder, QUIET)


def test_shipped_is_what_the_service_does() -> None:
    service = RankingOptions(dense_weight=0.3)
    assert ranking_options(SHIPPED, service) == service
    assert ranking_options("whole-hybrid", service) == RankingOptions(dense_weight=0.3, split=False)


def test_methods_change_options_by_name() -> None:
    assert ranking_options("clauses-dense", RankingOptions()) == RankingOptions(
        dense_weight=1, context=0, reserve=False
    )
    changed = ranking_options("clauses-hybrid:context=0.4,dense_weight=0.7,reserve=true", RankingOptions())
    assert changed == RankingOptions(dense_weight=0.7, context=0.4)


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("best", "no method 'best'"),
        ("shipped:depht=3", "no option 'depht'"),
        ("shipped:depth=many", "depth: "),
        ("shipped:split", "split: "),
    ],
)
def test_unknown_methods_and_options(method: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        ranking_options(method, RankingOptions())


def test_the_whole_request_is_not_split(snapshot: Snapshot, encoder: Encoder) -> None:
    query = INSTANCES[1]["query"]
    whole, _ = find(snapshot, encoder, query, 2, 0, NO_FILTERS, RankingOptions(split=False))
    assert [clause.text for clause in whole] == [query]
    assert len(find(snapshot, encoder, query, 2, 0, NO_FILTERS, RankingOptions())[0]) == 3


def test_report(dataset: Dataset, snapshot: Snapshot, encoder: Encoder) -> None:
    unmeasured = (
        Instance(id="none", query="Tell me a joke"),
        Instance.model_validate({"id": "gone", "query": "Go", "calls": [{"api": "gone"}]}),
    )
    report = evaluate(
        snapshot, encoder, (*dataset.instances, *unmeasured), ["whole-lexical"], [2, 1], RankingOptions(), QUIET
    )
    assert (report.n, report.left_out, report.catalogue, report.shipped) == (2, 2, 3, SHIPPED)
    # The second request needs two APIs: one candidate finds half of them, and half of the requests completely.
    assert report.methods[SHIPPED] == {
        "recall@1": 75.0, "all@1": 50.0, "ndcg@1": 100.0, "recall@2": 100.0, "all@2": 100.0, "ndcg@2": 100.0,
    }  # fmt: skip
    assert report.methods.keys() == {"whole-lexical", SHIPPED}
    assert 0 < report.latency_ms["p50"] <= report.latency_ms["p95"] <= report.latency_ms["p99"]


def test_nothing_to_measure_is_an_error(snapshot: Snapshot, encoder: Encoder) -> None:
    with pytest.raises(DataError, match="no request needs"):
        evaluate(snapshot, encoder, [Instance(id="1", query="Hi")], [], [5], RankingOptions(), QUIET)


def test_providers_are_named_as_a_user_would(tmp_path: Path) -> None:
    tools = [{"name": "adyen.com~Pay.capture", "spec": "apis/openapi/adyen.com/Pay/1/x.json"}, {"name": "plain"}]
    rows = [{"id": name, "query": "Do it.", "calls": [{"api": name}]} for name in ("adyen.com~Pay.capture", "plain")]
    named = name_providers(read_dataset(folder(tmp_path, tools, rows)))
    assert [one.query for one in named.instances] == ["Do it. Use adyen.", "Do it."]


def test_cached_vectors_are_not_made_again(tmp_path: Path, encoder: Encoder) -> None:
    cache, texts = tmp_path / "v.npz", {f"h{n}": f"text {n}" for n in range(3)}
    first = embed(texts, Counting(encoder), QUIET, cache)
    counting = Counting(encoder)
    again = embed(texts | {"new": "one more"}, counting, QUIET, cache)
    assert counting.texts == 1
    for key, text in texts.items():
        np.testing.assert_array_equal(again[key], encoder.encode([text])[0])
        np.testing.assert_array_equal(again[key], first[key])
    other = Counting(encoder)
    other.name = "another"
    embed(texts, other, QUIET, cache)
    assert other.texts == 3
    counting.texts = 0
    embed(texts, counting, QUIET, cache)
    assert counting.texts == 0  # the other encoder's vectors stand beside this one's


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, encoder: Encoder) -> None:
    cache, texts = tmp_path / "v.npz", {f"h{n}": f"text {n}" for n in range(40)}
    with pytest.raises(KeyboardInterrupt):
        embed(texts, Counting(encoder, fails_after=32), QUIET, cache)
    counting = Counting(encoder)
    assert embed(texts, counting, QUIET, cache).keys() == texts.keys()
    assert counting.texts == 8


def test_caches_that_are_none(tmp_path: Path, encoder: Encoder) -> None:
    cache = tmp_path / "v.npz"
    np.savez(tmp_path / "pickled.npz", x=np.array([{"a": 1}], dtype=object))
    np.save(tmp_path / "array.npy", np.zeros(3))
    pickled, array = (tmp_path / "pickled.npz").read_bytes(), (tmp_path / "array.npy").read_bytes()
    for content in (b"", b"not a zip file", b"PK\x03\x04 cut off", pickled, array):
        cache.write_bytes(content)
        with pytest.raises(DataError, match="no cache of vectors"):
            embed({"h": "text"}, encoder, QUIET, cache)
    wrong = {f"{encoder.name}:hashes": np.array(["h"]), f"{encoder.name}:vectors": np.zeros((2, 3))}
    np.savez(cache, **wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="remove it"):
        embed({"h": "text"}, encoder, QUIET, cache)


def test_the_command_prints_the_report(tmp_path: Path) -> None:
    data = str(folder(tmp_path / "data"))
    result = CliRunner().invoke(app, ["eval", "retrieve", "--data", data, "--k", "1", "--k", "2", "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["n"] == 2
    assert report["catalogue"] == 3
    assert report["methods"].keys() == METHODS.keys()
    for scores in report["methods"].values():
        assert list(scores) == ["recall@1", "all@1", "ndcg@1", "recall@2", "all@2", "ndcg@2"]
        assert all(0 <= value <= 100 for value in scores.values())
    assert report["methods"][report["shipped"]]["recall@2"] == 100
    assert report["latency_ms"].keys() == {"p50", "p95", "p99"}


def test_what_is_logged_does_not_get_into_the_report(tmp_path: Path) -> None:
    # The relevance model was fitted to another encoder, which is worth a warning.
    options = ["--encoder", "all-MiniLM-L6-v2", "--method", "shipped", "--json"]
    command = [sys.executable, "-m", "deploy.cli", "eval", "retrieve", "--data", str(folder(tmp_path)), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["shipped"] == "shipped"
    assert "relevance_not_used" in done.stderr


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    arguments = ["eval", "retrieve", "--data", str(folder(tmp_path)), "--split", "test", "--method", "whole-dense"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "recall@10" in result.stdout
    assert "whole-dense" in result.stdout
    assert "1 requests of test; 3 APIs" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--split", "train"], "no split 'train'"),
        (["--method", "magic"], "no method 'magic'"),
        (["--encoder", "/nowhere/at/all"], "sentence-transformers"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["eval", "retrieve", "--data", str(folder(tmp_path)), *arguments])
    assert result.exit_code == 1
    assert says in result.output
    assert "Traceback" not in result.output


def test_what_is_offered_has_suppliers_besides(encoder: Encoder) -> None:
    person = Parameter(name="userId", wire_name="userId", location=Location.PATH, required=True)
    badges = api("badges", "Badges that somebody has earned", path="/people/{userId}/badges", parameters=(person,))
    people = api("people", "Directory", path="/people")
    asked = Instance.model_validate(
        {"id": "1", "query": "badges that Ines has earned", "calls": [{"api": one.id} for one in (people, badges)]}
    )
    snapshot = build_snapshot((badges, people), encoder, QUIET)
    report = evaluate(snapshot, encoder, [asked], [SHIPPED, OFFERED], [1], RankingOptions(), QUIET)
    assert [report.methods[name]["all@1"] for name in (SHIPPED, OFFERED)] == [0, 100]
