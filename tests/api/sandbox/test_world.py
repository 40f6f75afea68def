"""Answers about the world, compared with facts from other sources."""

from typing import Any

import pytest
from fastapi.testclient import TestClient


def get(client: TestClient, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, status: int, path: str, **query: Any) -> dict[str, Any]:
    answer = client.get(path, params=query)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["detail"]
    return problem


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Germany", "DE"), ("niger", "NE"),
        ("Nigeria", "NG"), ("South Korea", "KR"), ("Türkiye", "TR"), ("japan", "JP"),
        ("cote d'ivoire", "CI"), ("DEU", "DE"), ("Switz", "CH"), ("United Kingdom", "GB"), ("United States", "US"),
    ],
)  # fmt: skip
def test_the_best_matching_country_comes_first(client: TestClient, name: str, code: str) -> None:
    assert get(client, "/countries", name=name)["items"][0]["alpha2"] == code


def test_countries_are_found_in_other_languages(client: TestClient) -> None:
    assert get(client, "/countries", name="Allemagne", language="fr")["items"][0]["alpha2"] == "DE"
    assert get(client, "/countries", name="Allemagne")["items"] == []
    refused(client, 404, "/countries", name="x", language="zzz")


def test_country_details(client: TestClient) -> None:
    swiss = get(client, "/countries/CH")
    assert swiss["currency"] == "CHF"
    assert swiss["calling_code"] == "41"
    assert swiss["numeric"] == "756"
    assert swiss["timezones"] == ["Europe/Zurich"]
    assert {language["code"] for language in swiss["languages"]} == {"de", "fr", "it"}
    assert get(client, "/countries/BG")["currency"] == "EUR"
    assert get(client, "/countries/AQ")["currency"] is None
    assert [language["code"] for language in get(client, "/countries/US")["languages"]] == ["en"]


@pytest.mark.parametrize("path", ["/countries/Germany", "/countries/de", "/countries/DEU", "/airports/London"])
def test_a_name_where_a_code_is_due_is_refused(client: TestClient, path: str) -> None:
    problem = refused(client, 422, path)
    assert problem["errors"][0]["code"] == "string_pattern_mismatch"


@pytest.mark.parametrize("path", ["/countries/XX", "/airports/QQQ", "/currencies/XQX", "/products/AAA-0000"])
def test_unknown_codes_are_not_found(client: TestClient, path: str) -> None:
    refused(client, 404, path)


def test_subdivisions(client: TestClient) -> None:
    assert get(client, "/subdivisions/search", country_code="DE", name="bayern")["code"] == "DE-BY"
    assert get(client, "/subdivisions/search", country_code="US", name="Texas")["code"] == "US-TX"
    assert get(client, "/subdivisions/search", country_code="US", name="virginia")["code"] == "US-VA"
    refused(client, 404, "/subdivisions/search", country_code="US", name="Bavaria")
    assert len(get(client, "/countries/DE/subdivisions", type="land")) == 16


def test_holidays(client: TestClient) -> None:
    german = get(client, "/holidays/DE/2026")
    assert {"date": "2026-10-03", "name": "German Unity Day", "weekday": "Saturday"} in german["holidays"]
    assert german["count"] == len(german["holidays"]) == 9
    assert get(client, "/holidays/DE/2026", subdivision="DE-BY")["count"] > 9
    local = client.get("/holidays/DE/2026", headers={"Accept-Language": "de-AT, en;q=0.5"}).json()
    assert "Tag der Deutschen Einheit" in [day["name"] for day in local["holidays"]]
    refused(client, 422, "/holidays/DE/2026", subdivision="FR-IDF")
    refused(client, 404, "/holidays/DE/2026", subdivision="DE-ZZ")
    refused(client, 422, "/holidays/DE/2026", category="half_day")
    refused(client, 422, "/holidays/DE/1066")
    refused(client, 404, "/holidays/XX/2026")


