"""Runs a command of ``nestor`` as a user would."""

from typer.testing import CliRunner

from deploy.cli import app


def run(*arguments: str, exit_code: int = 0, answers: str | None = None) -> str:
    """Run a command and return its output.

    Args:
        arguments: the command's arguments.
        exit_code: the expected exit status.
        answers: the input for its prompts.
    """
    result = CliRunner().invoke(app, arguments, input=answers)
    assert result.exit_code == exit_code, result.output
    return result.output
