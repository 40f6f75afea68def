"""The second stage: features, the model that weighs it, and what it decides. Fitting it: test_training_relevance."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.engine import ranking
from retriever_svc.engine.features import COLUMNS, features
from retriever_svc.engine.filters import Filters
from retriever_svc.engine.providers import ProviderNames, provider_scores
from retriever_svc.engine.ranking import RankingOptions, find, rank, shipped_options
from retriever_svc.engine.relevance import SHIPPED, RelevanceError, RelevanceModel, any_needed, load_relevance
from retriever_svc.engine.scoring import candidates, prepare_query
from retriever_svc.engine.snapshot import Snapshot
from retriever_svc.engine.traits import METHOD, SEGMENTS, WIDTH, traits_of
from retriever_svc.settings import RetrieverSettings
from services.contracts.retrieval import Clause
from services.encoder import Encoder, load_encoder
from services.trees import Trees
from tests.unit.retriever_svc.catalogue import api
from tests.unit.retriever_svc.test_ranking import entry_of, snapshot_of

APIS = (
    api("listBoards", "List the boards", provider="trello.com~boards", path="/boards"),
    api("getBoard", "Read a board", provider="trello.com~boards", path="/boards/{id}"),
    api("createBoard", "Create a board", provider="trello.com~boards", path="/boards", method="POST"),
    api("deleteBoard", "Delete a board", provider="trello.com~boards", path="/boards/{id}", method="DELETE"),
    api("listInvoices", "List the invoices", provider="bills.org", path="/invoices"),
    api("listHolidays", "Public holidays of a country", provider="days", path="/holidays/{country}"),
)


def tree(column: str, split: float, low: float, high: float, **changed: Any) -> RelevanceModel:
    """A model of one tree with one question."""
    model = RelevanceModel(
        columns=np.array(COLUMNS),
        encoder=np.array("some encoder"),
        threshold=np.array(0.5, np.float32),
        trees=Trees(
            base=np.array(0.0, np.float32),
            feature=np.array([[COLUMNS.index(column), 0, 0]], np.int32),
            split=np.array([[split, 0, 0]], np.float32),
            children=np.array([[[1, 2], [1, 1], [2, 2]]], np.int32),
            value=np.array([[0, low, high]], np.float32),
            depth=np.array(1, np.int16),
        ),
    )
    own = {name: changed.pop(name) for name in ("columns", "encoder", "threshold") if name in changed}
    return replace(model, trees=replace(model.trees, **changed), **own)


@pytest.fixture(scope="module")
def snapshot(encoder: Encoder) -> Snapshot:
    return snapshot_of(APIS, encoder)


def gathered(snapshot: Snapshot, encoder: Encoder, query: str) -> dict[str, dict[str, float]]:
    """The evidence by name of the API and of the column."""
    prepared = prepare_query(snapshot, encoder, (Clause(text=query, start=0, end=len(query)),), 50, None)
    scores = candidates(prepared, [], 0.6, 0.4)
    rows = features(prepared.candidate_set(scores))
    assert rows.shape == (len(scores.positions), len(COLUMNS))
    assert np.isfinite(rows).all()
    names = [snapshot.entries[position].name for position in scores.positions.tolist()]
    return {name: dict(zip(COLUMNS, row.tolist(), strict=True)) for name, row in zip(names, rows, strict=True)}


def test_evidence_of_a_request(snapshot: Snapshot, encoder: Encoder) -> None:
    found = gathered(snapshot, encoder, "delete a board on trello")
    assert found["deleteBoard"]["verb_said"] == found["deleteBoard"]["removes"] == 1
    assert found["createBoard"]["verb_said"] == found["createBoard"]["removes"] == 0
    assert found["deleteBoard"]["named"] > found["listInvoices"]["named"] == 0
    assert found["deleteBoard"]["meant_rank"] == 0 < found["listInvoices"]["meant_rank"]
    assert found["deleteBoard"]["provider_size"] == pytest.approx(np.log1p(4))
    assert found["deleteBoard"]["name_covered"] == 1 > found["createBoard"]["name_covered"]
    assert found["deleteBoard"]["behind_best"] == 0 < found["createBoard"]["behind_best"]


def test_evidence_of_what_belongs_together(snapshot: Snapshot, encoder: Encoder) -> None:
    found = gathered(snapshot, encoder, "read a board")
    assert found["listBoards"]["leads_to"] > 0 == found["listInvoices"]["leads_to"]  # /boards leads to /boards/{id}
    assert found["deleteBoard"]["same_path"] > 0 == found["listHolidays"]["same_path"]


def test_traits_tell_method_and_form() -> None:
    row = traits_of(entry_of(1, api("x", path="/a/{id}/b?c=1", method="PATCH")))
    assert len(row) == WIDTH
    assert row[METHOD] == 2
    a, parameter, b, *rest = row[SEGMENTS]
    assert parameter == 1
    assert len({a, b, parameter}) == 3
    assert not any(rest)


@given(st.text(max_size=300), st.text(max_size=80))
def test_any_name_and_path_has_traits(path: str, name: str) -> None:
    row = traits_of(replace(entry_of(1, api("x")), path=path, name=name))
    assert len(row) == WIDTH
    np.array(row, np.int32)  # all of them fit


def test_named_and_meant_providers() -> None:
    names = ProviderNames(["adyen.com~Payments", "adyen.com~Payouts", "stripe", "api.io"])
    assert names.matches("Refund the payments of Adyen").tolist() == [1.5, 1, 0, 0]
    assert names.matches("api rest com").tolist() == [0, 0, 0, 0]
    scores, owners = np.array([0.9, 0.6, 0.3, 0.9, 0.9, 0.1], np.float32), np.array([0, 1, 1, 1, 2, 2], np.int32)
    assert provider_scores(scores, owners, 4).tolist() == pytest.approx([0.3, 0.6, 1 / 3, 0])


def test_a_model_asks_its_question() -> None:
    rows = np.zeros((3, len(COLUMNS)), np.float32)
    rows[:, COLUMNS.index("named")] = [0, 0.5, 1]
    assert tree("named", 0.5, -2, 2).probabilities(rows).tolist() == pytest.approx([0.1192, 0.1192, 0.8808], abs=1e-4)
    assert tree("named", 0.5, -2, 2).probabilities(rows[:0]).shape == (0,)


def test_any_needed_counts_the_ten_likeliest() -> None:
    assert any_needed(np.zeros(0, np.float32)) == 0
    assert any_needed(np.array([0.5, 0.0, 0.5], np.float32)) == pytest.approx(0.75)
    assert any_needed(np.full(50, 0.1, np.float32)) == pytest.approx(1 - 0.9**10)


def test_a_model_is_kept_and_read(tmp_path: Path) -> None:
    model = tree("named", 0.5, -2, 2)
    model.save(tmp_path / "one.npz")
    read = RelevanceModel.load(tmp_path / "one.npz")
    assert read.encoder.item() == "some encoder"
    rows = np.random.default_rng(1).random((9, len(COLUMNS)), np.float32)
    assert (read.probabilities(rows) == model.probabilities(rows)).all()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"columns": np.array(["other"])}, "other evidence"),
        ({"feature": np.array([[99, 0, 0]], np.int32)}, "damaged"),
        ({"children": np.array([[[1, 3], [1, 1], [2, 2]]], np.int32)}, "damaged"),
        ({"children": np.array([[[1, -1], [1, 1], [2, 2]]], np.int32)}, "damaged"),
        ({"value": np.zeros((1, 2), np.float32)}, "damaged"),
        ({"depth": np.array(0, np.int16)}, "damaged"),
        ({"depth": np.array(30_000, np.int16)}, "damaged"),
        ({"threshold": np.array(["x"])}, "damaged"),
    ],
)
def test_a_file_that_is_no_model_is_refused(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    tree("named", 0.5, -2, 2, **changed).save(tmp_path / "one.npz")
    with pytest.raises(RelevanceError, match=why):
        RelevanceModel.load(tmp_path / "one.npz")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.npz").write_bytes(b"PK but no zip")
    np.savez(tmp_path / "pickled.npz", columns=np.array([object()], object))
    for name in ("one.npz", "none.npz", "pickled.npz"):
        with pytest.raises(RelevanceError, match="not a relevance model"):
            RelevanceModel.load(tmp_path / name)


@pytest.fixture
def likely(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has a model decide; returns the options."""

    def decided_by(model: RelevanceModel, **options: Any) -> RankingOptions:
        monkeypatch.setattr(ranking, "load_relevance", lambda _: model)
        return RankingOptions(relevance="given", **options)

    return decided_by


