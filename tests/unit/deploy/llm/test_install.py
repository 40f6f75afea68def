"""`nestor llm install` and `serve`: a registered model of one's own base is checked, and merged into that base only."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli import app
from deploy.llm.install import shipped_registry
from deploy.llm.probe import gives_token
from deploy.llm.trained import sha256_of, weight_files
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from services.registry import Entry, enter, read_registry
from tests.support.llama import tiny_factors, tiny_llama, write_peft


def registered(folder: Path, base: Path) -> Path:
    """A registry with two adapters of this base; `mine` is promoted."""
    digest = hashlib.sha256(base.read_bytes()).hexdigest()
    told = {"base": "tiny", "base_sha256": digest, "prompt_version": PROMPT_VERSIONS["brief"], "data_sha256": digest}
    for seed, name in enumerate(("other", "mine")):
        hashed = sha256_of(weight_files(write_peft(folder / name, tiny_factors(seed=seed))))
        enter(folder, Entry.model_validate(told | {"name": name, "weights_sha256": hashed}), promote=True)
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


def test_a_model_is_installed_by_its_name(tmp_path: Path) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    registry = registered(tmp_path / "models", base)
    files = []
    for options in ([], ["--name", "mine"], ["--name", "other"]):
        assert install(tmp_path, "--registry", registry, "--base", base, *options)[0] == 0
        files.append((tmp_path / "llm" / "planner.gguf").read_bytes())
    assert files[0] == files[1] != files[2]
    status, said = install(tmp_path, "--name", "mine", "--adapter", registry / "mine")
    assert (status, "either --adapter or --name" in said) == (2, True)


@pytest.mark.parametrize("command", [("install", "--name"), ("serve",)])
def test_what_is_not_registered_as_it_is_is_neither_installed_nor_served(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    base, strange = (tiny_llama(seed).write(tmp_path / f"{seed}.gguf") for seed in (0, 1))
    registry = registered(tmp_path / "models", base)

    def refused(name: str, base: Path) -> str:
        line = ["llm", *command, name, "--registry", registry, "--base", base, "--folder", tmp_path / "llm"]
        result = CliRunner().invoke(app, list(map(str, line)), env={"COLUMNS": "200"})
        assert result.exit_code == 1
        assert not list(tmp_path.glob("llm/*.gguf"))
        return result.output

    assert "lists no 'yours'; it lists other, mine" in refused("yours", base)
    assert "lists no '../models/mine'" in refused("../models/mine", base)
    assert "mine was trained on tiny, not on" in refused("mine", strange)
    with (registry / "mine/adapter_model.safetensors").open("ab") as weights:
        weights.write(b" ")
    assert "does not hold the files that were registered" in refused("mine", base)
    (registry / "other/adapter_config.json").unlink()
    assert "adapter_config.json is missing" in refused("other", base)


@pytest.mark.parametrize(("name", "served"), [(["other"], "other"), ([], "mine")])
def test_a_registered_model_is_served(tmp_path: Path, name: list[str], served: str) -> None:
    base = tiny_llama().write(tmp_path / "base.gguf")
    registry = registered(tmp_path / "models", base)
    line = [sys.executable, "-c", "from deploy.cli import main; main()", "llm", "serve", *name]
    line += ["--registry", str(registry), "--base", str(base), "--folder", str(tmp_path / "llm")]
    environment = os.environ | {"NESTOR_LLM_PORT": "0", "NESTOR_LLM_CONTEXT": "512", "NESTOR_LLM_MODEL": "none.gguf"}
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = next(line for line in process.stdout if "is served on" in line)
            assert f"registered-{served}.gguf" in said
            assert gives_token(said.split()[-1], "nestor-planner") is None
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_base_alone_is_not_served() -> None:
    assert CliRunner().invoke(app, ["llm", "serve", "--base", "a.gguf"]).exit_code == 2


def test_the_shipped_registry_names_the_files_that_ship() -> None:
    entry = read_registry(shipped_registry()).current()
    assert entry is not None
    assert entry.weights_sha256 == sha256_of(weight_files(shipped_registry() / entry.name))
