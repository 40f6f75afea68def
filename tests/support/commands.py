"""Runs a command of ``nestor`` as a user would."""

from typer.testing import CliRunner

from deploy.cli import app


def run(*arguments: str, exit_code: int = 0, answers: str | None = None) -> str:
    """What the command prints.

    Args:
        arguments: of the command.
        exit_code: the status that it must end with.
        answers: what is typed where it asks.
    """
    result = CliRunner().invoke(app, arguments, input=answers)
    assert result.exit_code == exit_code, result.output
    return result.output
