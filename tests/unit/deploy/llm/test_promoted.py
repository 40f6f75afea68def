"""What a registry promotes is what llama.cpp serves, without a setting; what is not as registered is not served."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.llm.errors import LlmError
from deploy.llm.install import BASE_SHA256, install, shipped_registry
from deploy.llm.promoted import model_to_serve, registry_to_read
from deploy.llm.settings import LlmSettings
from deploy.llm.supervisor import planning_model
from deploy.llm.trained import sha256_of, weight_files
from planner_svc.backends.served.prompt import PROMPT_VERSIONS
from planner_svc.judging.fingerprint import JUDGE
from services.registry import Entry, enter
from tests.support.llama import tiny_factors, tiny_llama, write_peft
from tests.unit.deploy.llm.test_server import PROMPT, log_probabilities
from tests.unit.deploy.llm.test_trained import tensors_of, write_whole_folder

SCALE = 2.0
"""Of the adapters that :func:`write_peft` writes: alpha / rank."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without models, and an environment that names none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if "NESTOR_" not in name})
    os.environ["PYTHONPATH"] = os.pathsep.join(
        sys.path
    )  # the server's process starts elsewhere, but from this checkout
    tiny_llama().write(tmp_path / "base.gguf")
    return tmp_path


def promote(place: Path, seed: int, *, detail: str = "brief", registry: str = "var/models", **changed: object) -> Path:
    """Promote an adapter of ``base.gguf`` that is called by its seed. Returns its folder."""
    name, base = f"of-seed-{seed}", place / "base.gguf"
    folder = write_peft(place / registry / name, tiny_factors(seed=seed))
    told = {
        "name": name, "base": "tiny", "base_sha256": sha256_of([base]), "base_file": base, "detail": detail,
        "prompt_version": PROMPT_VERSIONS["full" if detail == "full" else "brief"], "data_sha256": "b" * 64,
        "weights_sha256": sha256_of(weight_files(folder)),
    }  # fmt: skip
    enter(place / registry, Entry.model_validate(told | changed), promote=True)
    return folder


def served(**given: object) -> tuple[str, str]:
    """The file to serve, as a path from the working directory, and the form of its prompt."""
    model = model_to_serve(LlmSettings.model_validate(given))
    return str(model.file), model.detail


def test_the_server_computes_what_the_promoted_adapter_says(place: Path) -> None:
    says = {seed: tiny_llama().changed(tiny_factors(seed=seed), SCALE).log_probabilities(PROMPT) for seed in (1, 2)}
    for now, before in ((1, 2), (2, 1)):
        promote(place, now)
        found = log_probabilities(LlmSettings(port=0, threads=1, context=512))
        assert np.abs(found - says[now]).mean() < 0.1 * np.abs(found - says[before]).mean()
    assert {one.name for one in (place / "var/llm").glob("*.gguf")} == {
        "registered-of-seed-1.gguf",
        "registered-of-seed-2.gguf",
    }


def test_a_whole_model_that_is_promoted_is_served(place: Path) -> None:
    folder = write_whole_folder(place / "var/models/full", tensors_of(tiny_llama(5)))
    promote(place, 1)
    entry = {"name": "full", "weights_sha256": sha256_of(weight_files(folder))}
    promote(place, 2, **entry)
    assert served() == ("var/llm/registered-full.gguf", "brief")
    found = log_probabilities(LlmSettings(port=0, threads=1, context=512))
    wanted, base = (tiny_llama(seed).log_probabilities(PROMPT) for seed in (5, 0))
    assert np.abs(found - wanted).mean() < 0.1 * np.abs(found - base).mean()


