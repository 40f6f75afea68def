"""Grafana's boards, generated from a list of panels by ``make docs``.

A panel takes one line here, and forty lines in Grafana's JSON. Queries are PromQL over the services' ``/metrics``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

_SOURCE: Final[dict[str, JsonValue]] = {"type": "prometheus", "uid": "nestor"}
_WIDTH: Final = 24
_HEIGHT: Final = 7


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart over time.

    Attributes:
        title: what it shows.
        query: PromQL.
        legend: of each line; labels are in double braces.
        unit: Grafana's name of the unit: ``s``, ``reqps``, ``short``, ``percentunit``, ``bytes``.
    """

    title: str
    query: str
    legend: str = ""
    unit: str = "short"


@dataclass(frozen=True, slots=True)
class Board:
    """A page of panels, two in a row.

    Attributes:
        name: the file name, also used in the board's address.
        title: the displayed title.
        panels: from top left to bottom right.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{where}}}[5m]))" if where else f"sum by ({by}) (rate({metric}[5m]))"


def _quantile(share: float, metric: str, by: str = "", where: str = "") -> str:
    labels = ", ".join(filter(None, ("le", by)))
    chosen = f"{{{where}}}" if where else ""
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{chosen}[5m])))"


BOARDS: Final = (
    Board(
        "nestor-services",
        "Nestor: services",
        (
            Panel("Requests", _rate("nestor_http_requests_total", "service"), "{{service}}", "reqps"),
            Panel(
                "Answers with a server error",
                _rate("nestor_http_requests_total", "service", 'status=~"5.."'),
                "{{service}}",
                "reqps",
            ),
            Panel(
                "Refused requests",
                _rate("nestor_http_requests_total", "service, status", 'status=~"4.."'),
                "{{service}} {{status}}",
                "reqps",
            ),
            Panel("Duration, 95 of 100", _quantile(0.95, "nestor_http_request_seconds", "service"), "{{service}}", "s"),
            Panel("Requests being served", "sum by (service) (nestor_http_in_flight)", "{{service}}"),
            Panel("Memory", "process_resident_memory_bytes", "{{instance}}", "bytes"),
            Panel("Processor cores in use", "rate(process_cpu_seconds_total[5m])", "{{instance}}"),
            Panel("Open files", "process_open_fds", "{{instance}}"),
            Panel("Spans", _rate("nestor_spans_total", "outcome"), "{{outcome}}", "reqps"),
        ),
    ),
    Board(
        "nestor-runs",
        "Nestor: runs",
        (
            Panel("Runs by how they end", _rate("nestor_runs_total", "status"), "{{status}}", "reqps"),
            Panel("Runs under way", "sum(nestor_runs_active)", "runs"),
            Panel("Part of a request, half", _quantile(0.5, "nestor_solve_part_seconds", "part"), "{{part}}", "s"),
            Panel(
                "Part of a request, 95 of 100", _quantile(0.95, "nestor_solve_part_seconds", "part"), "{{part}}", "s"
            ),
            Panel("Verdicts of people", _rate("nestor_run_feedback_total", "verdict"), "{{verdict}}", "reqps"),
            Panel("Sentences of answers", _rate("nestor_sentences_total", "outcome"), "{{outcome}}", "reqps"),
            Panel("Open streams of events", "sum(nestor_run_followers)", "streams"),
            Panel(
                "Runs taken over",
                "sum(increase(nestor_runs_recovered_total[5m])) + "
                "sum(increase(nestor_executions_taken_over_total[5m]))",
                "runs",
            ),
        ),
    ),
    Board(
        "nestor-planning",
        "Nestor: retrieval and planning",
        (
            Panel(
                "Plans by planner and outcome", _rate("nestor_plans_total", "backend, status"), "{{backend}} {{status}}"
            ),
            Panel(
                "How likely plans are right, as the judge sees it",
                _quantile(0.5, "nestor_planner_judged"),
                "half",
                "percentunit",
            ),
            Panel("Plans withheld as unlikely", _rate("nestor_planner_abstained_total", "backend"), "{{backend}}"),
            Panel(
                "The next planner was asked",
                _rate("nestor_planner_fallbacks_total", "backend, reason"),
                "{{backend}}: {{reason}}",
            ),
            Panel("Planned again with what came back", _rate("nestor_evidence_rounds_total", "outcome"), "{{outcome}}"),
            Panel("Calls that brought nothing", _rate("nestor_evidence_attempts_total", "outcome"), "{{outcome}}"),
            Panel("Tokens of the language model", _rate("nestor_planner_model_tokens_total", "kind"), "{{kind}}"),
            Panel(
                "Completions of the language model",
                _rate("nestor_planner_model_answers_total", "outcome"),
                "{{outcome}}",
            ),
            Panel("A completion, 95 of 100", _quantile(0.95, "nestor_planner_model_seconds"), "seconds", "s"),
            Panel(
                "Searches, 95 of 100",
                _quantile(0.95, "nestor_http_request_seconds", where='service="retriever_svc"'),
                "seconds",
                "s",
            ),
            Panel("APIs in the catalogue", "max(nestor_catalogue_apis)", "APIs"),
            Panel("Demos in the knowledge base", "max(nestor_demos)", "demos"),
        ),
    ),
    Board(
        "nestor-execution",
        "Nestor: execution",
        (
            Panel("Steps by outcome", _rate("nestor_steps_total", "outcome"), "{{outcome}}", "reqps"),
            Panel(
                "Steps that failed, by vendor",
                _rate("nestor_steps_total", "provider", 'outcome!="succeeded"'),
                "{{provider}}",
            ),
            Panel(
                "Duration of calls, 95 of 100", _quantile(0.95, "nestor_step_seconds", "provider"), "{{provider}}", "s"
            ),
            Panel("Calls sent", _rate("nestor_step_attempts_total", "provider"), "{{provider}}", "reqps"),
            Panel("Retries and circuit breakers", _rate("nestor_upstream_events_total", "event"), "{{event}}"),
            Panel("Runs being executed", "sum(nestor_executions_active)", "runs"),
        ),
    ),
)


def board_json(board: Board) -> str:
    """The board as Grafana reads it."""
    panels: list[JsonValue] = [_panel(number, panel) for number, panel in enumerate(board.panels)]
    page: dict[str, JsonValue] = {
        "uid": board.name,
        "title": board.title,
        "tags": ["nestor"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["nestor"], "title": "Boards", "asDropdown": False}],
        "panels": panels,
    }
    return json.dumps(page, indent=1) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, JsonValue]:
    width = _WIDTH // 2
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": number % 2 * width, "y": number // 2 * _HEIGHT, "w": width, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "expr": panel.query, "legendFormat": panel.legend, "datasource": _SOURCE}],
    }
