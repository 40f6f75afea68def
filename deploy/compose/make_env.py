"""Write the random passwords that ``docker-compose.yml`` needs.

It writes two files: ``.env`` (mode 600), read by docker-compose, and the executor's secrets file, one JSON object of
secrets by name. A value already in ``.env`` is kept, a missing one is added. The secrets file is derived from ``.env``.
With ``--model``, ``.env`` also names the language model's server to start and, for the model that ships, how the
planner calls it. With ``--pin-images``, it also names the digests of third-party images.

Uses the standard library only, because it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RANDOM = (
    "POSTGRES_PASSWORD",
    "NESTOR_GATEWAY_DB_PASSWORD",
    "NESTOR_RETRIEVER_DB_PASSWORD",
    "NESTOR_DEMO_DB_PASSWORD",
    "NESTOR_EXECUTOR_DB_PASSWORD",
    "REDIS_PASSWORD",
    "NESTOR_GATEWAY_TOKEN",
    "NESTOR_RETRIEVER_SERVICE_TOKEN",
    "NESTOR_DEMO_SERVICE_TOKEN",
    "NESTOR_PLANNER_SERVICE_TOKEN",
    "NESTOR_EXECUTOR_SERVICE_TOKEN",
    "NESTOR_PROOF_KEY",
    "NESTOR_METRICS_TOKEN",
    "GRAFANA_PASSWORD",
    "NESTOR_SANDBOX_API_KEY",
    "NESTOR_SANDBOX_BASIC_PASSWORD",
    "NESTOR_SANDBOX_BEARER_TOKEN",
    "NESTOR_SANDBOX_OAUTH_CLIENT_SECRET",
)
SANDBOX_HOST = "sandbox:8000"
MODEL_KEY = "NESTOR_PLANNER_SERVED_API_KEY"
PROFILE = ROOT / "deploy" / "llm" / "planner.env"
IMAGES = ROOT / "deploy" / "compose" / "images.env"
CONSTRAINTS = {"llm": "gbnf", "gpu": "json_schema"}
"""The profiles that serve a language model, and the constraint that each uses to force the answer format."""
SHIPPED = {
    "NESTOR_GPU_BASE": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "NESTOR_GPU_ADAPTER": "./services/models/smollm2-135m-planner",
}
"""The model that the GPU profile serves by default; the same values stand in ``docker-compose.yml``."""
JUDGE = "NESTOR_PLANNER_SERVED_JUDGE"
"""Folder in the planner's container of the judge of the model's answers; ``docker-compose.yml`` mounts it."""
JUDGE_FILE = "judge.npz"
REGISTRY = "NESTOR_LLM_REGISTRY"
SHIPPED_REGISTRY = "./services/models"
"""The registry that the CPU profile reads by default; the same value stands in ``docker-compose.yml``."""
FULL_FORM = {"NESTOR_PLANNER_SERVED_DETAIL": "full", "NESTOR_PLANNER_SERVED_PROMPT_TOKENS": "3200"}
"""As `nestor serve --llm` asks a model that was trained with the full form of the prompt."""
FIXED = {"NESTOR_SANDBOX_BASIC_USERNAME": "sandbox", "NESTOR_SANDBOX_OAUTH_CLIENT_ID": "sandbox-client"}


def read_env(path: Path) -> dict[str, str]:
    """The ``NAME=value`` lines of an env file; empty where there is no file."""
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def chosen_model(profile: str) -> dict[str, str]:
    """The variables that make docker-compose start a model's server, and the planner use it."""
    return {
        "COMPOSE_PROFILES": profile,
        "NESTOR_PLANNER_SERVED_URL": "http://model:8000/v1",
        "NESTOR_PLANNER_SERVED_MODEL": "nestor-planner",
        "NESTOR_PLANNER_SERVED_CONSTRAINT": CONSTRAINTS[profile],
    }


def serves_own_model(profile: str, env: dict[str, str]) -> bool:
    """Whether ``.env`` names another base or adapter than those that ship. Only the GPU profile serves others."""
    given = {name: _unquoted(env.get(name, "")) for name in SHIPPED}
    return profile == "gpu" and any(given[name] not in ("", value) for name, value in SHIPPED.items())


def form_of_adapter(env: dict[str, str]) -> dict[str, str]:
    """The prompt's form that the adapter was trained with; nothing if ``nestor train llm`` did not make it.

    Raises:
        ValueError: its report is not JSON.
    """
    folder = _unquoted(env.get("NESTOR_GPU_ADAPTER", ""))
    report = ROOT / folder / "report.json"
    if not folder or not report.is_file():
        return {}
    found = json.loads(report.read_text(encoding="utf-8"))
    for name in ("data", "recipe", "properties", "detail"):
        found = found.get(name) if isinstance(found, dict) else None
    return {"NESTOR_PLANNER_SERVED_DETAIL": "full" if found == "full" else "brief"}


def form_of_promoted(env: dict[str, str]) -> dict[str, str]:
    """The prompt's form of the model that the CPU profile serves: the one that the registry promotes.

    Raises:
        OSError: ``.env`` names a folder without a registry.
        ValueError: it is not JSON, or promotes nothing.
    """
    _, entry = _promoted(env)
    return FULL_FORM if entry.get("detail") == "full" else {"NESTOR_PLANNER_SERVED_DETAIL": "brief"}


def judge_of_model(profile: str, env: dict[str, str]) -> str:
    """Folder of the judge of the model's answers, as it is mounted in the planner's container; empty if there is none.

    Raises:
        OSError: ``.env`` names a folder without a registry.
        ValueError: the registry is not JSON, or promotes nothing.
    """
    if profile == "gpu":
        given = "NESTOR_GPU_ADAPTER"
        folder, mounted = ROOT / (_unquoted(env.get(given, "")) or SHIPPED[given]), "/adapter"
    else:
        folder, _ = _promoted(env)
        mounted = f"/registry/{folder.name}"
    return mounted if (folder / JUDGE_FILE).is_file() else ""


