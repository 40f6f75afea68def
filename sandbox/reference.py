"""Reference data of the sandbox, read on first use and cached per app."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import available_timezones

from fastapi import Depends, Request

from sandbox.errors import NotFound

if TYPE_CHECKING:
    from pint import UnitRegistry


def fold(text: str) -> str:
    """Lower case without accents and with single spaces: the form in which names are compared."""
    decomposed = unicodedata.normalize("NFKD", text)
    return " ".join("".join(c for c in decomposed if not unicodedata.combining(c)).casefold().split())


def match_rank(query: str, *names: str) -> int | None:
    """How well any of the folded names fits the folded query: 0 equal, 1 prefix, 2 inside, None not at all."""
    ranks = [0 if name == query else 1 if name.startswith(query) else 2 for name in names if name and query in name]
    return min(ranks, default=None)


@dataclass(frozen=True, slots=True)
class CountryEntry:
    """One country of ISO 3166-1, with the names it is searched by (folded)."""

    alpha2: str
    alpha3: str
    numeric: str
    name: str
    official_name: str
    flag: str
    search_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AirportEntry:
    """One airport with an IATA code. Elevation in feet, coordinates in degrees; searched by its folded names."""

    iata: str
    icao: str | None
    name: str
    city: str
    subdivision: str
    country: str
    elevation: float
    latitude: float
    longitude: float
    timezone: str
    search_names: tuple[str, str]


@dataclass(frozen=True, slots=True)
class CityEntry:
    """One city, with the name of its region (mostly a country) and the country code if it is known."""

    name: str
    region: str
    country: str | None
    latitude: float
    longitude: float
    timezone: str


@dataclass(frozen=True, slots=True)
class RateTable:
    """Units of each currency per euro on one day."""

    day: date
    per_euro: dict[str, Decimal]

    def rate(self, base: str, quote: str) -> Decimal:
        """Units of `quote` for one unit of `base`. Raises NotFound for a currency without a rate."""
        for code in (base, quote):
            if code not in self.per_euro:
                raise NotFound(f"no exchange rate is published for currency {code}")
        return self.per_euro[quote] / self.per_euro[base]


class Reference:
    """The data that never changes while an app runs. Each table is built on first use."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {}

    @cached_property
    def countries(self) -> dict[str, CountryEntry]:
        """Countries by alpha-2 code. The everyday English name is CLDR's, the official one ISO's."""
        import pycountry
        from babel import Locale

        names = Locale("en").territories
        entries = {}
        for item in pycountry.countries:
            name = names.get(item.alpha_2, item.name)
            official = getattr(item, "official_name", item.name)
            every = (name, item.name, official, getattr(item, "common_name", ""), item.alpha_3)
            searchable = tuple(dict.fromkeys(fold(text) for text in every))
            entries[item.alpha_2] = CountryEntry(
                item.alpha_2, item.alpha_3, item.numeric, name, official, item.flag, searchable
            )
        return dict(sorted(entries.items(), key=lambda pair: fold(pair[1].name)))

    def country(self, alpha2: str) -> CountryEntry:
        """One country. Raises NotFound."""
        try:
            return self.countries[alpha2]
        except KeyError:
            raise NotFound(f"no country has the ISO 3166-1 alpha-2 code {alpha2}") from None

    @cached_property
    def airports(self) -> dict[str, AirportEntry]:
        """Airports by IATA code."""
        import airportsdata

        return {
            code: AirportEntry(
                iata=code,
                icao=row["icao"] or None,
                name=row["name"],
                city=row["city"],
                subdivision=row["subd"],
                country=row["country"],
                elevation=row["elevation"],
                latitude=row["lat"],
                longitude=row["lon"],
                timezone=row["tz"],
                search_names=(fold(row["city"]), fold(row["name"])),
            )
            for code, row in sorted(airportsdata.load("IATA").items())
        }

    def airport(self, iata: str) -> AirportEntry:
        """One airport. Raises NotFound."""
        try:
            return self.airports[iata]
        except KeyError:
            raise NotFound(f"no airport has the IATA code {iata}") from None

    @cached_property
    def cities(self) -> tuple[CityEntry, ...]:
        """Capitals and large cities. If the source names a region twice, the first entry is kept."""
        from astral import geocoder

        country_of_zone = {zone: codes[0] for zone, codes in self.zone_countries.items()}
        found: dict[tuple[str, str], CityEntry] = {}
        for place in geocoder.all_locations(geocoder.database()):
            country = country_of_zone.get(place.timezone)
            entry = CityEntry(
                place.name, place.region, country, round(place.latitude, 5), round(place.longitude, 5), place.timezone
            )
            found.setdefault((fold(place.name), place.timezone), entry)
        return tuple(sorted(found.values(), key=lambda city: (fold(city.name), city.region)))

    @cached_property
    def zone_countries(self) -> dict[str, list[str]]:
        """Country codes of each time zone of the tz database's zone.tab."""
        table: dict[str, list[str]] = {}
        for line in (files("tzdata") / "zoneinfo" / "zone.tab").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                country, _, zone, *_ = line.split("\t")
                table.setdefault(zone, []).append(country)
        return dict(sorted(table.items()))

    @cached_property
    def zone_names(self) -> frozenset[str]:
        """Every name the tz database accepts, aliases included."""
        return frozenset(available_timezones())

    @cached_property
    def rates(self) -> RateTable:
        """European Central Bank reference rates of the day given in the data file."""
        lines = (files("sandbox") / "data" / "ecb_rates.csv").read_text(encoding="utf-8").splitlines()
        stated = next(line for line in lines if line.startswith("# date:"))
        rows = [line.split(",") for line in lines if line and not line.startswith(("#", "currency"))]
        per_euro = {"EUR": Decimal(1)} | {code: Decimal(rate) for code, rate in rows}
        return RateTable(date.fromisoformat(stated.partition(":")[2].strip()), dict(sorted(per_euro.items())))

    @cached_property
    def unit_registry(self) -> UnitRegistry[float]:
        """Pint's registry (a third of a second to build)."""
        import pint

        return pint.UnitRegistry(cache_folder=None)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of `data/<name>.json`. Callers must not change them."""
        if name not in self._rows:
            self._rows[name] = json.loads((files("sandbox") / "data" / f"{name}.json").read_text("utf-8"))
        return self._rows[name]


async def _reference(request: Request) -> Reference:
    reference = request.app.state.reference
    assert isinstance(reference, Reference)
    return reference


ReferenceData = Annotated[Reference, Depends(_reference)]