def test_the_planner_asks_in_the_form_that_was_registered(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = promote(place, 1, detail="full")
    os.environ |= {"NESTOR_LLM_THREADS": "1", "NESTOR_LLM_CONTEXT": "512"}
    with planning_model():
        assert os.environ["NESTOR_PLANNER_SERVED_DETAIL"] == "full"
        assert "NESTOR_PLANNER_SERVED_JUDGE" not in os.environ
    (folder / JUDGE).touch()  # no part of what was registered: it is fitted to a registered model's answers
    with planning_model():
        assert Path(os.environ["NESTOR_PLANNER_SERVED_JUDGE"]) == Path("var/models/of-seed-1")
    os.environ["NESTOR_PLANNER_SERVED_JUDGE"] = ""
    with planning_model():
        assert os.environ["NESTOR_PLANNER_SERVED_JUDGE"] == "", "what the environment says takes precedence"
    said = capfd.readouterr().err
    assert "of-seed-1, which var/models promotes, is served from var/llm/registered-of-seed-1.gguf" in said
    assert "(var/llm/registered-of-seed-1.gguf) is served on" in said


def test_a_file_that_is_named_is_served_whatever_is_promoted(place: Path) -> None:
    promote(place, 1, detail="full")
    assert served(model="base.gguf") == ("base.gguf", "brief")


def test_what_is_installed_is_served_if_it_is_what_is_promoted_and_never_overwritten(place: Path) -> None:
    first, base = promote(place, 1), place / "base.gguf"
    installed = install(Path("var/llm"), first, "Q4_0", print, base)
    base.rename(place / "elsewhere.gguf")
    assert served() == ("var/llm/planner.gguf", "brief"), "whatever its type, and though the base is gone"
    (place / "elsewhere.gguf").rename(base)
    before = installed.read_bytes()
    promote(place, 2)
    assert served() == ("var/llm/registered-of-seed-2.gguf", "brief")
    assert installed.read_bytes() == before
    written = Path("var/llm/registered-of-seed-2.gguf").stat().st_mtime_ns
    served()
    assert Path("var/llm/registered-of-seed-2.gguf").stat().st_mtime_ns == written, "it is merged once"


def test_which_registry_is_read(place: Path) -> None:
    assert registry_to_read() == shipped_registry()
    (place / "var/models").mkdir(parents=True)
    (place / "var/models/registry.json").write_text("{}")
    assert registry_to_read() == shipped_registry(), "nothing is promoted there"
    promote(place, 1)
    assert registry_to_read() == Path("var/models")
    os.environ["NESTOR_LLM_REGISTRY"] = "yours"
    assert registry_to_read() == Path("yours")
    assert registry_to_read(Path("named")) == Path("named")
    promote(place, 2, registry="yours")
    assert served(registry="yours")[0] == "var/llm/registered-of-seed-2.gguf"


def refused(**given: object) -> str:
    with pytest.raises(LlmError) as error:
        served(**given)
    assert not list(Path("var/llm").glob("*.gguf"))
    return str(error.value)


def test_what_is_not_as_it_was_registered_is_not_served(place: Path) -> None:
    assert "no adapter was promoted in yours" in refused(registry="yours")
    folder = promote(place, 1)
    (place / "base.gguf").rename(place / "elsewhere.gguf")
    assert "base.gguf is missing or has changed" in refused()
    tiny_llama(9).write(place / "base.gguf")
    assert "--base FILE" in refused()
    with (folder / "adapter_model.safetensors").open("ab") as weights:
        weights.write(b" ")
    assert "var/models/of-seed-1 does not hold the files that were registered" in refused()
    (folder / "adapter_model.safetensors").unlink()
    assert "adapter_model.safetensors is missing" in refused()
    shutil.rmtree(folder)
    assert "var/models/registry.json lists of-seed-1, which does not exist" in refused()
    (place / "var/models/registry.json").write_text("{")
    assert "var/models/registry.json" in refused()


def test_a_start_downloads_nothing(place: Path) -> None:
    promote(place, 1, base_sha256=BASE_SHA256, base_file=None)
    assert "there is no var/llm/SmolLM2-135M-Instruct.Q4_1.gguf" in refused()
