"""A small catalogue with recorded requests: enough for conversations, quick to read."""

from pathlib import Path
from typing import Any

from tests.unit.evals.folders import folder

CITIES = (
    "Faro", "Beja", "Oslo", "Graz", "Lyon", "Bern", "Kiel", "Bath", "Nice", "Pisa", "Turin", "Gent", "Porto", "Braga",
    "Malmo", "Turku", "Split", "Zadar", "Delft", "Leeds",
)  # fmt: skip
_FIELD = {"type": "string", "required": True}


def _tool(name: str, description: str, parameters: dict[str, Any], *outputs: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "parameters": parameters,
        "outputs": {output: {"type": "string"} for output in outputs},
    }


TOOLS: list[dict[str, Any]] = [
    _tool("searchCities", "Find a city by its name", {"name": _FIELD}, "city_id", "country"),
    _tool("getForecast", "The weather forecast of a city", {"city_id": _FIELD, "days": {"type": "integer"}}, "summary"),
    _tool("getPopulation", "How many people live in a city", {"city_id": _FIELD}, "population"),
    _tool("sendMessage", "Send a text message to a person", {"to": _FIELD, "text": _FIELD}, "message_id"),
    _tool("cancelMessage", "Cancel a text message that was sent", {"message_id": _FIELD}, "state"),
    _tool("translateText", "Translate a text into another language", {"text": _FIELD, "language": _FIELD}, "text"),
    _tool("convertCurrency", "Convert an amount of money", {"amount": _FIELD | {"type": "number"}}, "amount"),
    _tool("listHolidays", "The public holidays of a country", {"country": _FIELD}, "date"),
    _tool(
        "bookTable", "Book a table at a restaurant", {"restaurant": _FIELD, "people": {"type": "integer"}}, "booking"
    ),
    _tool("findRecipe", "Find a recipe for a dish", {"dish": _FIELD}, "steps"),
    _tool("playSong", "Play a song on the speaker", {"title": _FIELD}, "track"),
    _tool("lockDoor", "Lock the door of a house", {"door": _FIELD}, "locked"),
]


def nested(city: str) -> dict[str, Any]:
    """Two calls, the second of which takes a field of the first."""
    calls = [
        {"api": "searchCities", "args": {"name": city}, "label": "var_1"},
        {"api": "getForecast", "args": {"city_id": "$var_1.city_id$", "days": 3}, "label": "var_2"},
    ]
    return {
        "id": f"nested-{city}",
        "split": "train",
        "query": f"Will it rain in {city} over three days?",
        "calls": calls,
    }


def single(city: str) -> dict[str, Any]:
    """One call."""
    calls = [{"api": "sendMessage", "args": {"to": city, "text": "hello"}, "label": "var_1"}]
    return {"id": f"single-{city}", "split": "train", "query": f"Text hello to my friend {city} now", "calls": calls}


def several(city: str) -> dict[str, Any]:
    """Two calls that take nothing from each other."""
    calls = [
        {"api": "findRecipe", "args": {"dish": f"{city} cake"}, "label": "var_1"},
        {"api": "playSong", "args": {"title": f"Song of {city}"}, "label": "var_2"},
    ]
    query = f"Look up how to bake {city} cake, and put on the Song of {city}"
    return {"id": f"several-{city}", "split": "train", "query": query, "calls": calls}


ROWS = [make(city) for city in CITIES for make in (nested, single, several)]


def small(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    """The folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return folder(path, TOOLS, rows)
