"""Files of examples. Each line is an example or an API; an API comes before the first example that uses it."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakValueDictionary

import orjson
from pydantic import TypeAdapter, ValidationError

from services.contracts.api import Api
from training.planner.examples import Example, InvalidExample

_ADAPTER = TypeAdapter(Example)
_APIS: WeakValueDictionary[bytes, Api] = WeakValueDictionary()
"""APIs in use, by their line's hash. All files of a catalogue have the same ones, and what is read of each is large."""


def write_examples(file: Path, examples: Iterable[Example]) -> int:
    """Write examples as they come, gzipped if the name ends in ``.gz``; return the number written.

    APIs are compared by identity: pass the same objects for the same APIs, or they are written again.
    """
    places: dict[int, tuple[int, Api]] = {}  # keeps the API alive, so that its id is not reused
    count = 0
    with _opened(file, "wb") as out:
        for example in examples:
            for api in example.candidates:
                if id(api) not in places:
                    places[id(api)] = (len(places), api)
                    out.write(b'{"api":' + api.model_dump_json(exclude_defaults=True).encode() + b"}\n")
            body = _ADAPTER.dump_python(example, mode="json", exclude={"candidates"}, exclude_none=False)
            body["candidates"] = [places[id(api)][0] for api in example.candidates]
            out.write(orjson.dumps(body) + b"\n")
            count += 1
    return count


def read_examples(file: Path) -> Iterator[Example]:
    """The examples of a file, in order. Examples share their APIs, also with those of other files.

    Raises:
        InvalidExample: a line is not valid; the message names it.
    """
    apis: list[Api] = []
    with _opened(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                body: Any = orjson.loads(line)
                if "api" in body:
                    apis.append(_shared(line, body["api"]))
                    continue
                body["candidates"] = [apis[index] for index in body["candidates"]]
                yield _ADAPTER.validate_python(body)
            except (orjson.JSONDecodeError, ValidationError, KeyError, IndexError, TypeError) as error:
                raise InvalidExample(f"{file.name}, line {number}: {error}") from None


def _shared(line: bytes, body: Any) -> Api:
    key = hashlib.sha256(line).digest()
    api = _APIS.get(key)
    if api is None:
        api = _APIS[key] = Api.model_validate(body)
    return api


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[IO[bytes]]:
    with gzip.open(file, mode, compresslevel=4) if file.suffix == ".gz" else file.open(mode) as opened:
        yield cast(IO[bytes], opened)
