"""docker-compose.yml: two containers reach each other if, and only if, they share a network. Limits fit each other."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from executor_svc.settings import ExecutorSettings

FILE = Path(__file__).parents[3] / "docker-compose.yml"
INTERNAL = ("retriever_svc", "demo_svc", "planner_svc", "executor_svc")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    return document


def reached(compose: dict[str, Any], service: str) -> set[str]:
    """The other services that share a network with this one."""
    services = compose["services"]
    own = set(services[service]["networks"])
    return {name for name, other in services.items() if name != service and own & set(other["networks"])}


def ways_out(compose: dict[str, Any], service: str) -> set[str]:
    networks = compose["networks"]
    return {name for name in compose["services"][service]["networks"] if not networks[name].get("internal", False)}


def test_the_sandbox_reaches_nobody_but_its_door(compose: dict[str, Any]) -> None:
    assert reached(compose, "sandbox") == {"sandbox_proxy"}
    assert not ways_out(compose, "sandbox")
    proxy = compose["services"]["sandbox_proxy"]
    assert proxy["networks"]["upstream"]["aliases"] == ["sandbox"]  # the name under which its credentials may be sent
    inside = compose["services"]["sandbox"]["networks"]["estate"]["aliases"]
    assert proxy["command"][1] in {f"{name}:8000" for name in inside}


def test_only_the_gateway_and_the_boards_are_published(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert set(published) == {"gateway", "grafana"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_databases_are_reached_by_who_needs_them(compose: dict[str, Any]) -> None:
    assert reached(compose, "postgres") == {"gateway", "retriever_svc", "demo_svc", "executor_svc"}
    assert reached(compose, "redis") == {"retriever_svc"}
    assert not ways_out(compose, "postgres") | ways_out(compose, "redis")


def test_only_who_calls_the_world_can_reach_it(compose: dict[str, Any]) -> None:
    for name in ("retriever_svc", "demo_svc", "planner_svc", "llm"):
        assert not ways_out(compose, name)
    assert ways_out(compose, "executor_svc") == {"upstream"}
    assert all(reached(compose, model) == {"planner_svc"} | ({"llm", "gpu"} - {model}) for model in ("llm", "gpu"))


def test_every_network_is_used_and_declared(compose: dict[str, Any]) -> None:
    used = {name for service in compose["services"].values() for name in service["networks"]}
    assert used == set(compose["networks"])


def test_each_service_asks_the_gateway_for_a_token_of_its_own(compose: dict[str, Any]) -> None:
    services = compose["services"]
    held = {name: set() for name in services}  # type: dict[str, set[str]]
    for name, service in services.items():
        for value in (service.get("environment") or {}).values():
            text = str(value or "")
            if text.startswith("${NESTOR_") and ("SERVICE_TOKEN" in text or "PROOF_KEY" in text):
                held[name].add(text.removeprefix("${").partition(":")[0])
    own = {name: f"NESTOR_{name.removesuffix('_svc').upper()}_SERVICE_TOKEN" for name in INTERNAL}
    assert held["gateway"] == set(own.values())
    for name in INTERNAL:
        key = {"NESTOR_PROOF_KEY"} if name in ("planner_svc", "executor_svc") else set()
        assert held[name] == {own[name]} | key
    assert not any(held[name] for name in services if name not in {"gateway", *INTERNAL})


def test_the_executor_has_the_memory_that_it_gives_to_answers(compose: dict[str, Any]) -> None:
    """What it holds is estimated: an answer may take half as much again, and one in flight eight times its text."""
    executor, most = compose["services"]["executor_svc"], ExecutorSettings.model_fields
    assert not any(name.endswith("_BYTES") for name in executor["environment"])
    held, in_flight = most["max_held_bytes"].default, most["max_answers_bytes"].default
    assert int(executor["mem_limit"].removesuffix("m")) * 1024**2 > 1.5 * held + 8 * in_flight
