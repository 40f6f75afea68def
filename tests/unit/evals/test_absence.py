"""Measuring whether a retriever notices that nothing fits: what is asked, the measure, the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from typer.testing import CliRunner

from deploy.cli import app
from evals.absence import AbsenceReport, measure_absence, trials_of
from evals.data import DataError, read_all
from evals.metrics import auroc
from evals.retrieve import build_snapshot
from retriever_svc.engine.ranking import RankingOptions
from services.encoder import Encoder
from tests.unit.evals.folders import TOOLS, folder

QUIET = Progress(disable=True)
LISTED: list[dict[str, Any]] = [
    {"id": "1", "query": "Public holidays in Portugal", "tools": ["listHolidays"], "calls": [{"api": "listHolidays"}]},
    {"id": "2", "query": "Public holidays in Portugal", "tools": ["send Message", "getSunrise"], "calls": []},
    {"id": "3", "query": "When does the sun rise?", "tools": ["getSunrise"], "calls": [{"api": "getSunrise"}]},
    {"id": "4", "query": "Bake a cake", "tools": ["listHolidays"], "calls": []},
    {"id": "5", "query": "Text Ana", "tools": ["gone"], "calls": []},
]
OWNED = [
    {"name": "days.com~a.listHolidays", "description": "Public holidays of a country"},
    {"name": "days.com~b.listFeasts", "description": "Feasts of a country"},
    {"name": "sun.getSunrise", "description": "When the sun rises"},
]


def test_requests_with_their_own_tools_are_asked_of_those(tmp_path: Path, encoder: Encoder) -> None:
    dataset = read_all(folder(tmp_path, TOOLS, LISTED))
    snapshot = build_snapshot(dataset.apis, encoder, QUIET)
    trials = list(trials_of(snapshot, dataset.instances))
    assert [trial.fits for trial in trials] == [True, False, True, False]
    allowed = [
        {snapshot.entries.ids[place] for place in trial.allowed} for trial in trials if trial.allowed is not None
    ]
    assert allowed == [{"listHolidays"}, {"send_Message", "getSunrise"}, {"getSunrise"}, {"listHolidays"}]
    report = measure_absence(snapshot, encoder, dataset.instances, RankingOptions(), QUIET)
    assert (report.fitting, report.unfitting, report.auroc) == (2, 2, 1.0)
    assert report.refused_fitting == report.refused_unfitting == 0  # without a relevance model nothing is refused


def test_others_are_asked_with_and_without_the_vendor(tmp_path: Path, encoder: Encoder) -> None:
    instances = [{"id": "1", "query": "Holidays in Faro", "calls": [{"api": "days.com~a.listHolidays"}]}]
    rows = [tool | {"spec": "apis/openapi/days.com/x"} if tool["name"].startswith("days") else tool for tool in OWNED]
    dataset = read_all(folder(tmp_path, rows, instances))
    snapshot = build_snapshot(dataset.apis, encoder, QUIET)
    whole, without = trials_of(snapshot, dataset.instances)
    assert (whole.allowed, whole.fits, without.fits) == (None, True, False)
    assert without.allowed is not None
    assert [snapshot.entries.ids[place] for place in without.allowed] == ["sun.getSunrise"]


def test_both_kinds_are_needed(tmp_path: Path, encoder: Encoder) -> None:
    dataset = read_all(folder(tmp_path, TOOLS, LISTED[:1]))
    with pytest.raises(DataError, match="nothing fits"):
        measure_absence(
            build_snapshot(dataset.apis, encoder, QUIET), encoder, dataset.instances, RankingOptions(), QUIET
        )


def test_auroc_by_hand() -> None:
    assert auroc(np.array([0.9, 0.8]), np.array([0.1, 0.2])) == 1
    assert auroc(np.array([0.1]), np.array([0.1, 0.9])) == 0.25


VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=20)


@given(VALUES, VALUES)
def test_auroc_is_the_share_of_pairs(positive: list[float], negative: list[float]) -> None:
    pairs = [(one > other) + (one == other) / 2 for one in positive for other in negative]
    assert auroc(np.array(positive), np.array(negative)) == pytest.approx(np.mean(pairs))


def test_the_command(tmp_path: Path) -> None:
    data = str(folder(tmp_path, TOOLS, LISTED))
    printed = CliRunner().invoke(app, ["eval", "absence", "--data", data, "--json"])
    report = AbsenceReport.model_validate(json.loads(printed.stdout))
    assert (printed.exit_code, report.fitting, report.unfitting, report.catalogue) == (0, 2, 2, 3)
    assert "AUROC 1.000" in CliRunner().invoke(app, ["eval", "absence", "--data", data]).stdout
    wrong = CliRunner().invoke(app, ["eval", "absence", "--data", str(folder(tmp_path / "x", TOOLS, LISTED[:1]))])
    assert (wrong.exit_code, "nothing fits" in wrong.stderr) == (1, True)
