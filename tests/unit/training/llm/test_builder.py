"""``nestor train data``: what is measured stays out of what is learnt, and the counts are right."""

import json
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from deploy.cli import app
from evals.data import DataError, read_all, read_dataset
from tests.unit.training.llm.data import CITIES, ROWS, nested, several, single, small
from training.llm.builder import LeakError, Stats, build, check_leaks, read_stats
from training.llm.card import BaseReport, Report, TrainingReport, write_card
from training.llm.conversations import Properties, bare
from training.llm.data_command import build_data
from training.llm.recipe import DataRecipe, FolderRecipe, read_data_recipe
from training.llm.settings import Tuning
from training.planner.data import is_held_out
from training.shared.leaks import NearDuplicates, trigrams

RECIPE = DataRecipe(others=FolderRecipe(rounds=1, made=20))


def built(out: Path, *folders: Path, recipe: DataRecipe = RECIPE, exclude: tuple[Path, ...] = ()) -> Stats:
    with Progress(disable=True) as progress:
        return build(folders, recipe, exclude, out, progress)


def learnt(out: Path) -> list[str]:
    lines = (out / "train.jsonl").read_text().splitlines()
    return [bare(said["content"]) for line in lines for said in json.loads(line)["messages"] if said["role"] == "user"]


def test_a_fifth_is_held_out_and_never_learnt(tmp_path: Path) -> None:
    stats = built(tmp_path / "out", small(tmp_path / "small"))
    measured = read_dataset(tmp_path / "out/held-out/small")
    ids = {row["id"] for row in ROWS}
    assert {one.id for one in measured.instances} == {one for one in ids if is_held_out(one)} != set()
    assert not {one.query for one in measured.instances} & set(learnt(tmp_path / "out"))
    assert {row["query"] for row in ROWS if not is_held_out(row["id"])} <= set(learnt(tmp_path / "out"))
    told = stats.folders["small"]
    assert (told.apis, told.recorded + told.held_out) == (12, len(ROWS))
    assert 15 <= told.made <= 20  # less those whose answer would be a question


def test_the_same_folders_and_recipe_give_the_same_file(tmp_path: Path) -> None:
    one, two = small(tmp_path / "one"), small(tmp_path / "two", ROWS[:10])
    recipe = RECIPE.model_copy(update={"folders": {"two": RECIPE.others, "one": RECIPE.others}})
    first = built(tmp_path / "a", one, two, recipe=recipe)
    second = built(tmp_path / "b", two, one, recipe=recipe)
    assert first == second
    assert (tmp_path / "a/train.jsonl").read_bytes() == (tmp_path / "b/train.jsonl").read_bytes()
    assert built(tmp_path / "c", one, two, recipe=recipe.model_copy(update={"seed": 8})).sha256 != first.sha256


def test_the_form_of_the_prompt_is_on_record(tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"properties": Properties(detail="full")})
    stats = built(tmp_path / "out", small(tmp_path / "small"), recipe=recipe)
    assert json.loads((tmp_path / "out" / "stats.json").read_bytes())["recipe"]["properties"]["detail"] == "full"
    report = Report(
        prompt_version=stats.prompt_version,
        base=BaseReport(name="tiny", sha256="b" * 64, parameters=1),
        tuning=Tuning(),
        training=TrainingReport.model_validate(
            dict.fromkeys(TrainingReport.model_fields, 1) | {"device": "CPU", "losses": []}
        ),
        data=stats,
        versions={},
    )
    assert report.entry("mine").detail == "full"
    write_card(tmp_path, report)
    assert "form `full`" in (tmp_path / "MODEL_CARD.md").read_text("utf-8")


def test_counts_are_those_of_the_requests(tmp_path: Path) -> None:
    recipe = DataRecipe(others=FolderRecipe(rounds=2, made=0), properties=Properties(off_topic=0))
    stats = built(tmp_path / "out", small(tmp_path / "small"), recipe=recipe)
    kept = {
        make.__name__: sum(not is_held_out(make(city)["id"]) for city in CITIES) for make in (nested, single, several)
    }
    counts = stats.counts["small"]
    assert counts.nested == 2 * kept["nested"]
    assert counts.single == 2 * kept["single"]
    assert counts.multiple == 2 * kept["several"]
    assert counts.requests == 2 * sum(kept.values()) == 2 * counts.distinct
    assert counts.calls == 2 * (2 * kept["nested"] + kept["single"] + 2 * kept["several"])
    assert counts.apis == 5
    assert stats.counts["all"] == counts


def test_apis_held_out_are_never_shown_and_their_requests_are_measured(tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"hold_out_apis": 0.65})
    built(tmp_path / "out", small(tmp_path / "small"), recipe=recipe)
    content = (tmp_path / "out/train.jsonl").read_text()
    apis = {api.id for api in read_all(tmp_path / "small").apis}
    absent = {api for api in apis if f"{api}(" not in content}
    assert 0 < len(absent) < 12
    measured = read_dataset(tmp_path / "out/held-out-apis/small").instances
    wanted = {row["id"] for row in ROWS if {call["api"] for call in row["calls"]} & absent}
    assert {one.id for one in measured} == wanted != set()


