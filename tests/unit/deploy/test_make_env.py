"""The script that writes passwords: it adds what is missing, keeps what is there, and shows nothing."""

import json
import re
import stat
from pathlib import Path

import pytest
import yaml

from deploy.compose import make_env
from executor_svc.secret_store import SecretStore
from planner_svc.settings import PlannerSettings, ServedSettings

EXAMPLE = Path(make_env.__file__).parents[2] / ".env.example"


def run(folder: Path) -> int:
    return make_env.main(["--env-file", str(folder / ".env"), "--secrets-file", str(folder / "s" / "executor.json")])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_first_run_writes_what_compose_and_the_executor_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 0
    env = make_env.read_env(tmp_path / ".env")
    described = make_env.read_env(EXAMPLE)
    assert set(env) == set(described) - {"NESTOR_PORT", "NESTOR_SECRETS_FILE"}
    drawn = [env[name] for name in make_env.RANDOM]
    assert len(set(drawn)) == len(drawn)
    assert all(len(value) >= 32 for value in drawn)
    assert (mode(tmp_path / ".env"), mode(tmp_path / "s")) == (0o600, 0o700)
    printed = capsys.readouterr().out
    assert "POSTGRES_PASSWORD" in printed
    assert (tmp_path / "s" / "metrics.token").read_text("utf-8") == env["NESTOR_METRICS_TOKEN"]
    assert not any(value in printed for value in drawn)
    store = SecretStore.load(tmp_path / "s" / "executor.json", None)
    assert store.names(None) == ("sandbox.apiKey", "sandbox.basic", "sandbox.bearer", "sandbox.oauth2")
    sandbox = {env[name] for name in make_env.RANDOM if name.startswith("NESTOR_SANDBOX_")}
    entries = json.loads((tmp_path / "s" / "executor.json").read_text())
    assert sandbox <= {value for entry in entries.values() for value in entry.values() if isinstance(value, str)}


def test_later_runs_keep_every_value_and_add_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# mine\nNESTOR_PORT=9000\nREDIS_PASSWORD=#kept-as-it-is\nNESTOR_EXECUTOR_DB_PASSWORD=\n"
        'NESTOR_GATEWAY_TOKEN=""\nNESTOR_PROOF_KEY=  # to do',
        "utf-8",
    )
    assert run(tmp_path) == 0
    first = make_env.read_env(tmp_path / ".env")
    assert (first["NESTOR_PORT"], first["REDIS_PASSWORD"]) == ("9000", "#kept-as-it-is")
    assert all(
        len(first[name]) >= 32 for name in ("NESTOR_EXECUTOR_DB_PASSWORD", "NESTOR_GATEWAY_TOKEN", "NESTOR_PROOF_KEY")
    )
    secrets_file = tmp_path / "s" / "executor.json"
    known = json.loads(secrets_file.read_text("utf-8"))
    own = {"crm.apiKey": {"value": "my own key", "hosts": ["crm.example"]}}
    secrets_file.write_text(json.dumps(known | own), "utf-8")
    text = (tmp_path / ".env").read_text("utf-8")
    assert run(tmp_path) == 0
    assert (tmp_path / ".env").read_text("utf-8") == text
    assert json.loads(secrets_file.read_text("utf-8")) == known | own


def test_a_secrets_file_that_cannot_be_read_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "s" / "executor.json"
    broken.parent.mkdir()
    broken.write_text("{", "utf-8")
    assert run(tmp_path) == 1
    assert broken.read_text("utf-8") == "{"
    assert "make_env:" in capsys.readouterr().err


