"""``nestor train record`` and ``train data --runs`` against a running Nestor."""

import json
from pathlib import Path

from typer.testing import CliRunner

from deploy.cli import app
from deploy.onebox import running_stack, shipped_demos
from evals.data import read_dataset
from retriever_svc.engine.texts import embedding_text
from services.contracts.api import Api

CONVERSION = "Convert 26.2 miles to kilometers."
OTHERS = ("Convert 3 miles to kilometers.", "Convert 4 miles to kilometers.")


def test_a_catalogue_and_its_confirmed_runs_become_a_folder_to_train_on(tmp_path: Path) -> None:
    with running_stack(tmp_path / "nestor") as nestor:
        cli = CliRunner(env={"NESTOR_URL": nestor.gateway_url, "COLUMNS": "200"})

        def run(*arguments: str, exit_code: int = 0) -> str:
            result = cli.invoke(app, arguments)
            assert result.exit_code == exit_code, result.output
            return result.output

        def solved(query: str) -> str:
            found: str = json.loads(run("solve", "--json", query))["id"]
            return found

        runs = [solved(query) for query in (CONVERSION, CONVERSION, CONVERSION, *OTHERS)]
        run("solve", "Call me a taxi to the central station", exit_code=1)
        none_yet = run("train", "record", "--out", str(tmp_path / "none"))
        for run_id in (*runs[:2], runs[3]):
            run("runs", "confirm", run_id)
        for run_id in runs[2:4]:
            run("runs", "reject", run_id)
        said = run("train", "record", "--out", str(tmp_path / "own"))
        told = run("train", "data", "--runs", "--made", "20", "--out", str(tmp_path / "data"))
        served = Api.model_validate_json(run("apis", "show", "sandbox.convertUnits"))
    demos = {demo.query for demo in shipped_demos() if demo.level == "task"}
    assert "nestor runs confirm RUN" in none_yet
    assert f"{len(demos)} solved requests" in none_yet
    assert {one.query for one in read_dataset(tmp_path / "none").instances} == demos

    found = read_dataset(tmp_path / "own")
    assert f"{len(found.apis)} APIs and {len(demos) + 1} solved requests" in said
    assert "nestor runs confirm" not in said + told
    assert len(found.apis) > 60
    assert demos < {one.query for one in found.instances}
    (confirmed,) = (one for one in found.instances if one.query not in demos)
    assert (confirmed.query, set(confirmed.apis)) == (CONVERSION, {"sandbox.convertUnits"})
    assert confirmed.id == runs[1]  # the last confirmed run
    read = next(api for api in found.apis if api.id == served.id)
    assert embedding_text(read) == embedding_text(served)  # training must use the same text as serving
    assert "| recorded |" in told
    measured = read_dataset(tmp_path / "data/held-out/recorded").instances
    assert {one.query for one in measured} < {one.query for one in found.instances}
    rows = [json.loads(line) for line in (tmp_path / "own" / "tools.jsonl").read_text().splitlines()]
    assert {row["name"] for row in rows} == {api.id for api in found.apis}