def test_single_holidays(client: TestClient) -> None:
    found = get(client, "/holidays/find", country_code="GB", year=2026, name="Good Friday")
    assert found == {"date": "2026-04-03", "name": "Good Friday", "weekday": "Friday"}
    assert get(client, "/holidays/find", country_code="US", year=2026, name="Thanksgiving")["date"] == "2026-11-26"
    following = get(client, "/holidays/next", country_code="FR", after="2026-07-01")
    assert (following["date"], following["days_until"]) == ("2026-07-14", 13)
    over_new_year = get(client, "/holidays/next", country_code="US", after="2026-12-26")
    assert over_new_year["date"] == "2027-01-01"
    refused(client, 404, "/holidays/find", country_code="DE", year=2026, name="Thanksgiving")
    refused(client, 404, "/holidays/next", country_code="DE", after="2099-12-31")


def test_working_days(client: TestClient) -> None:
    december = get(client, "/working-days/count", country_code="DE", start_date="2026-12-01", end_date="2026-12-31")
    assert december["calendar_days"] == 31
    assert december["working_days"] == 22  # 23 weekdays; of the 25th and 26th only the 25th is one
    assert december["holidays_on_weekdays"] == 1
    christmas = get(client, "/working-days/check", country_code="DE", date="2026-12-25")
    assert christmas["is_holiday"]
    assert not christmas["is_working_day"]
    assert not christmas["is_weekend"]
    assert get(client, "/working-days/check", country_code="SA", date="2026-05-15")["is_weekend"]  # a Friday
    refused(client, 422, "/working-days/count", country_code="DE", start_date="2026-12-02", end_date="2026-12-01")


def test_airports(client: TestClient) -> None:
    kennedy = get(client, "/airports/JFK")
    assert (kennedy["icao"], kennedy["timezone"], kennedy["country_code"]) == ("KJFK", "America/New_York", "US")
    assert abs(kennedy["latitude"] - 40.64) < 0.01
    heathrow = get(client, "/airports", query="heathrow")
    assert heathrow["items"][0]["iata"] == "LHR"
    assert get(client, "/airports", query="Lisbon")["items"][0]["iata"] == "LIS"
    british = get(client, "/airports", query="London", country_code="GB", limit=50)["items"]
    assert {"LHR", "LGW", "LCY"} <= {airport["iata"] for airport in british}
    assert {airport["country_code"] for airport in british} == {"GB"}
    near = get(client, "/airports/nearest", latitude=52.52, longitude=13.405, count=1)["airports"][0]
    assert near["iata"] in {"BER", "TXL", "THF"}
    assert near["distance_km"] < 25


def test_distances(client: TestClient) -> None:
    flight = get(client, "/flights/estimate", origin="JFK", destination="LHR")
    assert abs(flight["distance_km"] - 5540) < 15
    assert 400 < flight["duration_minutes"] < 440
    refused(client, 422, "/flights/estimate", origin="JFK", destination="JFK")
    # Berlin to Paris is about 878 km.
    places = {"from_latitude": 52.52, "from_longitude": 13.405, "to_latitude": 48.8566, "to_longitude": 2.3522}
    assert abs(get(client, "/geo/distance", **places)["distance"] - 878) < 2
    assert abs(get(client, "/geo/distance", **places, unit="mile")["distance"] - 545.5) < 1.5
    antipodes = {"from_latitude": 90, "from_longitude": 0, "to_latitude": -90, "to_longitude": 180}
    assert abs(get(client, "/geo/distance", **antipodes)["distance"] - 20015) < 1


def test_cities(client: TestClient) -> None:
    oslo = get(client, "/cities", name="oslo")["items"][0]
    assert (oslo["country_code"], oslo["timezone"]) == ("NO", "Europe/Oslo")
    assert abs(oslo["latitude"] - 59.92) < 0.1
    refused(client, 404, "/cities", name="oslo", country_code="XX")


def test_sun(client: TestClient) -> None:
    # Greenwich, midsummer 2026: sunrise 04:43, sunset 21:21 British Summer Time.
    day = get(client, "/astronomy/sun-times", latitude=51.48, longitude=0, date="2026-06-21", timezone="Europe/London")
    assert day["sunrise"].startswith("2026-06-21T04:4")
    assert day["sunset"].startswith("2026-06-21T21:2")
    assert abs(day["day_length_minutes"] - 998) <= 3
    polar = get(client, "/astronomy/sun-times", latitude=78.22, longitude=15.65, date="2026-06-21")
    assert polar["sunrise"] is polar["sunset"] is polar["day_length_minutes"] is None
    assert polar["solar_noon"]
    refused(client, 404, "/astronomy/sun-times", latitude=0, longitude=0, timezone="Mars/Base")


