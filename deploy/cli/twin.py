"""``nestor twin``: a mock server that behaves as an API document describes, for dry runs, demos and tests."""

import json
import secrets
import shlex
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import orjson
import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from deploy.cli.bundling import Unreadable, warn_all
from deploy.cli.gateway import EXIT_PROBLEM, is_header_text
from deploy.cli.sources import find_sources
from deploy.drawing import counted, visible
from services.errors import InvalidDocument

_ITEMS: TypeAdapter[dict[str, dict[str, JsonValue]]] = TypeAdapter(dict[str, dict[str, JsonValue]])
_SHORTEST = 8


def twin(
    document: Annotated[str, typer.Argument(help="File or URL of the document, or `-` for standard input.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 8095,
    seed: Annotated[int, typer.Option(help="Random seed of generated values, such as ids.")] = 0,
    token: Annotated[
        str | None, typer.Option(help="Key, password or secret that callers must send. [a random one]")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help='JSON file of initial items: `{"/pets/7": {"name": "Rex"}}`.', dir_okay=False)
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Name of the provider. Default: the document's title.")] = None,
) -> None:
    """Serve a twin (a mock) of a service, generated from its document. It stores created items. Ctrl-C stops it."""
    from deploy.sockets import address, listen, serving  # these are imported here to keep the command line fast
    from retriever_svc.importers import Limits, import_document
    from retriever_svc.importers.reading import read_document
    from twin.access import TOKEN_PATH, with_token_url
    from twin.main import DOCUMENT_PATH, create_app
    from twin.service import Twin

    shown = token or secrets.token_urlsafe(18)
    if not is_header_text(shown) or len(shown) < _SHORTEST:
        raise typer.BadParameter(f"the token must be printable ASCII of at least {_SHORTEST} characters")
    try:
        bound = listen("127.0.0.1", port)
    except OSError as error:
        raise _failure(f"cannot listen: {error.strerror}") from None
    with bound:
        url = f"http://{address(bound)}"
        try:
            text = find_sources([document], provider)[0].read()
            repeated = list[str]()
            root = read_document(text, Limits(), repeated.append)
            warn_all(repeated)
            moved = with_token_url(root, url + TOKEN_PATH)
            text = text if moved == root else orjson.dumps(moved).decode()
            imported = import_document(text, provider, url)
            made = Twin(imported.apis, shown, seed)
            for path, fields in _read_items(items).items():
                if not made.preset(path, fields):
                    raise _failure(f"no operation of the document is for an item at {path}")
        except (Unreadable, InvalidDocument, IndexError) as error:
            why = getattr(error, "detail", "") or str(error) or "it contains no document"
            raise _failure(f"{document}: {why}") from None
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        with serving(create_app(made, text), bound=bound):
            served = counted(len(imported.apis)) + (f", {len(imported.skipped)} skipped" * bool(imported.skipped))
            typer.echo(f"A twin of {imported.provider} answers on {url} ({served}). To let Nestor call it:\n")
            for line in _lines(
                imported.provider, address(bound), url + DOCUMENT_PATH, made.access.secrets(address(bound))
            ):
                typer.echo(f"  {line}")
            typer.echo("")
            stop.wait()


def _lines(provider: str, host: str, document: str, known: Mapping[str, JsonValue]) -> list[str]:
    """The commands to type: the allowed host, the credentials, and the import."""
    lines = [f"export NESTOR_EXECUTOR_ALLOWED_PRIVATE_HOSTS={shlex.quote(json.dumps([host]))}"]
    if known:
        lines.append(f"export NESTOR_EXECUTOR_SECRETS={shlex.quote(json.dumps(known))}")
    return [*lines, "nestor serve", f"nestor import {document} --provider {provider} --server http://{host}"]


def _read_items(file: Path | None) -> dict[str, dict[str, JsonValue]]:
    """The items of a file by path. Exits if they cannot be read."""
    try:
        return {} if file is None else _ITEMS.validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise _failure(f"{file} is not a JSON object of items by path: {type(error).__name__}") from None


def _failure(why: str) -> typer.Exit:
    typer.echo(visible(why), err=True)
    return typer.Exit(EXIT_PROBLEM)
