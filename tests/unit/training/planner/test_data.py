"""What the planner learns from: split by a hash, aligned, with the retriever's own candidates."""

from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from evals.data import read_dataset
from planner_svc.backends.compact.inputs import FEATURES
from tests.unit.evals.folders import folder
from tests.unit.evals.planning.worlds import TOOLS
from training.planner.data import (
    held_out_examples,
    is_held_out,
    made_examples,
    read_folder,
    recorded_examples,
    write_held_out,
)
from training.planner.examples import Span, check, labels
from training.planner.recipe import Recipe

CITIES = ("Faro", "Beja", "Oslo", "Graz", "Lyon", "Bern", "Kiel", "Bath", "Nice", "Pisa", "Turin", "Gent")
RECIPE = Recipe(made=20, made_least=5)


def weather(city: str, split: str = "train") -> dict[str, Any]:
    calls = [{"api": "getWeather", "args": {"city": city}}]
    return {"id": f"{split}-{city}", "split": split, "query": f"What is the weather in {city}?", "calls": calls}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [weather(city) for city in CITIES] + [weather(city, "test") for city in CITIES]
    return folder(tmp_path_factory.mktemp("data") / "weather", TOOLS, rows)


def test_a_share_is_held_out_and_test_splits_are_left_alone(data: Path) -> None:
    read = read_folder(data, RECIPE)
    assert {one.id for one in read.held_out} == {f"train-{c}" for c in CITIES if is_held_out(f"train-{c}")}
    assert {one.id for one in (*read.trained, *read.held_out)} == {f"train-{city}" for city in CITIES}
    assert 0 < len(read.held_out) < len(read.trained)


def test_of_a_folder_that_the_network_does_not_see_all_requests_are_held_out(data: Path) -> None:
    read = read_folder(data, RECIPE.model_copy(update={"unseen": ("weather",), "validation": 1}))
    assert ({one.id for one in read.held_out}, read.trained) == ({f"train-{city}" for city in CITIES}, ())


def test_what_is_held_out_is_a_folder_to_measure(data: Path, tmp_path: Path) -> None:
    read = read_folder(data, RECIPE)
    write_held_out(read, data, tmp_path / "held-out")
    again = read_dataset(tmp_path / "held-out")
    assert {one.id: one for one in again.instances} == {one.id: one for one in read.held_out}
    assert again.apis == read.apis


def test_examples_have_the_retrievers_candidates_and_their_scores(data: Path, tmp_path: Path) -> None:
    read = read_folder(data, RECIPE)
    with Progress(disable=True) as progress:
        recorded = recorded_examples(read, tmp_path / "vectors.npz", tmp_path, progress)
        held_out = held_out_examples(read, tmp_path / "vectors.npz", tmp_path, progress)
        kept = recorded_examples(read, tmp_path / "none.npz", tmp_path, progress)
    assert {one.id for one in recorded} == {one.id for one in read.trained}
    assert {one.id for one in held_out} == {one.id for one in read.held_out}
    assert kept == recorded
    for example in (*recorded, *held_out):
        check(example)
        assert "getWeather" in {api.id for api in example.candidates}
        assert example.scores is not None
        assert {len(scores) for scores in example.scores} == {FEATURES}
        assert [label.value for *_, label in labels(example) if isinstance(label, Span)] == [example.id.split("-")[1]]


def test_requests_are_made_up_over_the_catalogue(data: Path, tmp_path: Path) -> None:
    with Progress(disable=True) as progress:
        made = made_examples(read_folder(data, RECIPE), RECIPE, tmp_path / "vectors.npz", tmp_path, progress)
    assert len(made) == max(RECIPE.made_least, RECIPE.made_each * len(TOOLS))
    assert {one.source for one in made} == {"weather-made"}
    assert any(one.scores for one in made)


def test_a_folder_without_arguments_gives_its_catalogue_only(tmp_path: Path) -> None:
    rows = [{"id": city, "query": f"Weather in {city}", "calls": [{"api": "getWeather"}]} for city in CITIES]
    read = read_folder(folder(tmp_path / "bare", TOOLS, rows), RECIPE)
    assert (read.trained, read.held_out, len(read.apis)) == ((), (), len(TOOLS))


def test_what_none_of_its_own_apis_answers_is_offered_only_those(tmp_path: Path) -> None:
    nothing = [
        {"id": f"none-{city}", "split": "train", "query": f"What is the weather in {city}?", "calls": []}
        | {"tools": ["findHotel", "getTime"]}
        for city in CITIES
    ]
    rows = [weather(city) for city in CITIES]
    read = read_folder(folder(tmp_path / "own", TOOLS, [*rows, *nothing]), RECIPE)
    with Progress(disable=True) as progress:
        recorded = recorded_examples(read, tmp_path / "vectors.npz", tmp_path, progress)
    found = [one for one in recorded if one.id.startswith("none")]
    assert found
    assert all([api.id for api in one.candidates] == ["findHotel"] and not one.calls for one in found)


def test_what_the_retriever_does_not_find_is_offered_beside_others(tmp_path: Path) -> None:
    others = [{"name": f"weatherReport{n}", "description": "Weather in a city"} for n in range(60)]
    rows = [weather(city) | {"query": f"{city}: umbrella or not"} for city in CITIES]
    read = read_folder(folder(tmp_path / "far", [*others, *TOOLS], rows), RECIPE)
    with Progress(disable=True) as progress:
        recorded = recorded_examples(read, tmp_path / "vectors.npz", tmp_path, progress)
    assert {one.id for one in recorded} == {one.id for one in read.trained}
    assert all("getWeather" in {api.id for api in one.candidates} for one in recorded)


@pytest.mark.parametrize(("own", "twin_stays"), [(["getWeather"], False), (["getWeather", "getWeather__2"], True)])
def test_a_twin_is_a_candidate_only_where_the_data_offered_it(own: list[str], twin_stays: bool, tmp_path: Path) -> None:
    twin = next(tool for tool in TOOLS if tool["name"] == "getWeather") | {"name": "getWeather__2"}
    rows = [weather(city) | {"tools": own} for city in CITIES]
    read = read_folder(folder(tmp_path / "twins", [*TOOLS, twin], rows), RECIPE)
    with Progress(disable=True) as progress:
        recorded = recorded_examples(read, tmp_path / "vectors.npz", tmp_path, progress)
    assert recorded
    for example in recorded:
        ids = {api.id for api in example.candidates}
        assert "getWeather" in ids
        assert ("getWeather__2" in ids) == twin_stays
        assert example.scores is not None
        assert len(example.scores) == len(example.candidates)