def test_moon(client: TestClient) -> None:
    assert get(client, "/astronomy/moon-phase", date="2026-03-03")["phase"] == "full moon"  # total lunar eclipse
    assert abs(get(client, "/astronomy/moon-phase", date="2026-03-03")["age_days"] - 14) < 1
    eclipse = get(client, "/astronomy/moon-phase", date="2026-08-12")["age_days"]  # total solar eclipse
    assert min(eclipse, 28 - eclipse) < 1


def test_time_zones(client: TestClient) -> None:
    summer = get(client, "/timezones/current", timezone="Europe/Berlin", at="2026-07-01T12:00:00Z")
    assert summer["local_time"] == "2026-07-01T14:00:00+02:00"
    assert (summer["utc_offset"], summer["utc_offset_minutes"], summer["abbreviation"]) == ("+02:00", 120, "CEST")
    assert summer["is_dst"]
    assert get(client, "/timezones/current", timezone="Asia/Kathmandu")["utc_offset"] == "+05:45"
    there = get(
        client,
        "/timezones/convert",
        time="2026-01-15T09:00",
        from_timezone="Asia/Tokyo",
        to_timezone="America/New_York",
    )
    assert there["to_time"] == "2026-01-14T19:00:00-05:00"
    assert there["difference_minutes"] == -14 * 60
    for name in ("Europe", "Europe/Atlantis", "posixrules/x"):
        refused(client, 404, "/timezones/current", timezone=name)
    refused(client, 422, "/timezones/current", timezone="../etc/passwd")


def test_dates(client: TestClient) -> None:
    apart = get(client, "/dates/difference", start_date="1991-03-14", end_date="2026-11-21")
    assert (apart["years"], apart["months"], apart["days"]) == (35, 8, 7)
    assert apart["total_days"] == 13036
    assert get(client, "/dates/add", date="2026-01-31", months=1) == {"date": "2026-02-28", "weekday": "Saturday"}
    assert get(client, "/dates/2026-10-03")["weekday"] == "Saturday"
    assert get(client, "/dates/2027-01-01")["iso_week"] == 53
    hebrew = get(client, "/calendars/hebrew/dates/2026-09-12")  # Rosh Hashanah 5787
    assert (hebrew["year"], hebrew["month"], hebrew["day"]) == (5787, 7, 1)
    persian = get(client, "/calendars/persian/dates/2026-03-21")  # Nowruz 1405
    assert (persian["year"], persian["month"], persian["day"]) == (1405, 1, 1)
    for day in ("2026-02-30", "1700000000", "2026-10-03T00:00:00", "0999-01-01", "tomorrow"):
        refused(client, 422, "/dates/difference", start_date=day, end_date="2026-01-01")


def test_currencies(client: TestClient) -> None:
    yen = get(client, "/currencies/JPY")
    assert (yen["name"], yen["minor_units"], yen["has_rate"]) == ("Japanese Yen", 0, True)
    assert get(client, "/currencies", name="swiss franc")["items"][0]["code"] == "CHF"
    rates = get(client, "/exchange-rates", symbols="USD,GBP")
    assert rates["date"] == "2026-10-30"
    assert rates["rates"] == {"USD": 1.1172, "GBP": 0.8338}
    to_euro = get(client, "/exchange-rates/convert", amount=250, from_currency="USD", to_currency="EUR")
    assert to_euro["result"] == 223.77
    to_yen = get(client, "/exchange-rates/convert", amount=10, from_currency="USD", to_currency="JPY")
    assert to_yen["result"] == 1573
    refused(client, 404, "/exchange-rates/convert", amount=1, from_currency="EUR", to_currency="XAU")
    refused(client, 422, "/exchange-rates", symbols="USD,dollars")


