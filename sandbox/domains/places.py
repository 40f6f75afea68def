"""Cities and calculations on coordinates."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.errors import problems
from sandbox.fields import Answer, LimitQuery, OptionalCountryQuery
from sandbox.geodesy import distance_km, initial_bearing
from sandbox.reference import ReferenceData, fold, match_rank

router = APIRouter()

DistanceUnit = Literal["kilometer", "mile", "nautical_mile"]
_KM_PER_UNIT: dict[DistanceUnit, float] = {"kilometer": 1.0, "mile": 1.609344, "nautical_mile": 1.852}

StartLatitude = Annotated[
    float, Query(ge=-90, le=90, allow_inf_nan=False, description="Latitude of the first point.", examples=[52.52])
]
StartLongitude = Annotated[
    float, Query(ge=-180, le=180, allow_inf_nan=False, description="Longitude of the first point.", examples=[13.405])
]
EndLatitude = Annotated[
    float, Query(ge=-90, le=90, allow_inf_nan=False, description="Latitude of the second point.", examples=[48.8566])
]
EndLongitude = Annotated[
    float, Query(ge=-180, le=180, allow_inf_nan=False, description="Longitude of the second point.", examples=[2.3522])
]


class City(Answer):
    """A city."""

    name: str = Field(description="Name of the city.", examples=["Oslo"])
    region: str = Field(description="Country or state as the city list writes it.", examples=["Norway"])
    country_code: str | None = Field(description="Alpha-2 code of the country, where known.", examples=["NO"])
    latitude: float = Field(description="Latitude in degrees, north positive.")
    longitude: float = Field(description="Longitude in degrees, east positive.")
    timezone: str = Field(description="IANA time zone.", examples=["Europe/Oslo"])


class CityList(Answer):
    """Cities found, the best match first."""

    items: list[City] = Field(description="Cities.")
    total: int = Field(description="Number of cities that match.")


class Distance(Answer):
    """How far two points are apart."""

    distance: float = Field(description="Great-circle distance in the unit asked for.")
    unit: DistanceUnit = Field(description="Unit of the distance.")
    initial_bearing: float = Field(description="Direction at the start, in degrees clockwise from north.")


@router.get("/cities", responses=problems(404))
def search_cities(
    reference: ReferenceData,
    name: Annotated[str, Query(min_length=2, max_length=80, description="Name of the city.", examples=["Oslo"])],
    country_code: OptionalCountryQuery = None,
    limit: LimitQuery = 5,
) -> CityList:
    """Search capitals and large cities by name and get their coordinates, time zone and country.

    For airports use the airport search.
    """
    if country_code is not None:
        reference.country(country_code)
    query = fold(name)
    ranked = [
        (rank, position, entry)
        for position, entry in enumerate(reference.cities)
        if country_code in (None, entry.country) and (rank := match_rank(query, fold(entry.name))) is not None
    ]
    found = [entry for *_, entry in sorted(ranked, key=lambda item: item[:2])]
    items = [
        City(
            name=entry.name,
            region=entry.region,
            country_code=entry.country,
            latitude=entry.latitude,
            longitude=entry.longitude,
            timezone=entry.timezone,
        )
        for entry in found[:limit]
    ]
    return CityList(items=items, total=len(found))


@router.get("/geo/distance")
async def get_distance(
    from_latitude: StartLatitude,
    from_longitude: StartLongitude,
    to_latitude: EndLatitude,
    to_longitude: EndLongitude,
    unit: Annotated[DistanceUnit, Query(description="Unit of the result.")] = "kilometer",
) -> Distance:
    """Calculate the great-circle distance and direction between two points given by their coordinates."""
    start, end = (from_latitude, from_longitude), (to_latitude, to_longitude)
    return Distance(
        distance=round(distance_km(start, end) / _KM_PER_UNIT[unit], 2),
        unit=unit,
        initial_bearing=initial_bearing(start, end),
    )
