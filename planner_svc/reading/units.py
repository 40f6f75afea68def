"""Units of time, mass, length, volume, data, speed, temperature, money: what is said, and what an argument takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from planner_svc.reading.profile import Slot
from planner_svc.reading.text import split_name, without_look_alikes, word_set

Dimension = Literal["time", "months", "mass", "length", "volume", "data", "speed", "temperature", "money"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its dimension, its size in the dimension's smallest, and where it has its 0."""

    kind: Dimension
    size: float
    zero: float = 0


SMALLEST: Final = Unit("money", 1)
"""The smallest unit of a currency, whose size depends on the currency."""
_NAMES: Final[dict[Unit, str]] = {
    Unit("time", 0.001): "ms milliseconds millisecond millis",
    Unit("time", 1): "seconds second secs sec s",
    Unit("time", 60): "minutes minute mins min",
    Unit("time", 3_600): "hours hour hrs hr h",
    Unit("time", 86_400): "days day nights night",
    Unit("time", 604_800): "weeks week",
    Unit("time", 1_209_600): "fortnights fortnight",
    Unit("months", 1): "months month",
    Unit("months", 12): "years year",
    Unit("mass", 0.001): "mg milligrams milligram milligrammes",
    Unit("mass", 1): "g grams gram grammes",
    Unit("mass", 1_000): "kg kgs kilograms kilogram kilos kilo",
    Unit("mass", 1_000_000): "tonnes tonne",
    Unit("mass", 28.349523125): "oz ounces ounce",
    Unit("mass", 453.59237): "lb lbs",
    Unit("length", 1): "mm millimeters millimetres millimeter millimetre",
    Unit("length", 10): "cm centimeters centimetres centimeter centimetre",
    Unit("length", 1_000): "m meters metres meter metre",
    Unit("length", 1_000_000): "km kilometers kilometres kilometer kilometre",
    Unit("length", 25.4): "inches inch",
    Unit("length", 304.8): "ft feet foot",
    Unit("length", 914.4): "yards yard",
    Unit("length", 1_609_344): "miles mile",
    Unit("volume", 1): "ml milliliters millilitres milliliter millilitre",
    Unit("volume", 10): "cl centiliters centilitres",
    Unit("volume", 1_000): "l liters litres liter litre",
    Unit("data", 1): "bytes byte",
    Unit("data", 1e3): "kb kilobytes kilobyte",
    Unit("data", 1e6): "mb megabytes megabyte",
    Unit("data", 1e9): "gb gigabytes gigabyte",
    Unit("data", 1e12): "tb terabytes terabyte",
    Unit("speed", 1): "km/h kmh kph",
    Unit("speed", 3.6): "m/s mps",
    Unit("speed", 1.609344): "mph",
    Unit("speed", 1.852): "knots knot kn kts",
    Unit("temperature", 1): "celsius °c",
    Unit("temperature", 5 / 9, -160 / 9): "fahrenheit °f",
    SMALLEST: "cents cent pence",
}
UNIT_WORDS: Final[dict[str, Unit]] = {name: unit for unit, names in _NAMES.items() for name in names.split()}
"""Units by their names and symbols, as they are written after an amount."""
_AMBIGUOUS: Final = word_set("ms s h g m l min second minute hour day night week month year foot mile")
"""Names that are something else as the only word of an argument's name: "min" for the least, "hour" of the day."""
_STATED: Final = re.compile(
    rf"\bin\s+(?:decimal\s+|whole\s+|full\s+)?(?P<unit>{'|'.join(sorted(UNIT_WORDS, key=len, reverse=True))})\b"
    r"|(?P<minor>\b(?:smallest|minor)\s+(?:currency\s+)?(?:denomination|unit)s?\b)",
    re.IGNORECASE,
)
_MAX_TEXT: Final = 600


def unit_of(slot: Slot) -> Unit | None:
    """The unit that an argument's name or its description states; None if there is none, or there are several."""
    name = split_name(slot.name)
    last = name[-1] if name and "per" not in name else ""
    found = {UNIT_WORDS[last]} if last in UNIT_WORDS and not (len(name) == 1 and last in _AMBIGUOUS) else set()
    described = slot.parameter.description or str(slot.parameter.json_schema.get("description", ""))
    for match in _STATED.finditer(without_look_alikes(described[:_MAX_TEXT])):
        found.add(SMALLEST if match["minor"] else UNIT_WORDS[match["unit"].lower()])
    return found.pop() if len(found) == 1 else None


def converted(amount: int | float, unit: Unit, to: Unit) -> int | float:
    """The amount in another unit of its dimension, or in the same."""
    if unit == to:
        return amount
    value = round((amount * unit.size + unit.zero - to.zero) / to.size, 6)
    return int(value) if value.is_integer() else value
