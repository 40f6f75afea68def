"""Hard negatives: what the retriever that serves ranks high for a request and should not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from training.retriever.examples import Document, Request

Search = Callable[[str], list[str]]
"""Ids of the documents found for a query, best first."""

Negatives = Mapping[frozenset[str], tuple[str, ...]]
"""By the documents that are right, some that are wrong."""


def mine(requests: Iterable[Request], documents: Mapping[str, Document], search: Search, keep: int) -> Negatives:
    """By the documents a request needs, the best-ranked others, without those that say the same as a needed one.

    Args:
        requests: whose queries are searched.
        documents: all of the catalogue, by id.
        search: the retriever.
        keep: how many at most, for each request.
    """
    mined: dict[frozenset[str], dict[str, None]] = {}
    for request in requests:
        twins = {documents[one].twin for one in request.documents}
        wrong = [one for one in search(request.query) if documents[one].twin not in twins]
        mined.setdefault(request.documents, {}).update(dict.fromkeys(wrong[:keep]))
    return {needed: tuple(wrong) for needed, wrong in mined.items()}