def test_what_is_likely_comes_first(snapshot: Snapshot, encoder: Encoder, likely: Any) -> None:
    options = likely(tree("removes", 0.5, -2, 2), reserve=False)
    _, hits = find(snapshot, encoder, "create a board", 3, 0, Filters(), options)
    assert hits[0].entry.name == "deleteBoard"
    assert hits[0].relevance == pytest.approx(0.8808)
    assert [hit.entry.id for hit in hits[1:]] == ["bills.org.listInvoices", "days.listHolidays"]  # alike: by id
    (created,) = find(snapshot, encoder, "create a board", 1, 0, Filters(), RankingOptions())[1]
    assert created.entry.name == "createBoard"
    assert 0 < hits[0].score < created.score  # the score says what it said


def test_nothing_likely_is_an_empty_answer(snapshot: Snapshot, encoder: Encoder, likely: Any) -> None:
    unlikely = tree("removes", 0.5, -5, -4)
    clauses, hits = find(snapshot, encoder, "boil an egg", 3, 3, Filters(), likely(unlikely))
    assert ([clause.text for clause in clauses], hits) == (["boil an egg"], [])
    assert len(find(snapshot, encoder, "boil an egg", 3, 0, Filters(), likely(unlikely, threshold=0.0))[1]) == 3
    assert find(snapshot, encoder, "boil an egg", 3, 0, Filters(), likely(unlikely, threshold=0.99))[1] == []


