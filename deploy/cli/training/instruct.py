"""``nestor train instruct``: lets a language model generate requests."""

import os
from pathlib import Path
from typing import Annotated

import httpx2
import typer
from pydantic import SecretStr

from deploy.cli.gateway import is_header_text
from deploy.cli.training.needs import require


def make_requests(
    model: Annotated[
        str, typer.Option(help="Base URL of any OpenAI-compatible server, e.g. http://localhost:8080/v1.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write to, or to resume in.", file_okay=False)],
    name: Annotated[str, typer.Option(help="The model's name at that server.")] = "default",
    key_env: Annotated[
        str | None, typer.Option(help="The environment variable that holds the server's API key, if it needs one.")
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Folder with tools.jsonl and instances.jsonl, which may be empty: requests are made for these APIs.",
            file_okay=False,
        ),
    ] = None,
    fields: Annotated[int, typer.Option(min=1, max=1_000, help="Number of fields.")] = 20,
    subfields: Annotated[int, typer.Option(min=1, max=100, help="Number of subfields per field.")] = 5,
    tools: Annotated[int, typer.Option(min=1, max=100, help="Number of tools per subfield.")] = 4,
    single: Annotated[int, typer.Option(min=0, help="Number of requests that one call solves.")] = 400,
    multiple: Annotated[int, typer.Option(min=0, help="Number of requests that need several tools.")] = 300,
    nested: Annotated[
        int, typer.Option(min=0, help="Number of requests where a call uses another one's output.")
    ] = 300,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Concurrent questions to the model.")] = 4,
    max_tokens: Annotated[int, typer.Option(min=64, max=65_536, help="Maximum tokens of an answer.")] = 2_048,
    max_tokens_total: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum tokens of all questions and answers over all sessions. [no limit]"),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=3_600, help="Time limit of an answer, in seconds.")] = 300.0,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0: always the likeliest answer.")] = 0.8,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 7,
) -> None:
    """Let a language model generate tools, and requests with their calls (self-instruct, as Seal-Tools' section 3).

    The output is checked, counted and written as a folder that `nestor eval plan` and `nestor train data` read. If the
    command is killed, run it again to resume; with larger numbers it generates more.
    """
    address, key = _address(model), _key(key_env)
    require(())
    from services.clients.chat import Patience, open_chat
    from training.instruct.asking import Terms
    from training.instruct.command import instruct
    from training.instruct.making import Wanted

    chat = open_chat(address, name, key=key, temperature=temperature, patience=Patience(timeout, min(timeout, 60.0)))
    wanted = Wanted(
        fields=fields, subfields=subfields, tools=tools, single=single, multiple=multiple, nested=nested, seed=seed
    )
    terms = Terms(concurrency=concurrency, max_tokens=max_tokens, timeout_s=timeout, budget=max_tokens_total)
    raise typer.Exit(instruct(chat, out, wanted, terms, catalogue))


def _address(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        parsed = None
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host:
        raise typer.BadParameter("it is not an http or https URL", param_hint="--model")
    return url


def _key(variable: str | None) -> SecretStr | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not is_header_text(key):
        raise typer.BadParameter(f"{variable} is not set, or is not printable ASCII", param_hint="--key-env")
    return SecretStr(key)
