"""Countries of ISO 3166-1 and subdivisions of ISO 3166-2."""

from __future__ import annotations

from typing import Annotated

import phonenumbers
import pycountry
from babel import Locale, UnknownLocaleError
from babel.languages import get_official_languages
from babel.numbers import get_territory_currencies
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from sandbox.errors import NotFound, problems
from sandbox.fields import (
    LANGUAGE_PATTERN,
    Answer,
    CountryPath,
    LimitQuery,
    OffsetQuery,
    PageQuery,
    SizeQuery,
)
from sandbox.paging import count_pages, link_header
from sandbox.reference import CountryEntry, Reference, ReferenceData, fold, match_rank

router = APIRouter()

# CLDR 47, which babel contains, is older than Bulgaria's change to the euro on 2026-01-01.
_CURRENCY_CHANGES = {"BG": "EUR"}


class CountrySummary(Answer):
    """A country in a list."""

    alpha2: str = Field(
        description="ISO 3166-1 alpha-2 code; other services call it the country code.", examples=["DE"]
    )
    alpha3: str = Field(description="ISO 3166-1 alpha-3 code.", examples=["DEU"])
    name: str = Field(description="Everyday English name.", examples=["Germany"])


class CountryPage(Answer):
    """One page of countries, the best match first."""

    items: list[CountrySummary] = Field(description="Countries on this page.")
    page: int = Field(description="Number of this page.")
    size: int = Field(description="Largest number of items a page.")
    total: int = Field(description="Number of countries that match.")
    pages: int = Field(description="Number of pages.")


class Language(Answer):
    """A language."""

    code: str = Field(description="ISO 639 code.", examples=["de"])
    name: str = Field(description="English name.", examples=["German"])


class Country(CountrySummary):
    """A country in detail."""

    numeric: str = Field(description="ISO 3166-1 numeric code, three digits.", examples=["276"])
    official_name: str = Field(description="Official English name.", examples=["Federal Republic of Germany"])
    flag: str = Field(description="Flag as an emoji.")
    currency: str | None = Field(description="ISO 4217 code of the main currency in use.", examples=["EUR"])
    languages: list[Language] = Field(description="Official languages with nationwide status.")
    calling_code: str | None = Field(description="International calling code, without plus.", examples=["49"])
    timezones: list[str] = Field(description="IANA time zones of the country.", examples=[["Europe/Berlin"]])


class Subdivision(Answer):
    """A state, province, canton or another part of a country."""

    code: str = Field(description="ISO 3166-2 code.", examples=["DE-BY"])
    name: str = Field(description="Name in the country's language.", examples=["Bayern"])
    type: str = Field(description="Kind of subdivision.", examples=["Land"])
    country_code: str = Field(description="Alpha-2 code of the country.", examples=["DE"])
    parent_code: str | None = Field(description="Code of the subdivision this one belongs to.")


def _names_in(language: str) -> Locale:
    try:
        return Locale(language)
    except UnknownLocaleError:
        raise NotFound(f"no names are known in language {language}") from None


@router.get("/countries", responses=problems(404))
def search_countries(
    reference: ReferenceData,
    name: Annotated[
        str | None,
        Query(
            min_length=1, max_length=100, description="Name or part of a name; without it, all countries are listed."
        ),
    ] = None,
    language: Annotated[
        str, Query(pattern=LANGUAGE_PATTERN, description="Language the name is written in, ISO 639 code.")
    ] = "en",
    page: PageQuery = 1,
    size: SizeQuery = 20,
) -> CountryPage:
    """Search countries by name and get their ISO codes.

    Use it to turn a country name into the country code that most other endpoints ask for; the best match comes
    first.
    """
    found = list(reference.countries.values())
    if name is not None:
        found = _ranked(reference, name, language)
    items = [_summary(entry) for entry in found[(page - 1) * size : page * size]]
    return CountryPage(items=items, page=page, size=size, total=len(found), pages=count_pages(len(found), size))


def _ranked(reference: Reference, name: str, language: str) -> list[CountryEntry]:
    territories = {} if language == "en" else _names_in(language).territories
    query = fold(name)
    ranked = []
    for position, entry in enumerate(reference.countries.values()):
        rank = match_rank(query, *entry.search_names, fold(territories.get(entry.alpha2, "")))
        if rank is not None:
            ranked.append((rank, position, entry))
    return [entry for *_, entry in sorted(ranked, key=lambda item: item[:2])]


