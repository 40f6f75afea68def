"""Requests and responses of the retriever, which finds APIs for a request."""

from typing import Literal

from pydantic import Field

from services.contracts.api import Api, Label, Method, Tenant
from services.contracts.base import ApiId, Contract, Query

MAX_ANSWER_BYTES = 4_000_000
"""Most bytes of the APIs of one search, as JSON. A planner reads them all at once."""
FoundBy = Literal["pinned", "demonstrated", "exact_name", "meaning", "words", "provider", "supplier"]
"""Why an API is among the candidates (docs/retrieval.md has a line about each)."""


MAX_OFFSET = 1_000
"""Most hits of a query that a page may skip: all of them are ranked for each page."""


class ApiFilters(Contract):
    """Conditions on an API. It must pass all that are set."""

    providers: tuple[str, ...] = Field(default=(), max_length=100, description="Only these providers; empty: all.")
    tags: tuple[Label, ...] = Field(
        default=(), max_length=20, description="Only APIs with one of these tags, case-insensitive; empty: all."
    )
    methods: tuple[Method, ...] = Field(
        default=(), max_length=10, description="Only APIs with one of these HTTP methods; empty: all."
    )
    deprecated: bool = Field(
        default=True,
        description="False: exclude deprecated APIs. By default they are included, because they work and may be the "
        "only match.",
    )
    tenant: Tenant | None = Field(
        default=None, description="Only APIs that belong to this tenant or to everyone. The gateway always sets it."
    )


class LookupRequest(ApiFilters):
    """Which APIs to return."""

    ids: tuple[ApiId, ...] = Field(max_length=1_000)
    most_bytes: int | None = Field(
        default=None, ge=0, description="Leave out the last APIs if all have more bytes together, as JSON."
    )


class LookupResponse(Contract):
    """The requested APIs that exist and pass the filters, in the requested order."""

    apis: tuple[Api, ...]


class RetrieveRequest(ApiFilters):
    """Which APIs could serve this request? If none passes the filters, the response has no candidates."""

    query: Query
    k: int = Field(default=10, ge=1, le=100, description="Maximum number of candidates for all clauses together.")
    suppliers: int = Field(
        default=6,
        ge=0,
        le=50,
        description="Maximum number of additional APIs: first those whose answers provide inputs of the best "
        "candidates, then the remaining APIs of small providers. The latter may replace the last of the `k` "
        "candidates. 0: none.",
    )
    pinned: tuple[ApiId, ...] = Field(
        default=(),
        max_length=100,
        description="Ids of APIs that are always candidates, first and within `k`, regardless of score and of all "
        "filters except the tenant. Unknown ids and ids of other tenants' APIs are ignored.",
    )
    most_bytes: int = Field(
        default=MAX_ANSWER_BYTES,
        ge=0,
        le=MAX_ANSWER_BYTES,
        description="Leave out the last candidates if the APIs of all have more bytes together, as JSON.",
    )


class Clause(Contract):
    """A part of the request that asks for one thing; `start` and `end` are character offsets into the query."""

    text: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Signals(Contract):
    """Why a candidate was found: cosine of the embeddings, and its lexical score relative to the clause's best."""

    dense: float | None = None
    lexical: float | None = None


class Candidate(Contract):
    """An API that may serve the request, best first."""

    api: Api
    score: float = Field(description="Best score over the clauses, from 0 (unrelated) to 1.")
    signals: Signals = Signals()
    clause: int = Field(default=0, ge=0, description="Index of the clause with the best score.")
    clause_scores: tuple[float, ...] = Field(default=(), description="Its score for each clause, in their order.")
    role: Literal["match", "supplier"] = Field(
        default="match",
        description="A supplier matches no clause. Its answer provides an input of a match, or it belongs to the same "
        "small provider.",
    )
    found_by: FoundBy = Field(
        default="meaning", description="Why it was found; `docs/retrieval.md` explains each value."
    )
    relevance: float | None = Field(
        default=None, ge=0, le=1, description="Probability that it is needed. It decides the order. Null if unknown."
    )


class RetrieveResponse(Contract):
    """The candidates and the catalogue they were found in."""

    catalogue_version: int = Field(ge=0)
    clauses: tuple[Clause, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    size: int = Field(
        default=0, ge=0, description="Bytes of the candidates' APIs as JSON, including those that were left out."
    )


class ApiSearchHit(Contract):
    """A line of `GET /apis?query=`: enough to recognise an API, without its schemas."""

    id: str
    provider: str
    method: str
    path: str
    summary: str
    deprecated: bool = False
    relevance: float | None = Field(
        default=None, ge=0, le=1, description="Probability that it is needed. It decides the order. Null if unknown."
    )
    score: float | None = None
    signals: Signals | None = None
    found_by: FoundBy | None = Field(default=None, description="Why it was found, if there is a query.")


class ApiSearchPage(Contract):
    """A page of search hits, best first; without a query, the catalogue in order of id.

    Without a query, `next` is the cursor of the following page. Further hits of a query are asked for by `offset`.
    """

    hits: tuple[ApiSearchHit, ...]
    total: int = Field(ge=0)
    catalogue_version: int = Field(ge=0)
    next: ApiId | None = None