def test_a_model_is_chosen_and_changed_and_its_key_is_drawn_once(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("NESTOR_PLANNER_SERVED_CANDIDATES=9\nNESTOR_PORT=9000", "utf-8")
    options = ["--env-file", str(tmp_path / ".env"), "--secrets-file", str(tmp_path / "s" / "executor.json")]
    assert make_env.main([*options, "--model", "gpu"]) == 0
    on_gpu = make_env.read_env(tmp_path / ".env")
    assert (on_gpu["COMPOSE_PROFILES"], on_gpu["NESTOR_PLANNER_SERVED_CONSTRAINT"]) == ("gpu", "json_schema")
    assert (on_gpu["NESTOR_PLANNER_SERVED_CANDIDATES"], on_gpu["NESTOR_PLANNER_SERVED_DETAIL"]) == ("9", "brief")
    assert len(on_gpu[make_env.MODEL_KEY]) >= 32
    assert make_env.main([*options, "--model", "llm"]) == 0
    on_cpu = make_env.read_env(tmp_path / ".env")
    changed = {name for name in on_cpu if on_cpu[name] != on_gpu.get(name)}
    assert changed - {make_env.JUDGE} == {"COMPOSE_PROFILES", "NESTOR_PLANNER_SERVED_CONSTRAINT"}
    text = (tmp_path / ".env").read_text("utf-8")
    assert text.count("COMPOSE_PROFILES=") == 1
    assert make_env.main([*options, "--model", "llm"]) == 0
    assert make_env.main(options) == 0
    assert (tmp_path / ".env").read_text("utf-8") == text, "nothing is left to write"


@pytest.mark.parametrize(
    ("name", "value"), [("NESTOR_GPU_BASE", "Qwen/Qwen3-8B"), ("NESTOR_GPU_ADAPTER", "./var/models/mine")]
)
def test_a_model_of_ones_own_is_not_asked_as_the_shipped_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    file = tmp_path / ".env"
    options = ["--env-file", str(file), "--secrets-file", str(tmp_path / "s" / "executor.json"), "--model", "gpu"]
    profile = make_env.read_env(make_env.PROFILE)
    file.write_text(f'{name}="{value}"\n', "utf-8")
    assert make_env.main(options) == 0
    own = make_env.read_env(file)
    assert own["NESTOR_PLANNER_SERVED_CONSTRAINT"] == "json_schema"
    assert not own.keys() & profile.keys(), "the planner's defaults hold"
    assert "suit the model that ships" not in capsys.readouterr().out

    file.write_text("\n".join(f"{one}={text}" for one, text in make_env.SHIPPED.items()), "utf-8")
    assert make_env.main(options) == 0
    assert profile.items() <= make_env.read_env(file).items(), "the shipped model, named"
    file.write_text(file.read_text("utf-8").replace(make_env.SHIPPED[name], value), "utf-8")
    assert make_env.main(options) == 0
    assert "NESTOR_PLANNER_CASCADE" in capsys.readouterr().out, "lines that are left are kept, and named"


@pytest.mark.parametrize(("properties", "form"), [({}, "brief"), ({"detail": "full"}, "full")])
def test_an_adapter_of_ones_own_is_asked_in_the_form_it_learnt(
    tmp_path: Path, properties: dict[str, str], form: str
) -> None:
    report = {"data": {"recipe": {"properties": properties}}}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.json").write_text(json.dumps(report), "utf-8")
    (tmp_path / ".env").write_text(f"NESTOR_GPU_ADAPTER={tmp_path / 'mine'}\n", "utf-8")
    env, _ = make_env.complete_env(tmp_path / ".env", "gpu")
    asked = {name: value for name, value in env.items() if name in make_env.read_env(make_env.PROFILE)}
    assert asked == {"NESTOR_PLANNER_SERVED_DETAIL": form}


def test_how_the_model_is_asked_are_settings_of_the_planner() -> None:
    given = make_env.read_env(make_env.PROFILE) | make_env.chosen_model("llm")
    del given["COMPOSE_PROFILES"]
    assert PlannerSettings.model_validate({"cascade": given["NESTOR_PLANNER_CASCADE"]}).cascade == "compact_first"
    served = "NESTOR_PLANNER_SERVED_"
    fields = {name.removeprefix(served).lower(): text for name, text in given.items() if name.startswith(served)}
    assert ServedSettings.model_validate(fields).url == "http://model:8000/v1"
    compose = yaml.safe_load((make_env.ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    assert given.keys() <= compose["planner_svc"]["environment"].keys(), "the planner's container is told each of them"
    assert all("model" in compose[profile]["networks"]["model"]["aliases"] for profile in make_env.CONSTRAINTS)
    assert all(compose[profile]["profiles"] == [profile] for profile in make_env.CONSTRAINTS)
    served_by_default = str(compose["gpu"]["command"]) + str(compose["gpu"]["volumes"])
    assert all(f"${{{name}:-{value}}}" in served_by_default for name, value in make_env.SHIPPED.items())


def test_images_are_pinned_by_digest_and_all_of_them(tmp_path: Path) -> None:
    assert run(tmp_path) == 0
    assert "PYTHON_IMAGE" not in make_env.read_env(tmp_path / ".env")
    files = ["--env-file", str(tmp_path / ".env"), "--secrets-file", str(tmp_path / "s" / "executor.json")]
    assert make_env.main([*files, "--pin-images"]) == 0
    pinned = make_env.read_env(tmp_path / ".env")
    compose = (EXAMPLE.parent / "docker-compose.yml").read_text("utf-8")
    named = dict(re.findall(r"\$\{([A-Z]+_IMAGE):-([^}]+)\}", compose))
    assert named == {name: value.partition("@")[0] for name, value in pinned.items() if name.endswith("_IMAGE")}
    assert all(re.fullmatch(r"[^@]+@sha256:[0-9a-f]{64}", pinned[name]) for name in named)
    own = re.compile(r"nestor-(service|sandbox|llm):")
    used = [line.split()[1] for line in compose.splitlines() if line.strip().startswith("image:")]
    assert all(one.startswith("${") or own.match(one) for one in used)
    dockerfile = (EXAMPLE.parent / "deploy" / "Dockerfile").read_text("utf-8")
    bases = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile, re.MULTILINE)
    assert {base for base, _ in bases} - {stage for _, stage in bases} == {"${PYTHON_IMAGE}"}
