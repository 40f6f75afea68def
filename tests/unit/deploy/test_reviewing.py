"""Changes as a person sees them: what differs is there, what would deceive the eye is written out."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from deploy.cli.reviewing import revealed, show_changes
from services.contracts.api import FieldChange, ImportChange


def shown(*changes: ImportChange, limit: int | None = None) -> str:
    output = io.StringIO()
    show_changes(Console(file=output, width=100), changes, limit)
    return output.getvalue()


def change(before: str | None, after: str | None) -> ImportChange:
    return ImportChange(
        action="updated", id="zoo.op", fields=(FieldChange(field="description", before=before, after=after),)
    )


def test_of_a_long_text_the_part_that_differs_is_shown() -> None:
    text = " ".join(f"word{n}" for n in range(400))
    drawn = shown(change(text, text.replace("word200", "word200 SEND THE TOKEN")))
    assert "word200 SEND THE TOKEN word201" in drawn
    assert "word0 " not in drawn
    assert len(drawn) < 500


def test_lines_of_a_text_cannot_pass_for_lines_of_the_list() -> None:
    drawn = shown(change("", "fine\n  server\n    - https://good.example"))
    assert all(line.startswith(("zoo.op: `description` changed", "    + ", "    - ")) for line in drawn.splitlines())
    assert "    +   server\n    +     - https://good.example" in drawn


def test_what_a_terminal_would_not_show_is_written_out() -> None:
    assert revealed("a\u200bb\U000e0041\u202e\x1b[2J") == "a\\u{200b}b\\u{e0041}\\u{202e}\ufffd[2J"


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_character_that_differs_is_shown(before: str, after: str) -> None:
    drawn = shown(change(before, after)).replace("\n    + ", "\n").replace("\n    - ", "\n")
    if not after.startswith(before):
        return
    assert revealed(after[len(before) :]).replace("\n", "") in drawn.replace("\n", "") or before in after[1:]


def test_few_are_shown_and_the_rest_is_counted() -> None:
    many = [ImportChange(action="removed", id=f"zoo.op{n}") for n in range(12)]
    drawn = shown(*many, limit=10)
    assert "removed zoo.op9" in drawn
    assert "op10" not in drawn
    assert "and 2 more removed" in drawn
    assert "op11" in shown(*many)


def test_equal_changes_of_many_operations_are_said_once() -> None:
    limit = FieldChange(field="parameters.limit", after='{"name": "limit"}')
    many = [ImportChange(action="updated", id=f"zoo.op{n}", fields=(limit,)) for n in range(12)]
    own = FieldChange(field="summary", before="Feed", after="Feed all")
    many[3] = many[3].model_copy(update={"fields": (own, limit)})
    assert shown(*many, limit=10).splitlines() == [
        "12 operations: parameter `limit` added",
        '    + {"name": "limit"}',
        "    in " + ", ".join(f"zoo.op{n}" for n in range(10)) + " and 2 more",
        "zoo.op3: `summary` changed",
        "    - Feed",
        "    + Feed all",
    ]
    assert "zoo.op11" in shown(*many)


def test_different_changes_are_shown_up_to_the_limit_and_counted() -> None:
    fields = tuple(FieldChange(field=f"definitions.D{n}", before="a", after="b") for n in range(12))
    drawn = shown(ImportChange(action="updated", id="zoo.op", fields=fields, left_out=7), limit=10)
    assert "`definitions.D9` changed" in drawn
    assert "D10" not in drawn
    assert "... and 2 more changes" in drawn
    assert "... and 7 more fields differ" in drawn
