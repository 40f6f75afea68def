"""The sandbox's training data contains all dev questions and none of the held-out ones."""

from pathlib import Path

from evals.data import read_all
from tests.e2e.questions import read_questions
from tests.e2e.recorded import main
from training.planner.align import Aligner
from training.planner.examples import Ref, Unstated, check, labels


def test_the_folder_holds_the_demos_and_the_questions_that_are_developed_on(tmp_path: Path) -> None:
    main(tmp_path)
    found = read_all(tmp_path)
    held_out = {question["query"] for question in read_questions("heldout")}
    queries = {instance.query for instance in found.instances}
    assert not queries & held_out
    assert {q["query"] for q in read_questions("dev") if q["status"] != "needs_input"} < queries
    aligner = Aligner({api.id: api for api in found.apis}, "sandbox")
    items = []
    for instance in found.instances:
        example = aligner.align(instance)
        assert example is not None
        check(example)
        said = [value for call in instance.calls for value in call.args.values() if isinstance(value, str)]
        assert not any(value.startswith("{") for value in said)
        items += [item for _, _, item in labels(example)]
    assert sum(isinstance(item, Ref) for item in items) > 80
    assert sum(isinstance(item, Unstated) for item in items) < 0.05 * len(items)
