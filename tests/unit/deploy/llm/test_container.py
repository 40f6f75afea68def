"""The language model's container serves what the mounted registry promotes, and the planner's is told how to ask it."""

import json
import os
import re
from pathlib import Path, PurePosixPath

import pytest
import yaml

from deploy.compose import make_env
from deploy.llm.install import install
from deploy.llm.promoted import model_to_serve
from deploy.llm.settings import FOLDER, settings_from_environment
from deploy.llm.supervisor import _FULL_FORM
from planner_svc.judging.fingerprint import JUDGE
from tests.unit.deploy.llm.test_promoted import place, promote

__all__ = ["place"]  # a fixture: a working directory without models, and an environment that names none

SERVICES = yaml.safe_load((make_env.ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
COMPOSED = SERVICES["llm"]
DOCKERFILE = (make_env.ROOT / "deploy" / "Dockerfile").read_text("utf-8")
MOUNTS = dict(volume.removesuffix(":ro").rsplit(":", 1) for volume in COMPOSED["volumes"])


def test_the_container_serves_what_its_registry_promotes(place: Path) -> None:
    image = DOCKERFILE.partition(" AS llm\n")[2]
    given = dict(re.findall(r"(NESTOR_LLM_\w+)=(\S+)", image)) | COMPOSED["environment"]
    assert "NESTOR_LLM_MODEL" not in given, "with it no registry would be read"
    os.environ |= {name: value for name, value in given.items() if value}
    os.environ["NESTOR_LLM_REGISTRY"] = str(place / "mounted")
    shipped = promote(place, 1, registry="shipped")
    install(Path("var/llm"), shipped, "Q8_0", print, place / "base.gguf")  # as the image's stage does
    promote(place, 2, registry="mounted")
    settings = settings_from_environment()
    assert (settings.host, settings.port) == ("0.0.0.0", 8000)
    assert model_to_serve(settings).file == Path("var/llm/registered-of-seed-2.gguf")


def test_registry_and_merged_models_are_mounted_where_they_are_looked_for() -> None:
    registry = f"${{{make_env.REGISTRY}:-{make_env.SHIPPED_REGISTRY}}}"
    assert MOUNTS[registry] == COMPOSED["environment"]["NESTOR_LLM_REGISTRY"]
    assert f"{registry}:{MOUNTS[registry]}:ro" in COMPOSED["volumes"]
    workdir = PurePosixPath("".join(re.findall(r"^WORKDIR (\S+)$", DOCKERFILE, re.MULTILINE)))
    merged = MOUNTS["llm_models"]
    assert merged == str(workdir / FOLDER)
    assert f"COPY --from=llm-model --chown=10001:10001 {merged} {merged}\n" in DOCKERFILE, "its user writes there"


def asked(place: Path, *lines: str) -> dict[str, str]:
    """How the planner's container asks the model, after `make_env.py --model llm`."""
    with (place / ".env").open("a") as env_file:
        env_file.writelines(f"{line}\n" for line in lines)
    env, _ = make_env.complete_env(place / ".env", "llm")
    assert make_env.read_env(place / ".env") == env
    return {name: env[name] for name in _FULL_FORM}


def test_the_planner_asks_in_the_form_of_what_is_promoted(place: Path) -> None:
    profile = make_env.read_env(make_env.PROFILE)
    assert asked(place) == {name: profile[name] for name in _FULL_FORM}
    promote(place, 1, detail="full")
    assert asked(place, f"NESTOR_LLM_REGISTRY={place / 'var/models'}") == _FULL_FORM
    promote(place, 2)
    assert asked(place)["NESTOR_PLANNER_SERVED_DETAIL"] == "brief"


def test_the_judge_of_what_is_promoted_is_mounted_and_named(place: Path) -> None:
    env_file = place / ".env"
    env_file.write_text(
        f"NESTOR_LLM_REGISTRY={place / 'var/models'}\nNESTOR_GPU_ADAPTER={place / 'var/models/of-seed-1'}\n"
    )
    judge, folder = make_env.JUDGE, promote(place, 1)
    make_env.complete_env(env_file, "llm")
    assert judge not in make_env.read_env(env_file)
    (folder / JUDGE).touch()
    for profile, named in (("llm", "/registry/of-seed-1"), ("gpu", "/adapter")):
        make_env.complete_env(env_file, profile)
        assert make_env.read_env(env_file)[judge] == named
    promote(place, 2)
    make_env.complete_env(env_file, "llm")
    assert make_env.read_env(env_file)[judge] == "", "the next model has no judge"
    planner = SERVICES["planner_svc"]
    assert judge in planner["environment"]
    assert f"${{{make_env.REGISTRY}:-{make_env.SHIPPED_REGISTRY}}}:/registry:ro" in planner["volumes"]
    adapter = "NESTOR_GPU_ADAPTER"
    assert f"${{{adapter}:-{make_env.SHIPPED[adapter]}}}:/adapter:ro" in planner["volumes"]


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", json.dumps({"promoted": "one", "adapters": {}})])
def test_a_registry_that_promotes_nothing_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    (place / ".env").write_text(f"NESTOR_LLM_REGISTRY={place}\n")
    if content is not None:
        (place / "registry.json").write_text(content)
    files = ["--env-file", str(place / ".env"), "--secrets-file", str(place / "s" / "executor.json")]
    assert make_env.main([*files, "--model", "llm"]) == 1
    assert "make_env: " in capsys.readouterr().err
    assert (place / ".env").read_text() == f"NESTOR_LLM_REGISTRY={place}\n"
