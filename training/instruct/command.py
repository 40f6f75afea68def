"""Implements ``nestor train instruct``."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

from rich.console import Console

from evals.data import DataError, read_all
from evals.recording import tool_row
from services.clients.chat import ChatClient, ChatError
from services.contracts.api import Api
from training.instruct.asking import Asker, Terms
from training.instruct.export import summary, write
from training.instruct.journal import Head, Journal
from training.instruct.making import Maker, Wanted, made_apis
from training.shared.runs import progress_on


def instruct(chat: ChatClient, out: Path, wanted: Wanted, terms: Terms, catalogue: Path | None) -> int:
    """Generate tools and requests, write them, and print the counts. Progress goes to standard error.

    Args:
        chat: the model; it is closed at the end.
        out: folder to write to; an existing run is continued.
        wanted: how much to generate.
        terms: how to ask the model.
        catalogue: folder of the APIs to generate requests for; None: tools are generated, too.

    Returns:
        The exit status: 0, or 1 if a folder cannot be used or the model's server does not work. In the latter case the
        results so far are written.
    """
    err = Console(stderr=True)
    status = 0
    try:
        given = None if catalogue is None else read_all(catalogue).apis
        with Journal(out, Head(model=chat.model, catalogue=_hash(given), seed=wanted.seed)) as journal:
            asker = Asker(chat, journal, terms)
            try:
                with progress_on(err) as progress:
                    asyncio.run(_make(chat, Maker(asker, journal, wanted, given, progress)))
            except ChatError as error:
                err.print(f"{error}; the same command goes on from here", markup=False, soft_wrap=True)
                status = 1
            apis = made_apis(journal) if given is None else given
            stats = write(out, chat.model, journal, wanted, apis, catalogue)
    except DataError as error:
        err.print(str(error), markup=False, soft_wrap=True)
        return 1
    except OSError as error:
        err.print(f"{out} cannot be written: {error.strerror}", markup=False, soft_wrap=True)
        return 1
    if asker.spent:
        err.print("stopped: another answer could take more tokens than --max-tokens-total allows", soft_wrap=True)
    print(summary(stats, out))
    return status


async def _make(chat: ChatClient, maker: Maker) -> None:
    try:
        await maker.make()
    finally:
        await chat.aclose()


def _hash(apis: tuple[Api, ...] | None) -> str | None:
    if apis is None:
        return None
    rows = "\n".join(json.dumps(tool_row(api), sort_keys=True) for api in apis)
    return hashlib.sha256(rows.encode()).hexdigest()
