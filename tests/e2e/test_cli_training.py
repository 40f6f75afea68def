"""``nestor train record`` and ``train data --runs`` against a running Nestor."""

import json
from pathlib import Path

from typer.testing import CliRunner

from deploy.cli import app
from deploy.onebox import shipped_demos, world
from evals.data import read_dataset
from retriever_svc.engine.texts import embedding_text
from services.contracts.api import Api


def test_a_catalogue_and_its_solved_requests_become_a_folder_to_train_on(tmp_path: Path) -> None:
    with world(tmp_path / "nestor") as nestor:
        cli = CliRunner(env={"NESTOR_URL": nestor.gateway_url, "COLUMNS": "200"})

        def run(*arguments: str, exit_code: int = 0) -> str:
            result = cli.invoke(app, arguments)
            assert result.exit_code == exit_code, result.output
            return result.output

        for query in ("Convert 26.2 miles to kilometers.", "Convert 26.2 miles to kilometers."):
            run("solve", query)
        run("solve", "Call me a taxi to the central station", exit_code=1)
        said = run("train", "record", "--out", str(tmp_path / "own"))
        told = run("train", "data", "--runs", "--made", "20", "--out", str(tmp_path / "data"))
        served = Api.model_validate_json(run("apis", "show", "sandbox.convertUnits"))
    found = read_dataset(tmp_path / "own")
    demos = {demo.query for demo in shipped_demos() if demo.level == "task"}
    assert f"{len(found.apis)} APIs and {len(demos) + 1} solved requests" in said
    assert len(found.apis) > 60
    assert demos < {one.query for one in found.instances}
    (solved,) = (one for one in found.instances if one.query not in demos)
    assert (solved.query, set(solved.apis)) == ("Convert 26.2 miles to kilometers.", {"sandbox.convertUnits"})
    read = next(api for api in found.apis if api.id == served.id)
    assert embedding_text(read) == embedding_text(served)  # or training would learn another text than serves
    assert "| recorded |" in told
    measured = read_dataset(tmp_path / "data/held-out/recorded").instances
    assert {one.query for one in measured} < {one.query for one in found.instances}
    rows = [json.loads(line) for line in (tmp_path / "own" / "tools.jsonl").read_text().splitlines()]
    assert {row["name"] for row in rows} == {api.id for api in found.apis}
