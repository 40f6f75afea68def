"""Runs a command of ``nestor`` as a user would, or imports a document."""

from typer.testing import CliRunner

from deploy.cli import app
from deploy.cli.gateway import ask
from services.clients import GatewayClient
from services.contracts.api import ImportReport, ImportRequest


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


def import_document(request: ImportRequest) -> ImportReport:
    """Import a document at the gateway that ``NESTOR_URL`` names. Returns its report."""

    async def imported(gateway: GatewayClient) -> ImportReport:
        report = [event async for event in gateway.import_apis(request)][-1]
        assert isinstance(report, ImportReport)
        return report

    return ask(imported)