def _promoted(env: dict[str, str]) -> tuple[Path, dict[str, object]]:
    """Folder and entry of the model that the registry promotes. Raises as :func:`judge_of_model`."""
    registry = ROOT / (_unquoted(env.get(REGISTRY, "")) or SHIPPED_REGISTRY)
    file = registry / "registry.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    try:
        name = found["promoted"]
        return registry / name, dict(found["adapters"][name])
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{file} promotes no model") from None


def complete_env(path: Path, model: str | None = None, *, pin_images: bool = False) -> tuple[dict[str, str], list[str]]:
    """Append missing or empty values to the env file. Returns all its values, and the names that were written.

    With ``model``, the lines that choose the model and the judge of its answers are overwritten, on the CPU with those
    of its prompt's form. How the planner calls it is added for the model that ships and for all on the CPU; for others
    the defaults hold, but for the prompt's form. With ``pin_images``, the lines of the images are overwritten.
    """
    have = read_env(path)
    chosen, random, fixed = read_env(IMAGES) if pin_images else {}, list(RANDOM), dict(FIXED)
    if model is not None:
        chosen, random = chosen | chosen_model(model), [*RANDOM, MODEL_KEY]
        chosen[JUDGE] = judge_of_model(model, have)
        chosen |= form_of_promoted(have) if model == "llm" else {}
        fixed |= form_of_adapter(have) if serves_own_model(model, have) else read_env(PROFILE)
    wanted = {name: secrets.token_urlsafe(24) for name in random} | fixed
    added = {name: value for name, value in wanted.items() if _is_empty(have.get(name, ""))}
    added |= {name: value for name, value in chosen.items() if have.get(name, "") != value}
    if added:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        old = "".join(line for line in kept if line.partition("=")[0].strip() not in chosen.keys() & added.keys())
        lines = "".join(f"{name}={value}\n" for name, value in added.items())
        _write(path, old + ("\n" if old and not old.endswith("\n") else "") + lines, mode=0o600)
    return have | added, list(added)


def _unquoted(value: str) -> str:
    return value.strip("\"'")


def _is_empty(value: str) -> bool:
    """Whether the value is empty, or only quotation marks or a comment."""
    return not _unquoted(value) or value == "#" or value.startswith("# ")


def executor_secrets(env: dict[str, str]) -> dict[str, dict[str, object]]:
    """The sandbox's credentials by name (`provider.scheme`), each bound to the one host it may be sent to."""
    known = {
        "apiKey": {
            "value": env["NESTOR_SANDBOX_API_KEY"],
            "scheme": "api_key",
            "in": "header",
            "name": "X-API-Key",
        },
        "basic": {
            "username": env["NESTOR_SANDBOX_BASIC_USERNAME"],
            "password": env["NESTOR_SANDBOX_BASIC_PASSWORD"],
        },
        "bearer": {"value": env["NESTOR_SANDBOX_BEARER_TOKEN"], "scheme": "bearer"},
        "oauth2": {
            "client_id": env["NESTOR_SANDBOX_OAUTH_CLIENT_ID"],
            "client_secret": env["NESTOR_SANDBOX_OAUTH_CLIENT_SECRET"],
        },
    }
    return {f"sandbox.{scheme}": {**entry, "hosts": [SANDBOX_HOST]} for scheme, entry in known.items()}


def write_secrets(path: Path, values: dict[str, dict[str, object]]) -> None:
    """Write the executor's secrets file.

    docker-compose mounts it with its owner and mode, and the container's user is not its owner. So the file is
    readable by all. The folder, if it is created here, is readable by its owner only.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    _write(path, json.dumps(known | values, indent=2) + "\n", mode=0o644)


def _write(path: Path, text: str, mode: int) -> None:
    """Replace the file atomically; it never exists with another mode or partial text."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    draft.replace(path)


def main(argv: list[str] | None = None) -> int:
    """Write both files and print what was added (names, never values)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--env-file", type=Path, default=ROOT / ".env", help="default: .env of the repository")
    parser.add_argument(
        "--secrets-file",
        type=Path,
        default=ROOT / "var" / "secrets" / "executor.json",
        help="default: var/secrets/executor.json",
    )
    parser.add_argument(
        "--model", choices=sorted(CONSTRAINTS), help="plan with the language model, on the CPU (llm) or a GPU (gpu)"
    )
    parser.add_argument("--pin-images", action="store_true", help="pin third-party images to the digests in images.env")
    arguments = parser.parse_args(argv)
    try:
        env, added = complete_env(arguments.env_file, arguments.model, pin_images=arguments.pin_images)
        write_secrets(arguments.secrets_file, executor_secrets(env))
        # For Prometheus, which reads no variables. Same mode and same private folder as the executor's secrets.
        _write(arguments.secrets_file.with_name("metrics.token"), env["NESTOR_METRICS_TOKEN"], mode=0o644)
    except (OSError, ValueError) as error:
        print(f"make_env: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.env_file}: {'wrote ' + ', '.join(added) if added else 'complete, kept as it is'}")
    print(f"{arguments.secrets_file}: written")
    if arguments.model and serves_own_model(arguments.model, env):
        suits = form_of_adapter(env)
        kept = [name for name, value in read_env(PROFILE).items() if env.get(name) == value != suits.get(name)]
        if kept:
            print(f"{arguments.env_file}: these lines suit the model that ships, not yours: {', '.join(kept)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
