"""Requests and responses of the retriever, which finds APIs for a request."""

from typing import Literal

from pydantic import Field

from services.contracts.api import Api, Label, Method, Tenant
from services.contracts.base import ApiId, Contract, Query

FoundBy = Literal["pinned", "exact_name", "meaning", "words", "provider", "supplier"]
"""Why an API is among the candidates (docs/retrieval.md has a line about each)."""


class LookupRequest(Contract):
    """Which APIs to return."""

    ids: tuple[ApiId, ...] = Field(max_length=1_000)
    tenant: Tenant | None = Field(default=None, description="Only APIs that are this tenant's, or everyone's.")


class LookupResponse(Contract):
    """The requested APIs that exist, in the requested order."""

    apis: tuple[Api, ...]


class RetrieveRequest(Contract):
    """Which APIs could serve this request?

    An API must pass all filters that are set. If none does, the response has no candidates.
    """

    query: Query
    k: int = Field(default=10, ge=1, le=100, description="The budget of candidates over all clauses.")
    suppliers: int = Field(
        default=6,
        ge=0,
        le=50,
        description="Budget of further APIs: those that answer with what the best candidates take, then the rest of "
        "small providers, for which the last of the `k` may make room. 0: neither.",
    )
    providers: tuple[str, ...] = Field(default=(), max_length=100, description="Only these providers; empty: all.")
    tags: tuple[Label, ...] = Field(
        default=(), max_length=20, description="Only APIs with one of these tags, in any case; empty: all."
    )
    methods: tuple[Method, ...] = Field(
        default=(), max_length=10, description="Only APIs with one of these HTTP methods; empty: all."
    )
    deprecated: bool = Field(
        default=True,
        description="False: no deprecated APIs. They are found otherwise: they work, and one may be all there is.",
    )
    tenant: Tenant | None = Field(
        default=None, description="Only APIs that are this tenant's, or everyone's. The gateway always says whose."
    )
    pinned: tuple[ApiId, ...] = Field(
        default=(),
        max_length=100,
        description="These are among the candidates, first and within `k`, whatever their score and the other filters, "
        "save the tenant. Ids of no API, and of another tenant's, are ignored.",
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
    score: float = Field(description="Best over the clauses; 0 (unrelated) to 1.")
    signals: Signals = Signals()
    clause: int = Field(default=0, ge=0, description="Index of the clause that ranks it best.")
    clause_scores: tuple[float, ...] = Field(default=(), description="Its score for each clause, in their order.")
    role: Literal["match", "supplier"] = Field(
        default="match",
        description="A supplier matches no clause; it answers with what a match takes, or has its small provider.",
    )
    found_by: FoundBy = Field(
        default="meaning", description="Why it is here; `docs/retrieval.md` says what each means."
    )
    relevance: float | None = Field(
        default=None, ge=0, le=1, description="How likely it is needed; it decides the order. Null where nothing says."
    )


class RetrieveResponse(Contract):
    """The candidates and the catalogue they were found in."""

    catalogue_version: int = Field(ge=0)
    clauses: tuple[Clause, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class ApiSearchHit(Contract):
    """A line of `GET /apis?query=`: enough to recognise an API, without its schemas."""

    id: str
    provider: str
    method: str
    path: str
    summary: str
    deprecated: bool = False
    score: float | None = None
    signals: Signals | None = None
    found_by: FoundBy | None = Field(default=None, description="Why it is here, where there is a query.")


class ApiSearchPage(Contract):
    """A page of search hits, best first; without a query, the catalogue in order of id."""

    hits: tuple[ApiSearchHit, ...]
    total: int = Field(ge=0)
    catalogue_version: int = Field(ge=0)
