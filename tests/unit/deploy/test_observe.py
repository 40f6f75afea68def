"""Boards and alerts ask for metrics that there are, and alerts point at a part of the runbook that there is."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from deploy.observe.boards import BOARDS
from deploy.onebox import OneboxSettings, create_onebox
from services.clients import InProcessTransport, open_http
from services.telemetry import MergedCollector

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "observe"
RULE_TESTS = Path(__file__).with_name("alerts_test.yml")
_METRIC = re.compile(r"\b(?:nestor|process)_[a-z_]+\b")
_LABELS = re.compile(r"(?P<metric>\w+)\{(?P<where>[^}]*)\}|by \((?P<by>[^)]*)\)")
_GIVEN = {"job", "instance", "le"}


def alerts() -> list[dict[str, str]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> Iterator[str]:
    yield from (panel.query for board in BOARDS for panel in board.panels)
    yield from (rule["expr"] for rule in alerts())


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What one process shows: the names of samples with their labels, which are known once something was counted."""
    app = create_onebox(OneboxSettings(tmp_path_factory.mktemp("data")))

    async def read() -> str:
        async with app.router.lifespan_context(app), open_http("http://localhost", InProcessTransport(app)) as http:
            await http.get("/healthz")
            return (await http.get("/metrics")).text

    text = asyncio.run(read())
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        for suffix in suffixes:
            found.setdefault(family.name + suffix, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_query_names_metrics_that_one_process_shows(samples: dict[str, set[str]]) -> None:
    for query in queries():
        for name in _METRIC.findall(query):
            assert name in samples, query


def test_where_labels_are_known_queries_ask_for_those(samples: dict[str, set[str]]) -> None:
    for query in queries():
        names = _METRIC.findall(query)
        known = set().union(*(samples[name] for name in names)) if names else set()
        if not known - {"le"}:
            continue  # nothing was counted yet, so that its labels are not shown
        for match in _LABELS.finditer(query):
            asked = match["by"].split(", ") if match["by"] else re.findall(r"(\w+)[=!]", match["where"])
            assert set(asked) <= known | _GIVEN, query


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_points_at_its_part_of_the_runbook(rule: dict[str, dict[str, str]]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_the_runbook_names_panels_that_there_are() -> None:
    titles = {panel.title for board in BOARDS for panel in board.panels}
    text = " ".join((ROOT / "docs" / "operations.md").read_text(encoding="utf-8").split())
    named = re.findall(r"(?<![*\w])\*([A-Z][^*]+)\*(?!\*)", text)
    assert named
    assert set(named) <= titles


@pytest.mark.parametrize("arguments", [("check", FOLDER / "alerts.yml"), ("test", RULE_TESTS)], ids=lambda one: one[0])
def test_prometheus_takes_the_alerts_and_they_fire_when_they_should(arguments: tuple[str, Path]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool (Debian: prometheus)")
    what, file = arguments
    done = subprocess.run([promtool, what, "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tried_where_it_should_fire_and_where_it_should_not() -> None:
    names = {rule["alert"] for rule in alerts()}
    well, broken = (
        {case["alertname"]: bool(case["exp_alerts"]) for case in system["alert_rule_test"]}
        for system in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]
    )
    assert well == dict.fromkeys(names, False)
    assert broken == dict.fromkeys(names, True)


def test_the_series_of_the_rule_tests_are_there(samples: dict[str, set[str]]) -> None:
    systems = yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]
    series = {one["series"].partition("{")[0] for system in systems for one in system["input_series"]}
    assert series - {"up"} <= samples.keys()


def test_samples_of_one_name_stand_together_and_none_is_there_twice() -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    for registry, service in ((one, "a"), (other, "b")):
        Counter("asked", "Requests.", ["service"], registry=registry).labels(service).inc()
        Counter("same", "The same everywhere.", registry=registry).inc()
    whole = CollectorRegistry()
    whole.register(MergedCollector([one, other]))
    text = generate_latest(whole).decode()
    assert text.count("# TYPE asked_total counter") == 1
    assert 'asked_total{service="a"} 1.0\nasked_total{service="b"} 1.0' in text
    assert text.count("same_total 1.0") == 1
