"""llama.cpp's server with a tiny model: it computes what the files say, it ends when told, it is started again."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from pydantic import SecretStr

from deploy.llm.adapter import read_adapter
from deploy.llm.errors import ModelServerError
from deploy.llm.gguf_files import write_lora, write_merged
from deploy.llm.probe import gives_token
from deploy.llm.settings import LlmSettings
from deploy.llm.supervisor import ServerSupervisor, planning_model
from deploy.sockets import free_port, refusing
from planner_svc.backends.served.constraint import constrain
from tests.support.llama import VOCABULARY, TinyLlama, tiny_factors, tiny_llama, write_peft
from tests.unit.planner_svc.building import api, param, record

PROMPT = [3, 77, 12, 99, 45, 100, 17]
KEY = "a key of the test's own"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama().write(tmp_path_factory.mktemp("llm") / "base.gguf")


def of(model: Path, **given: Any) -> LlmSettings:
    return LlmSettings(**{"model": model, "port": 0, "threads": 1, "context": 512, **given})


@contextmanager
def supervised(settings: LlmSettings, **given: Any) -> Iterator[ServerSupervisor]:
    supervisor = ServerSupervisor(settings, **given)
    try:
        supervisor.wait_for_token(60)
        yield supervisor
    finally:
        supervisor.close()


def ask(url: str, path: str, body: object, key: str | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def log_probabilities(settings: LlmSettings) -> np.ndarray:
    asked = {"prompt": PROMPT, "n_predict": 1, "n_probs": VOCABULARY, "temperature": 0}
    with supervised(settings) as supervisor:
        _, answer = ask(supervisor.url, "/completion", asked)
    found = {entry["id"]: entry["logprob"] for entry in answer["completion_probabilities"][0]["top_logprobs"]}
    return np.array([found[token] for token in range(VOCABULARY)])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.05)


@pytest.mark.parametrize("form", ["merged", "lora"])
def test_the_server_computes_what_base_and_adapter_say(base: Path, tmp_path: Path, form: str) -> None:
    model, factors = tiny_llama(), tiny_factors()
    adapter = read_adapter(write_peft(tmp_path / "a", factors, 8))
    if form == "merged":
        write_merged(base, adapter, tmp_path / "merged.gguf", "F32")
        settings = of(tmp_path / "merged.gguf")
    else:
        write_lora(base, adapter, tmp_path / "lora.gguf")
        settings = of(base, lora=tmp_path / "lora.gguf")
    found = log_probabilities(settings)
    wanted, before = (one.log_probabilities(PROMPT) for one in (model.changed(factors, 2.0), model))
    assert np.abs(found - wanted).max() < 0.05  # keys and values are kept as float16
    assert np.abs(found - before).max() > 5, "the adapter changes what is said"


def test_the_order_of_rows_is_what_makes_it_right(tmp_path: Path) -> None:
    """Were query and key rows left as transformers has them, the answers would differ far more than by rounding."""
    model = tiny_llama()
    wrong = TinyLlama(
        {name: w[::-1].copy() if "q_proj" in name else w for name, w in model.weights.items()}, model.embedding
    )
    found = log_probabilities(of(model.write(tmp_path / "base.gguf")))
    assert np.abs(found - model.log_probabilities(PROMPT)).max() < 0.05
    assert np.abs(found - wrong.log_probabilities(PROMPT)).max() > 1


def test_a_schema_is_obeyed_and_a_key_is_wanted(base: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    body = {
        "model": "nestor-planner", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 60, "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "plan", "schema": schema}},
    }  # fmt: skip
    with supervised(of(base, api_key=KEY)) as supervisor:
        status, answer = ask(supervisor.url, "/v1/chat/completions", body, KEY)
        assert (status, json.loads(answer["choices"][0]["message"]["content"])["a"] in ("x", "y")) == (200, True)
        for wrong in (None, "another"):
            assert ask(supervisor.url, "/v1/chat/completions", body, wrong)[0] == 401
        assert gives_token(supervisor.url, "nestor-planner", KEY) is None
        assert gives_token(supervisor.url, "nestor-planner") == "it answered with status 401"


def test_the_references_of_a_plan_are_obeyed(base: Path) -> None:
    """A model that writes at random refers to fields that exist."""
    stops = {"type": "array", "items": record(city={"type": "integer"}, **{"zip+4 (us)": {"type": "integer"}})}
    find = api("find", param("id", {"type": "integer"}), returns=record(stops=stops, code={"type": "integer"}))
    plan: Any = constrain([find], {find.id: "find"}, calls_only=True).schema

    def body(schema: Any, **given: Any) -> Any:
        form = {"type": "json_schema", "json_schema": {"name": "plan", "schema": schema}}
        return {"messages": [{"role": "user", "content": "Hi"}], "response_format": form, **given}

    written = set()
    with supervised(of(base)) as supervisor:
        status, answer = ask(supervisor.url, "/v1/chat/completions", body(plan, max_tokens=4))
        assert status == 200, answer
        assert answer["choices"][0]["message"]["content"].strip()[:1] in ("", "{")
        for seed in range(12):
            reference = {"$defs": plan["$defs"], "$ref": "#/$defs/reference"}
            asked = body(reference, max_tokens=60, temperature=5, seed=seed)
            status, answer = ask(supervisor.url, "/v1/chat/completions", asked)
            assert status == 200, answer
            written.add(json.loads(answer["choices"][0]["message"]["content"]))
    fields = r"(\.code|\.stops(\[(\d{1,4}|\*)\](\.city|\.zip\+4 \(us\))?)?)?"
    assert len(written) > 3
    for one in written:
        assert re.fullmatch(rf"\$var[1-9][0-9]?{fields}\$", one), one


def test_a_server_that_dies_is_started_again_and_then_given_up(base: Path) -> None:
    with supervised(of(base), restarts=2, pause_s=0.05) as supervisor:
        seen = [supervisor.pid]
        for _ in range(2):
            os.kill(seen[-1], signal.SIGKILL)
            wait_until(lambda: supervisor.pid != seen[-1])
            seen.append(supervisor.pid)
            wait_until(lambda: gives_token(supervisor.url, "nestor-planner") is None)
        os.kill(seen[-1], signal.SIGKILL)
        time.sleep(1)
        assert supervisor.pid == seen[-1], "two restarts are all there are"
        assert (gives_token(supervisor.url, "nestor-planner") or "").startswith("no answer")
    assert len(set(seen)) == 3
    assert all(gone(pid) for pid in seen)


def test_the_server_ends_with_who_started_it(base: Path, tmp_path: Path) -> None:
    code = (
        "import os\nfrom deploy.llm.supervisor import ServerSupervisor\nfrom deploy.llm.settings import LlmSettings\n"
        "supervisor = ServerSupervisor(LlmSettings(port=0))\nsupervisor.wait_for_token(60)\n"
        "print(supervisor.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    environment = os.environ | {"NESTOR_LLM_MODEL": str(base), "NESTOR_LLM_THREADS": "1", "NESTOR_LLM_CONTEXT": "512"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=False
    )
    pid = int(done.stdout)  # nothing of the server stands there: it may be JSON that the command prints
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: gone(pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server(base: Path, number: signal.Signals) -> None:
    environment = os.environ | {"NESTOR_LLM_MODEL": str(base), "NESTOR_LLM_PORT": "0", "NESTOR_LLM_CONTEXT": "512"}
    line = [sys.executable, "-m", "deploy.llm.server"]
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert "is served on http://127.0.0.1:" in said
            process.send_signal(number)
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"NESTOR_LLM_MODEL": "nowhere.gguf"}, "make llm"),
        ({"NESTOR_LLM_MODEL": "cut.gguf"}, "cut.gguf is no GGUF file, or is cut off"),
        ({"NESTOR_LLM_LORA": "other.gguf"}, "does the LoRA belong to another model"),
        ({"NESTOR_LLM_HOST": "0.0.0.0"}, "needs NESTOR_LLM_API_KEY"),
        ({"NESTOR_LLM_CONTEXT": "lots"}, "NESTOR_LLM_CONTEXT"),
    ],
)
def test_a_server_that_cannot_start_says_why(base: Path, tmp_path: Path, given: dict[str, str], match: str) -> None:
    (tmp_path / "cut.gguf").write_bytes(base.read_bytes()[:50_000])
    other = tmp_path / "wide.gguf"
    adapter = read_adapter(
        write_peft(tmp_path / "a", {"model.layers.0.mlp.up_proj": tiny_factors()["model.layers.0.mlp.up_proj"]})
    )
    write_lora(base, adapter, other)
    # The same file under a name that the base has not: llama.cpp refuses it.
    (tmp_path / "other.gguf").write_bytes(other.read_bytes().replace(b"blk.0.ffn_up", b"blk.9.ffn_up"))
    environment = os.environ | {"NESTOR_LLM_MODEL": str(base), "NESTOR_LLM_PORT": "0"} | given
    done = subprocess.run(
        [sys.executable, "-m", "deploy.llm.server"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert match in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_does_not_start_is_not_waited_for(tmp_path: Path) -> None:
    supervisor = ServerSupervisor(of(tmp_path / "nowhere.gguf"))
    with pytest.raises(ModelServerError, match="ended with status 1"):
        supervisor.wait_for_token(60)
    supervisor.close()


def test_the_planner_is_told_where_its_model_is(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name, value in {"MODEL": str(base), "THREADS": "1", "CONTEXT": "512"}.items():
        monkeypatch.setitem(os.environ, f"NESTOR_LLM_{name}", value)
    monkeypatch.setitem(os.environ, "NESTOR_PLANNER_SERVED_CANDIDATES", "9")
    with planning_model() as url:
        told = {
            name: os.environ[f"NESTOR_PLANNER_SERVED_{name}"]
            for name in ("URL", "MODEL", "API_KEY", "CANDIDATES", "DETAIL")
        }
        assert (told["URL"], told["MODEL"], told["CANDIDATES"], told["DETAIL"]) == (
            f"{url}/v1",
            "nestor-planner",
            "9",
            "brief",
        )
        assert gives_token(url, told["MODEL"], told["API_KEY"]) is None
        assert gives_token(url, told["MODEL"]) is not None
    assert (gives_token(url, told["MODEL"]) or "").startswith("no answer")


def test_the_probe_says_what_came_instead_of_a_token() -> None:
    with refusing() as url:
        assert (gives_token(url, "x") or "").startswith("no answer")
    hanging = free_port()
    import socket

    with socket.create_server(("127.0.0.1", hanging)):
        began = time.monotonic()
        assert (gives_token(f"http://127.0.0.1:{hanging}", "x", timeout_s=0.3) or "").startswith("no answer")
        assert time.monotonic() - began < 5


def test_a_key_is_not_shown(base: Path) -> None:
    assert KEY not in repr(of(base, api_key=SecretStr(KEY)))
