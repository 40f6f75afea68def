"""What ``--explain`` writes."""

from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from deploy.explaining import draw_explanation
from services.contracts.run import Run, RunStatus
from services.contracts.trace import LookUp, ModelAttempt, PlannerAsked, PlannerTrace, PromptMessage

RUN = Run(id="run_1", status=RunStatus.PLANNED, query="q", created_at=datetime.now(UTC))


def drawn(run: Run) -> str:
    written = StringIO()
    draw_explanation(Console(file=written, width=100), run)
    return written.getvalue()


def test_everything_that_led_to_the_plan_is_shown() -> None:
    trace = PlannerTrace(
        model="some-model",
        prompt_version="7",
        prompt=(PromptMessage(role="system", content="APIs:\nfind(name)"), PromptMessage(role="user", content="Hi")),
        attempts=(
            ModelAttempt(output="{", reasoning="Hm.", problem="the answer breaks off", prompt_tokens=10, ms=5.4),
            ModelAttempt(output='{"calls":[]}', constraint="gbnf", completion_tokens=3, ms=4),
        ),
    )
    run = RUN.model_copy(
        update={
            "planners": (
                PlannerAsked(backend="served", outcome="garbage", stood=False, detail="It cannot be read.", ms=12.3),
                PlannerAsked(backend="compact", outcome="planned", stood=True, confidence=0.61, judged=0.4, ms=3),
            ),
            "lookups": (LookUp(asked=("list rooms",), added=("a.rooms",)), LookUp(asked=("fly",))),
            "traces": (trace, trace),
        }
    )
    text = drawn(run)
    for said in (
        "served: garbage, 12 ms. It cannot be read.",
        "compact: planned, 3 ms, confidence 0.61, judged 0.40",
        "looked up: list rooms -> a.rooms",
        "looked up: fly -> nothing new",
        "some-model, prompt version 7, request 2",
        "find(name)",
        "Hm.",
        "answer, 5 ms, 10 tokens in, constraint none",
        "answer, 4 ms, 3 tokens out, constraint gbnf",
        "✗ the answer breaks off",
        '{"calls":[]}',
    ):
        assert said in text, said


def test_texts_of_models_do_not_steer_the_terminal() -> None:
    trace = PlannerTrace(model="m\x1b[2J", prompt_version="1", attempts=(ModelAttempt(output="a\x1b]0;x\x07"),))
    text = drawn(RUN.model_copy(update={"traces": (trace,)}))
    assert "\x1b" not in text


def test_where_no_model_was_asked_it_says_so() -> None:
    assert "No language model was used." in drawn(RUN)