def test_units(client: TestClient) -> None:
    def convert(value: float, source: str, target: str) -> float:
        answer = get(client, "/units/convert", value=value, from_unit=source, to_unit=target)
        result: float = answer["result"]
        return result

    assert convert(26.2, "mile", "kilometer") == 42.1648128
    assert convert(-40, "celsius", "fahrenheit") == pytest.approx(-40)
    assert convert(100, "kilometer_per_hour", "meter_per_second") == pytest.approx(27.7777777778)
    assert convert(1, "gallon", "liter") == 3.785411784
    assert convert(1, "gibibyte", "mebibyte") == 1024
    refused(client, 422, "/units/convert", value=1, from_unit="mile", to_unit="kilogram")
    refused(client, 422, "/units/convert", value=1, from_unit="9**9**9", to_unit="meter")


def test_every_listed_unit_converts_to_its_neighbours(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    parameters = document["paths"]["/units/convert"]["get"]["parameters"]
    units = next(item["schema"]["enum"] for item in parameters if item["name"] == "from_unit")
    assert len(units) > 60
    for unit in units:
        assert get(client, "/units/convert", value=2.5, from_unit=unit, to_unit=unit)["result"] == pytest.approx(2.5)


def test_phone_numbers(client: TestClient) -> None:
    berlin = get(client, "/phone-numbers/parse", number="030 23125 100", country_code="DE")
    assert berlin["e164"] == "+493023125100"
    assert (berlin["country_code"], berlin["type"], berlin["is_valid"]) == ("DE", "fixed_line", True)
    assert berlin["timezones"] == ["Europe/Berlin"]
    assert get(client, "/phone-numbers/parse", number="+1 312 234 5678")["country_code"] == "US"
    assert get(client, "/calling-codes/1")["country_codes"][0] == "US"
    refused(client, 422, "/phone-numbers/parse", number="030 23125 100")
    refused(client, 404, "/calling-codes/999")


def test_locales(client: TestClient) -> None:
    money = get(client, "/locales/de-DE/currency", amount=1299.5, currency="EUR")["formatted"]
    assert money == "1.299,50\N{NO-BREAK SPACE}€"
    assert get(client, "/locales/fr-FR/date", date="2026-07-14", style="full")["formatted"] == "mardi 14 juillet 2026"
    refused(client, 404, "/locales/qq-QQ/date", date="2026-07-14")


def test_statistics(client: TestClient) -> None:
    summary = get(client, "/statistics/summary", values=[2, 4, 4, 4, 5, 5, 7, 9])
    assert (summary["mean"], summary["median"], summary["sum"]) == (5, 4.5, 40)
    assert summary["standard_deviation"] == pytest.approx(2.13809, abs=1e-5)
    assert get(client, "/statistics/summary", values=[3])["standard_deviation"] is None
    line = client.post("/statistics/regression", json={"x": [1, 2, 3], "y": [3, 5, 7], "predict_at": 10}).json()
    assert line == {"slope": 2, "intercept": 1, "correlation": 1, "prediction": 21}
    flat = client.post("/statistics/regression", json={"x": [1, 2], "y": [5, 5]}).json()
    assert flat["correlation"] is None
    assert client.post("/statistics/regression", json={"x": [1, 1], "y": [2, 3]}).status_code == 422


def test_text(client: TestClient) -> None:
    measures = client.post("/text/analyze", json={"text": "The cat sat. The cat's mat is red!"}).json()
    assert (measures["words"], measures["sentences"], measures["unique_words"]) == (8, 2, 7)
    assert get(client, "/text/slug", text="Crème brûlée & Straße!")["slug"] == "creme-brulee-strasse"
    assert get(client, "/text/similarity", first="kitten", second="sitting")["score"] == pytest.approx(0.6154)
    words = get(client, "/text/similarity", first="a b c", second="B c d", method="words")
    assert words["score"] == 0.5


def test_codes(client: TestClient) -> None:
    code = client.post("/qr-codes", json={"content": "HELLO WORLD", "error_correction": "Q"}).json()
    assert (code["version"], code["modules"], code["error_correction"]) == (1, 21, "Q")
    assert code["svg_data_uri"].startswith("data:image/svg+xml")
    valid = get(client, "/ibans/validate", iban="de89 3704 0044 0532 0130 00")
    assert (valid["is_valid"], valid["country_code"]) == (True, "DE")
    assert valid["formatted"] == "DE89 3704 0044 0532 0130 00"
    assert get(client, "/ibans/validate", iban="DE88370400440532013000")["is_valid"] is False
