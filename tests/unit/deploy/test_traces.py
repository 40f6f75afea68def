"""Whatever a collector does, spans are lost and counted, and nothing else: no request waits, and the process ends."""

import threading
from collections.abc import Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from starlette.types import Scope

from deploy import otlp
from deploy.sockets import refusing
from deploy.traces import sending_traces
from services.tracing import SPANS, continued, inject, peer_span, request_span, span, trace_id, traceparent
from tests.support.otlp import Collector, collecting
from tests.support.spans import GIVEN, TRACE, Made, making_spans

Answer = Callable[[BaseHTTPRequestHandler], None]


def scope(*traceparents: str) -> Scope:
    headers = [(b"traceparent", one.encode("latin-1")) for one in traceparents]
    return {"type": "http", "method": "GET", "path": "/", "headers": headers}


def counted(outcome: str) -> float:
    samples = (sample for family in SPANS.collect() for sample in family.samples)
    return next(one.value for one in samples if one.name == "nestor_spans_total" and one.labels["outcome"] == outcome)


def lost() -> float:
    return counted("dropped") + counted("failed")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
        yield found


@pytest.fixture
def made() -> Iterator[Made]:
    with making_spans() as found:
        yield found


def make(count: int) -> None:
    for _ in range(count):
        with request_span("gateway", scope()):
            pass


def flooding(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(1_000_000):
        request.wfile.write(b"x" * 65_536)


def redirecting(request: BaseHTTPRequestHandler) -> None:
    request.send_response(307)
    request.send_header("Location", f"http://{request.headers['Host']}/elsewhere")
    request.send_header("Content-Length", "0")
    request.end_headers()


def putting_off(request: BaseHTTPRequestHandler) -> None:
    request.send_response(503)
    request.send_header("Retry-After", "999999999")
    request.send_header("Content-Length", "0")
    request.end_headers()


def talking_nonsense(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"\xff\x00" * 1_000 + b"\r\n\r\n")
    request.close_connection = True


@pytest.mark.parametrize("answer", [redirecting, putting_off, talking_nonsense])
def test_what_a_hostile_collector_does_not_take_is_counted(collector: Collector, answer: Answer) -> None:
    collector.answer = answer
    before, exported = lost(), counted("exported")
    with sending_traces():
        make(5)
    assert lost() == before + 5
    assert counted("exported") == exported
    assert collector.bodies


def test_of_an_endless_answer_nothing_is_read(collector: Collector) -> None:
    collector.answer = flooding
    exported = counted("exported")
    with sending_traces():
        make(5)
    assert counted("exported") == exported + 5


def test_a_collector_that_hangs_costs_spans_and_no_more(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def hanging(_request: BaseHTTPRequestHandler) -> None:
        asked.set()
        collector.going.wait()

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    monkeypatch.setattr(otlp, "_SHUTDOWN_S", 0.1)
    collector.answer = hanging
    before = counted("dropped")
    with sending_traces():
        make(1)
        assert asked.wait(60)
        make(50)  # 20 of which find room
        assert counted("dropped") == before + 30
    assert trace_id() == ""


def test_a_collector_that_is_down_costs_spans_and_no_more(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lost()
    with refusing() as nobody:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", nobody)
        with sending_traces():
            make(5)
    assert lost() == before + 5


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1"),
    ],
)
def test_without_a_usable_setting_there_are_no_spans(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with sending_traces(), request_span("gateway", scope(GIVEN)) as current:
        assert not current.is_recording()
        assert traceparent() is None
    assert not collector.bodies


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("",),
        ("00-" + "0" * 32 + "-b7ad6b7169203331-01",),
        (GIVEN + "-more",),
        (GIVEN.upper(),),
        (GIVEN, GIVEN.replace("b7ad", "b7ae")),
        ("ff" + GIVEN[2:],),
        ("\xff" * 60,),
        ("01-" + GIVEN[3:] + "-" + "x" * 600,),
    ],
)
def test_a_trace_that_cannot_be_gone_on_with_is_begun_anew(made: Made, given: tuple[str, ...]) -> None:
    with request_span("gateway", scope(*given)):
        assert trace_id() not in ("", TRACE)
    assert made.all[0].parent is None


def test_a_trace_goes_on_with_what_was_stored(made: Made) -> None:
    with continued("executor_svc", GIVEN), span("execution"):
        assert trace_id() == TRACE
    assert trace_id() == ""
    with continued("executor_svc", None), span("execution") as current:
        assert not current.is_recording()  # of nobody's request
    assert len(made.all) == 1


def test_an_error_is_told_by_its_type_alone(made: Made) -> None:
    with pytest.raises(ValueError, match="secret"), request_span("gateway", scope()), span("part"):
        raise ValueError("secret")
    for one in made.all:
        assert one.attributes is not None
        assert one.attributes["error.type"] == "ValueError"
        assert not one.events
        assert "secret" not in one.to_json()


def test_a_generator_that_is_left_ends_its_span_and_leaves_the_present_one_alone(made: Made) -> None:
    def read() -> Generator[int, None, None]:
        headers = dict[str, str]()
        with peer_span("executor_svc", "POST", headers):
            assert TRACE in headers["traceparent"]
            yield 1
            yield 2

    with request_span("gateway", scope(GIVEN)):
        present = traceparent()
        reading = read()
        next(reading)
        assert traceparent() == present
        reading.close()
        assert traceparent() == present
    left = next(one for one in made.all if one.name == "POST executor_svc")
    assert left.status.is_unset


def test_without_traces_headers_stay_as_they_are() -> None:
    headers = dict[str, str]()
    with request_span("gateway", scope(GIVEN)), peer_span("executor_svc", "POST", headers):
        inject(headers)
    assert not headers
