"""What is learnt from the calls of a run that ended without any."""

from gateway.evidence import attempts_of, questions_of
from services.contracts.execution import ExecutionFinished
from tests.support.executing import api, compiled, ref, step


def test_a_run_that_was_not_continued_has_no_attempts() -> None:
    found, used = api("http://127.0.0.1:1", "/a", name="a"), api("http://127.0.0.1:1", "/b", name="b")
    plan = compiled([found, used], step("a", found), step("b", used, {"x": ref("a", "id")}))
    ended = ExecutionFinished(status="failed", records=(), problem="the run was not continued", duration_ms=0)
    assert attempts_of(plan, ended) == ()
    assert questions_of(plan, ended) == ()