def test_an_exact_name_is_never_refused(snapshot: Snapshot, encoder: Encoder, likely: Any) -> None:
    _, hits = find(snapshot, encoder, "call listInvoices", 2, 0, Filters(), likely(tree("removes", 0.5, -9, -9)))
    assert (hits[0].entry.name, hits[0].relevance, hits[0].score) == ("listInvoices", 1.0, 1.0)


def test_a_budget_is_filled_beyond_the_usual_candidates(encoder: Encoder, likely: Any) -> None:
    many = snapshot_of(tuple(api(f"list{n}", f"List of kind {n}", provider=f"p{n % 7}") for n in range(150)), encoder)
    for k in (1, 10, 100):
        assert len(find(many, encoder, "list kinds", k, 0, Filters(), likely(tree("named", 0.5, 1, 1)))[1]) == k


def test_some_of_each_clause_besides(snapshot: Snapshot, encoder: Encoder, likely: Any) -> None:
    query = "create a board, then list the invoices"
    options = likely(tree("removes", 0.5, 1, 2))
    clauses, few = rank(snapshot, encoder, query, 2, None, options)
    _, more = rank(snapshot, encoder, query, 2, None, replace(options, per_clause=2))
    assert {hit.entry.id for hit in few} < {hit.entry.id for hit in more}
    for clause in range(len(clauses)):
        best = sorted(more, key=lambda hit: -hit.clause_scores[clause])[:2]
        assert {hit.entry.id for hit in best} <= {hit.entry.id for hit in more}


def test_the_model_counts_only_with_its_encoder(tmp_path: Path) -> None:
    tree("named", 0.5, -2, 2).save(tmp_path / "one.npz")
    settings = RetrieverSettings(relevance=str(tmp_path / "one.npz"), relevance_threshold=0.2, dense_weight=0.5)
    assert shipped_options(settings, "some encoder") == RankingOptions(0.5, relevance=settings.relevance, threshold=0.2)
    assert shipped_options(settings, "another one").relevance == ""
    assert shipped_options(RetrieverSettings(relevance="none"), "some encoder").relevance == ""
    with pytest.raises(RelevanceError):
        shipped_options(RetrieverSettings(relevance=str(tmp_path / "none.npz")), "some encoder")


def test_the_one_that_ships_belongs_to_the_encoder_that_ships() -> None:
    model = load_relevance(SHIPPED)
    assert model.encoder.item() == load_encoder(RetrieverSettings().encoder).name
    assert 0 < model.threshold < 1
