"""`nestor llm install --base`: an adapter of one's own base is merged into that base and into no other."""

import hashlib
import json
from pathlib import Path

from typer.testing import CliRunner

from deploy.cli import app
from planner_svc.backends.served.prompt import PROMPT_VERSION
from services.registry import Entry, enter
from tests.support.llama import tiny_factors, tiny_llama, write_peft


def registered(folder: Path, base: Path) -> Path:
    """A registry with an adapter of this base."""
    digest = hashlib.sha256(base.read_bytes()).hexdigest()
    told = {"name": "mine", "base": "tiny", "base_sha256": digest, "prompt_version": PROMPT_VERSION}
    enter(folder, Entry.model_validate(told | {"data_sha256": digest}), promote=True)
    write_peft(folder / "mine", tiny_factors())
    return folder


def install(place: Path, *options: object) -> tuple[int, str]:
    line = ["llm", "install", "--folder", str(place / "llm"), *map(str, options)]
    result = CliRunner().invoke(app, line, env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_a_registry_of_another_base(tmp_path: Path) -> None:
    base, other = (tiny_llama(seed).write(tmp_path / f"{seed}.gguf") for seed in (0, 1))
    registry = registered(tmp_path / "models", base)
    status, said = install(tmp_path, "--registry", registry, "--base", base)
    assert status == 0, said
    merged = tmp_path / "llm" / "planner.gguf"
    note = json.loads((tmp_path / "llm" / "planner.gguf.json").read_text())
    assert note["base"] == hashlib.sha256(base.read_bytes()).hexdigest()
    assert [one.name for one in (tmp_path / "llm").glob("*.gguf")] == [merged.name], "no base is fetched"
    assert "kept" in install(tmp_path, "--registry", registry, "--base", base)[1]

    before = merged.read_bytes()
    for wrong in ([], ["--base", other], ["--base", tmp_path / "none.gguf"]):
        status, said = install(tmp_path, "--registry", registry, *wrong)
        assert status == 1
        assert "--base FILE" in said or "cannot be read" in said
    assert merged.read_bytes() == before

    assert install(tmp_path, "--adapter", registry / "mine", "--base", other)[0] == 0
    assert merged.read_bytes() != before, "an adapter that is named is merged into the base that is named"
