"""The texts an API is found by. Their fields were chosen on development data (docs/retrieval.md)."""

from __future__ import annotations

import hashlib

from retriever_svc.engine.fields import input_lines, is_open, output_words, response_fields
from retriever_svc.engine.identity import content_key, operation_key, revision
from retriever_svc.models import Record
from services.contracts.api import Api
from services.words import spaced, words

_DESCRIPTION = 600
_FIELD = 100
_OUTPUTS = 30
_MAX_WORDS = 400


def record(api: Api, document_version: str = "") -> Record:
    """An API with its texts, ready to be stored."""
    embedded = embedding_text(api)
    digest = hashlib.sha256(embedded.encode("utf-8", "replace")).hexdigest()
    return Record(
        api=api,
        embedded=embedded,
        text_hash=digest,
        lexical=" ".join(words(lexical_text(api))[:_MAX_WORDS]),
        inputs=input_lines(api),
        outputs=output_words(api),
        open=is_open(api),
        operation_key=operation_key(api),
        content_key=content_key(api),
        revision=revision(api, document_version),
    )


def embedding_text(api: Api) -> str:
    """The text for the encoder: provider, name, description, and the words of the parameters and the path."""
    names = " ".join(spaced(parameter.name) for parameter in api.parameters)
    return f"{spaced(api.provider)} {spaced(api.name)}. {_prose(api)} {names} {spaced(api.path)}".strip()


def lexical_text(api: Api) -> str:
    """The text for word search: the same, with method, tags, descriptions of parameters, and names of outputs."""
    parts = [embedding_text(api), api.method, *map(spaced, api.tags)]
    parts += [parameter.description[:_FIELD] for parameter in api.parameters]
    parts += [spaced(name) for name, _ in response_fields(api)[:_OUTPUTS]]
    return " ".join(parts)


def _prose(api: Api) -> str:
    summary, description = api.summary.strip(), api.description[:_DESCRIPTION].strip()
    return description if description.startswith(summary) else f"{summary.rstrip('.')}. {description}"
