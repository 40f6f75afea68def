"""Hard negatives: documents that the retriever in service ranks high for a request although they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from training.retriever.examples import Document, Request

Search = Callable[[str], list[str]]
"""Ids of the documents found for a query, best first."""

Negatives = Mapping[frozenset[str], tuple[str, ...]]
"""Maps the right documents to some wrong ones."""


def mine(requests: Iterable[Request], documents: Mapping[str, Document], search: Search, keep: int) -> Negatives:
    """By the documents that a request needs, the best-ranked other ones, without equivalents of needed ones.

    Args:
        requests: the requests to search for.
        documents: those that may be trained on, by id.
        search: the retriever.
        keep: maximum number per request.
    """
    mined: dict[frozenset[str], dict[str, None]] = {}
    for request in requests:
        twins = {documents[one].twin for one in request.documents}
        found = [one for one in search(request.query) if one in documents]
        wrong = [one for one in found if documents[one].twin not in twins]
        mined.setdefault(request.documents, {}).update(dict.fromkeys(wrong[:keep]))
    return {needed: tuple(wrong) for needed, wrong in mined.items()}
