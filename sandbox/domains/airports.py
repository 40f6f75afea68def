"""Airports with an IATA code, and flights between them."""

from __future__ import annotations

from heapq import nsmallest
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from sandbox.errors import Unprocessable, problems
from sandbox.fields import (
    IATA_PATTERN,
    Answer,
    LatitudeQuery,
    LimitQuery,
    LongitudeQuery,
    OffsetQuery,
    OptionalCountryQuery,
)
from sandbox.geodesy import distance_km, initial_bearing
from sandbox.reference import AirportEntry, ReferenceData, fold, match_rank

router = APIRouter()

_TAXI_AND_CLIMB_MINUTES = 30


class AirportSummary(Answer):
    """An airport in a list."""

    iata: str = Field(description="IATA code, three letters.", examples=["JFK"])
    name: str = Field(description="Name of the airport.", examples=["John F Kennedy International Airport"])
    city: str = Field(description="City it serves.", examples=["New York"])
    country_code: str = Field(description="Alpha-2 code of the country.", examples=["US"])


class Airport(AirportSummary):
    """An airport in detail."""

    icao: str | None = Field(description="ICAO code, four letters.", examples=["KJFK"])
    subdivision: str = Field(description="State or province.", examples=["New York"])
    latitude: float = Field(description="Latitude in degrees, north positive.")
    longitude: float = Field(description="Longitude in degrees, east positive.")
    elevation_ft: float = Field(description="Elevation in feet.")
    timezone: str = Field(description="IANA time zone.", examples=["America/New_York"])


class AirportList(Answer):
    """Some of the airports found, the best match first."""

    items: list[AirportSummary] = Field(description="Airports.")
    total: int = Field(description="Number of airports that match.")
    limit: int = Field(description="Largest number of items returned.")
    offset: int = Field(description="Number of items skipped.")


class NearbyAirport(AirportSummary):
    """An airport and how far away it is."""

    distance_km: float = Field(description="Distance from the point in kilometres.")


class NearbyAirports(Answer):
    """Airports around a point, nearest first."""

    airports: list[NearbyAirport] = Field(description="Airports, nearest first.")


class FlightEstimate(Answer):
    """A direct flight between two airports, estimated."""

    origin: str = Field(description="IATA code of the first airport.")
    destination: str = Field(description="IATA code of the second airport.")
    distance_km: float = Field(description="Great-circle distance in kilometres.")
    initial_bearing: float = Field(description="Direction at the start, in degrees clockwise from north.")
    duration_minutes: int = Field(description="Time of flight in minutes, with half an hour for taxi and climb.")


@router.get("/airports", responses=problems(404))
def search_airports(
    reference: ReferenceData,
    query: Annotated[
        str,
        Query(
            min_length=2,
            max_length=80,
            description="City, name of the airport or part of one.",
            examples=["Lisbon", "Heathrow"],
        ),
    ],
    country_code: OptionalCountryQuery = None,
    limit: LimitQuery = 10,
    offset: OffsetQuery = 0,
) -> AirportList:
    """Search airports by city or name and get their IATA codes.

    Airports of exactly that city come first, international ones before others.
    """
    if country_code is not None:
        reference.country(country_code)
    text = fold(query)
    ranked = []
    for entry in reference.airports.values():
        rank = match_rank(text, *entry.search_names)
        if rank is not None and country_code in (None, entry.country):
            ranked.append((rank, "International" not in entry.name, entry.iata, entry))
    found = [entry for *_, entry in sorted(ranked, key=lambda item: item[:3])]
    items = [AirportSummary(**_summary(entry)) for entry in found[offset : offset + limit]]
    return AirportList(items=items, total=len(found), limit=limit, offset=offset)


@router.get("/airports/nearest")
def find_nearest_airports(
    reference: ReferenceData,
    latitude: LatitudeQuery,
    longitude: LongitudeQuery,
    count: Annotated[int, Query(ge=1, le=20, description="How many airports to return.")] = 3,
) -> NearbyAirports:
    """Find the airports nearest to a point given by its coordinates, with their distances."""
    here = (latitude, longitude)
    pairs = ((distance_km(here, (entry.latitude, entry.longitude)), entry) for entry in reference.airports.values())
    nearest = nsmallest(count, pairs, key=lambda pair: (pair[0], pair[1].iata))
    return NearbyAirports(
        airports=[NearbyAirport(**_summary(entry), distance_km=round(distance, 1)) for distance, entry in nearest]
    )


@router.get("/airports/{iata}", responses=problems(404))
def get_airport(
    reference: ReferenceData,
    iata: Annotated[str, Path(pattern=IATA_PATTERN, description="IATA code of the airport.", examples=["JFK"])],
) -> Airport:
    """Get one airport by its IATA code: name, city, country, coordinates, elevation and time zone."""
    entry = reference.airport(iata)
    return Airport(
        **_summary(entry),
        icao=entry.icao,
        subdivision=entry.subdivision,
        latitude=entry.latitude,
        longitude=entry.longitude,
        elevation_ft=entry.elevation,
        timezone=entry.timezone,
    )


def _summary(entry: AirportEntry) -> dict[str, str]:
    return {"iata": entry.iata, "name": entry.name, "city": entry.city, "country_code": entry.country}


@router.get("/flights/estimate", responses=problems(404))
def estimate_flight(
    reference: ReferenceData,
    origin: Annotated[str, Query(pattern=IATA_PATTERN, description="IATA code to fly from.", examples=["JFK"])],
    destination: Annotated[str, Query(pattern=IATA_PATTERN, description="IATA code to fly to.", examples=["LHR"])],
    cruise_speed_kmh: Annotated[
        float, Query(ge=100, le=3000, allow_inf_nan=False, description="Cruising speed in kilometres per hour.")
    ] = 850,
) -> FlightEstimate:
    """Estimate distance, direction and duration of a direct flight between two airports."""
    if origin == destination:
        raise Unprocessable("origin and destination are the same airport")
    first, second = reference.airport(origin), reference.airport(destination)
    start, end = (first.latitude, first.longitude), (second.latitude, second.longitude)
    distance = distance_km(start, end)
    return FlightEstimate(
        origin=origin,
        destination=destination,
        distance_km=round(distance, 1),
        initial_bearing=initial_bearing(start, end),
        duration_minutes=round(distance / cruise_speed_kmh * 60) + _TAXI_AND_CLIMB_MINUTES,
    )