def _summary(entry: CountryEntry) -> CountrySummary:
    return CountrySummary(alpha2=entry.alpha2, alpha3=entry.alpha3, name=entry.name)


@router.get("/countries/{country_code}", responses=problems(404))
def get_country(reference: ReferenceData, country_code: CountryPath) -> Country:
    """Get one country by its code: official name, currency, official languages, calling code, time zones and flag."""
    entry = reference.country(country_code)
    english = Locale("en")
    calling_code = phonenumbers.country_code_for_region(country_code)
    currencies = get_territory_currencies(country_code)
    return Country(
        alpha2=entry.alpha2,
        alpha3=entry.alpha3,
        numeric=entry.numeric,
        name=entry.name,
        official_name=entry.official_name,
        flag=entry.flag,
        currency=_CURRENCY_CHANGES.get(country_code) or (currencies[0] if currencies else None),
        languages=[
            Language(code=code, name=english.languages.get(code, code)) for code in _official_languages(country_code)
        ],
        calling_code=str(calling_code) if calling_code else None,
        timezones=[zone for zone, codes in reference.zone_countries.items() if country_code in codes],
    )


def _official_languages(country_code: str) -> tuple[str, ...]:
    official = get_official_languages(country_code)
    return official or get_official_languages(country_code, de_facto=True)


_PAGE_HEADERS = {
    "Link": {"description": "RFC 8288 links to the `next` and `prev` page.", "schema": {"type": "string"}},
    "X-Total-Count": {"description": "Number of subdivisions that match.", "schema": {"type": "integer"}},
}


@router.get(
    "/countries/{country_code}/subdivisions",
    responses=problems(404) | {200: {"headers": _PAGE_HEADERS}},
)
def list_subdivisions(
    reference: ReferenceData,
    request: Request,
    response: Response,
    country_code: CountryPath,
    type: Annotated[  # noqa: A002 - the name on the wire
        str | None, Query(min_length=1, max_length=60, description="Only this kind.", examples=["Land", "State"])
    ] = None,
    limit: LimitQuery = 50,
    offset: OffsetQuery = 0,
) -> list[Subdivision]:
    """List the states, provinces or other subdivisions of a country, ordered by code.

    The `Link` header leads to the next page and `X-Total-Count` tells how many there are.
    """
    reference.country(country_code)
    found = [entry for entry in _subdivisions(country_code) if type is None or fold(entry.type) == fold(type)]
    response.headers["X-Total-Count"] = str(len(found))
    if link := link_header(request.url, limit, offset, len(found)):
        response.headers["Link"] = link
    return [_subdivision(entry) for entry in found[offset : offset + limit]]


@router.get("/subdivisions/search", responses=problems(404))
def find_subdivision(
    reference: ReferenceData,
    country_code: Annotated[
        str, Query(pattern="^[A-Z]{2}$", description="Alpha-2 code of the country.", examples=["US"])
    ],
    name: Annotated[
        str, Query(min_length=1, max_length=100, description="Name of the subdivision.", examples=["Texas"])
    ],
) -> Subdivision:
    """Find the one subdivision of a country whose name fits best, and its ISO 3166-2 code."""
    reference.country(country_code)
    query = fold(name)
    ranked = [
        (rank, str(entry.code), entry)
        for entry in _subdivisions(country_code)
        if (rank := match_rank(query, fold(entry.name))) is not None
    ]
    if not ranked:
        raise NotFound(f"no subdivision of {country_code} has such a name")
    return _subdivision(min(ranked, key=lambda item: item[:2])[2])


def _subdivisions(country_code: str) -> list[pycountry.db.Data]:
    entries = pycountry.subdivisions.get(country_code=country_code) or ()  # type: ignore[no-untyped-call]
    return sorted(entries, key=lambda entry: str(entry.code))


def _subdivision(entry: pycountry.db.Data) -> Subdivision:
    return Subdivision(
        code=entry.code,
        name=entry.name,
        type=entry.type,
        country_code=entry.country_code,
        parent_code=entry.parent_code,
    )
