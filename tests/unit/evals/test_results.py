"""The page of results: made of what the command prints, and the one in docs/ up to date."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evals.results import commands, main, page, read_reports
from evals.results_aims import aims, refused
from tests.unit.evals.planning.worlds import examine

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from evals.planning.offers import Source

    _, told = examine(tmp_path_factory.mktemp("world"), Source.OWN)
    return dict(json.loads(told.model_dump_json()))


def write(folder: Path, output: dict[str, Any], name: str, **changed: Any) -> Path:
    file = folder / name
    file.write_text(json.dumps(output | changed), encoding="utf-8")
    return file


def test_the_page_in_docs_is_made_of_the_outputs_beside_it() -> None:
    files = sorted((ROOT / "docs/planning-results").glob("*.json"))
    assert files
    assert main(["--check", str(ROOT / "docs/planning-results.md"), *map(str, files)]) == 0


def test_each_output_is_of_the_command_that_names_it() -> None:
    named = {line.rpartition(" > ")[2]: line for line in commands("DATA")}
    for file in sorted((ROOT / "docs/planning-results").glob("*.json")):
        (report,) = read_reports([file])
        line = named[f"docs/planning-results/{file.name}"]
        found = re.search(r"--data DATA/(\S+) --split (\S+) --candidates (\S+) --planner (\S+)", line)
        assert found is not None
        folder, *rest = found.groups()
        assert [report.data, report.split, report.candidates, report.planner] == [folder.rpartition("/")[2], *rest]
        assert f"--limit {report.limit} " in line or report.limit is None


def test_aims_are_read_from_the_outputs(tmp_path: Path, output: dict[str, Any]) -> None:
    def reached(**changed: Any) -> dict[str, str]:
        (report,) = read_reports([write(tmp_path, output, "a.json", planner="compact", **changed)])
        return {row[0]: row[2] for row in aims([report])}

    whole = reached(data="corpus", split="test", full_match=27.0)
    assert whole["corpus, test part, all vendors together: full match"] == "27.0"
    assert sum(one != "not measured" for one in whole.values()) == 5  # one is of the corpus, four stand elsewhere
    vendor = reached(data="corpus", split="test", candidates="vendor", full_match=34.0)
    assert vendor["the same, each request among its own vendor's APIs: full match"] == "34.0"
    for other in ({"limit": 3}, {"k": 5}, {"demos": 2}, {"candidates": "gold"}, {"split": "dev"}):
        found = reached(**{"data": "corpus", "split": "test", **other})
        assert found["corpus, test part, all vendors together: full match"] == "not measured"


def test_the_share_refused_is_of_requests_without_calls(tmp_path: Path, output: dict[str, Any]) -> None:
    part = output["subsets"]["single"]
    subsets = {"single": part | {"n": 3, "full_match": 33.33}, "multi": part | {"n": 3, "full_match": 66.67}}
    nested = {"nested": output["subsets"]["nested"]}
    changed = {"n": 10, "full_match": 60.0, "subsets": subsets | nested}  # 6 right: 1, 2, and 3 of the other 4
    (report,) = read_reports([write(tmp_path, output, "a.json", **changed)])
    assert refused(report) == "75.0 (3 of 4)"
    (none,) = read_reports([write(tmp_path, output, "a.json", **changed | {"n": 6})])
    assert refused(none) == "not measured"


def test_rows(tmp_path: Path, output: dict[str, Any]) -> None:
    files = [
        write(tmp_path, output, "b.json", data="seal_tools", split="dev", candidates="gold"),
        write(tmp_path, output, "a.json", data="seal_tools", split="dev", limit=4, demos=9, demos_shown=6),
        write(tmp_path, output, "c.json", data="other|folder"),
        write(tmp_path, output, "d.json", data="other|folder", candidates="gold", distractors=9, model="m1"),
        write(tmp_path, output, "e.json", data="other|folder", k=5),
    ]
    text = page(read_reports(files))
    rows = [line for line in text.splitlines() if line.startswith("| known")]
    assert rows[0].startswith("| known, dev, own, sample of 4, 1.5 demos each | 4 | 90.9 (")  # 5 of 5, and of 6
    assert rows[1].startswith("| known, dev, gold | 4 | 90.9 (")
    assert rows[2].startswith("| known, dev, own, sample of 4, 1.5 demos each: single | 2 | 100.0 / 50.0 / 66.7 |")
    single = next(row for row in rows if row.startswith("| known, dev, gold: single"))
    assert "| - |" in single  # no reference is asked for, and none was planned
    assert "| paper: GPT-4 | - | - | - | 81.65 | 73.48 |" in text
    assert "Llama-3-70B" not in text  # there is no row of ours to stand beside
    assert "## other|folder" in text
    assert [row.split(" | ")[0] for row in rows if ", all, " in row][:3] == [
        "| known, all, own", "| known, all, own, k 5", "| known (m1), all, gold and 9 distractors"
    ]  # fmt: skip
    assert "| other/folder known, all, own | 75.0 | 0.0 | 25.0 |" in text
    assert page(read_reports(files[::-1])) == text


def test_writing_and_checking(tmp_path: Path, output: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    file, target = write(tmp_path, output, "a.json"), tmp_path / "page.md"
    assert main(["--check", str(target), str(file)]) == 1
    assert main(["--write", str(target), str(file)]) == 0
    assert main(["--check", str(target), str(file)]) == 0
    target.write_text(target.read_text(encoding="utf-8") + "by hand", encoding="utf-8")
    assert main(["--check", str(target), str(file)]) == 1
    assert "out of date" in capsys.readouterr().err


def test_what_is_no_output(tmp_path: Path, output: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for file in (write(tmp_path, output, "a.json", n="many"), write(tmp_path, {}, "b.json"), tmp_path / "gone.json"):
        assert main(["--write", str(tmp_path / "page.md"), str(file)]) == 1
        assert file.name in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_commands_name_every_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(commands("/some/where"))
    assert len({line.rpartition(" ")[2] for line in lines}) == len(lines)
    assert all(re.match("(NESTOR_[A-Z_]+=[^ ]+ )*nestor eval plan --data /some/where/", line) for line in lines)
    assert main(["--commands", "/some/where"]) == 0
    assert capsys.readouterr().out.splitlines() == lines