def test_nothing_near_an_excluded_request_is_learnt(tmp_path: Path) -> None:
    free = next(row for row in ROWS if not is_held_out(row["id"]))
    test = small(tmp_path / "test", [free | {"id": "other", "query": free["query"].upper()}])
    stats = built(tmp_path / "out", small(tmp_path / "small"), exclude=(test,))
    assert free["query"] not in learnt(tmp_path / "out")
    assert (stats.folders["small"].near, stats.excluded) == (1, {"test": 1})


def test_the_test_split_of_a_folder_that_is_learnt_from_can_be_excluded(tmp_path: Path) -> None:
    free = next(row for row in ROWS if not is_held_out(row["id"]))
    data = small(tmp_path / "small", [*ROWS, free | {"id": "t", "split": "test"}])
    assert built(tmp_path / "out", data, exclude=(data,)).excluded == {"small": 1}
    assert free["query"] not in learnt(tmp_path / "out")


def test_what_is_held_out_and_nearly_learnt_is_not_measured(tmp_path: Path) -> None:
    held = next(row for row in ROWS if is_held_out(row["id"]))
    copies = [held | {"id": f"copy-{number}"} for number in range(8)]
    assert not all(is_held_out(copy["id"]) for copy in copies)
    built(tmp_path / "out", small(tmp_path / "small", [*ROWS, *copies]))
    measured = {one.query for one in read_dataset(tmp_path / "out/held-out/small").instances}
    assert held["query"] in learnt(tmp_path / "out")
    assert held["query"] not in measured


def test_the_check_reads_what_was_written(tmp_path: Path) -> None:
    built(tmp_path / "out", small(tmp_path / "small"))
    train, held_out = tmp_path / "out/train.jsonl", tmp_path / "out/held-out/small"
    check_leaks(train, [held_out])
    asked = read_all(held_out).instances[0].query
    row = {"source": "x", "ids": ["x"], "messages": [{"role": "user", "content": f"Hi! {asked.lower()}"}]}
    train.write_text(train.read_text() + json.dumps(row) + "\n")
    with pytest.raises(LeakError, match="1 requests that are to be measured"):
        check_leaks(train, [held_out])


@pytest.mark.parametrize(
    ("other", "near"),
    [
        ("what is the weather in faro on the first weekend of may this year", True),
        ("What is the weather in Faro, on the first weekend of May, this year?", True),
        ("Tell me: what is the weather in Faro on the first weekend of May this year?", True),
        ("What is the weather in Oslo on the last weekend of June this year?", False),
        ("Weather", False),
    ],
)
def test_near_is_four_fifths_of_the_runs_of_three_words(other: str, near: bool) -> None:
    query = "What is the weather in Faro on the first weekend of May this year?"
    assert NearDuplicates([query, "Text Ana"]).of(other) == (query if near else None)
    assert len(trigrams(query)) == 12


def test_short_requests_are_compared_whole() -> None:
    assert NearDuplicates(["Text Ana"]).of("text ana!") == "Text Ana"
    assert NearDuplicates(["Text Ana"]).of("Text Bob") is None


def test_the_recipe_that_ships_is_read_and_others_are_explained(tmp_path: Path) -> None:
    general = read_data_recipe("general")
    assert next(iter(general.folders)) == "corpus"
    assert general.properties.reworded == 0.05
    with pytest.raises(DataError, match="no recipe that ships"):
        read_data_recipe("specific")
    (tmp_path / "wrong.json").write_text('{"sed": 7}')
    with pytest.raises(DataError, match="sed"):
        read_data_recipe(str(tmp_path / "wrong.json"))


def test_the_command_builds_prints_and_refuses(tmp_path: Path) -> None:
    data, out = small(tmp_path / "small"), tmp_path / "out"
    cli = CliRunner(env={"COLUMNS": "240"})
    done = cli.invoke(app, ["train", "data", "--folder", str(data), "--made", "10", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "| small-made |" in done.output
    assert Stats.model_validate_json((out / "stats.json").read_bytes()).folders["small"].made in range(5, 11)
    assert cli.invoke(app, ["train", "data", "--out", str(out)]).exit_code == 1
    absent = cli.invoke(app, ["train", "data", "--recipe", "general", "--root", str(tmp_path), "--out", str(out)])
    assert absent.exit_code == 1
    assert "there is no folder corpus, seal_tools" in absent.output


def test_a_catalogue_that_nothing_can_be_asked_of_is_said(tmp_path: Path) -> None:
    recipe = DataRecipe(others=FolderRecipe(made=0))
    with pytest.raises(DataError, match="nothing to learn"):
        built(tmp_path / "out", small(tmp_path / "small", []), recipe=recipe)


def test_another_seed_makes_other_conversations_of_the_same_data(tmp_path: Path) -> None:
    folder, found = small(tmp_path / "small"), {}
    for name, seed in (("first", None), ("again", 7), ("other", 8)):
        assert build_data([folder], None, None, 20, None, [], tmp_path / name, seed) == 0
        found[name] = (tmp_path / name / "train.jsonl").read_text("utf-8")
        held_out = (tmp_path / name / "held-out/small/instances.jsonl").read_text("utf-8")
        assert held_out == (tmp_path / "first/held-out/small/instances.jsonl").read_text("utf-8")
    assert found["first"] == found["again"] != found["other"]
    assert read_stats(tmp_path / "other").recipe.seed == 8
