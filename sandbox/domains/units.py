"""Units of measurement, converted by pint. Only listed units are accepted: pint's own syntax evaluates expressions."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.errors import Unprocessable
from sandbox.fields import Answer
from sandbox.reference import ReferenceData

router = APIRouter()

Dimension = Literal[
    "length", "mass", "temperature", "volume", "area", "speed", "time", "energy", "power", "pressure", "data", "angle"
]
_UNITS: dict[Dimension, tuple[str, ...]] = {
    "length": (
        "millimeter", "centimeter", "meter", "kilometer", "inch", "foot", "yard", "mile", "nautical_mile", "light_year",
    ),
    "mass": ("milligram", "gram", "kilogram", "metric_ton", "ounce", "pound", "stone", "carat"),
    "temperature": ("celsius", "fahrenheit", "kelvin"),
    "volume": (
        "milliliter", "liter", "cubic_meter", "teaspoon", "tablespoon", "fluid_ounce", "cup", "pint", "quart", "gallon",
        "imperial_gallon",
    ),
    "area": ("square_meter", "square_kilometer", "hectare", "acre", "square_foot", "square_mile"),
    "speed": ("meter_per_second", "kilometer_per_hour", "mile_per_hour", "knot"),
    "time": ("millisecond", "second", "minute", "hour", "day", "week"),
    "energy": ("joule", "kilojoule", "calorie", "kilocalorie", "watt_hour", "kilowatt_hour", "british_thermal_unit"),
    "power": ("watt", "kilowatt", "megawatt", "horsepower"),
    "pressure": ("pascal", "kilopascal", "bar", "atmosphere", "psi", "mmHg"),
    "data": ("bit", "byte", "kilobyte", "megabyte", "gigabyte", "terabyte", "kibibyte", "mebibyte", "gibibyte"),
    "angle": ("degree", "radian", "turn"),
}  # fmt: skip
_DIMENSION_OF = {unit: dimension for dimension, units in _UNITS.items() for unit in units}
# Unit names that pint spells differently.
_PINT_NAMES = {
    "celsius": "degree_Celsius",
    "fahrenheit": "degree_Fahrenheit",
    "cubic_meter": "meter ** 3",
    "square_meter": "meter ** 2",
    "square_kilometer": "kilometer ** 2",
    "square_foot": "foot ** 2",
    "square_mile": "mile ** 2",
    "meter_per_second": "meter / second",
    "kilometer_per_hour": "kilometer / hour",
    "mile_per_hour": "mile / hour",
    "kilowatt_hour": "kilowatt * hour",
}


class ConvertedQuantity(Answer):
    """A quantity in another unit."""

    value: float = Field(description="Value given.")
    from_unit: str = Field(description="Unit of the value given.")
    result: float = Field(description="Value in the other unit, to twelve significant digits.")
    to_unit: str = Field(description="Unit of the result.")
    dimension: Dimension = Field(description="What both units measure.")


def _check_unit(name: str) -> str:
    if name not in _DIMENSION_OF:
        raise Unprocessable(f"{name} is not a unit of the list of units")
    return name


@router.get("/units/convert")
async def convert_units(
    reference: ReferenceData,
    value: Annotated[
        float, Query(ge=-1e15, le=1e15, allow_inf_nan=False, description="Value to convert.", examples=[26.2])
    ],
    from_unit: Annotated[
        str,
        Query(description="Unit of the value.", examples=["mile"], json_schema_extra={"enum": list(_DIMENSION_OF)}),
    ],
    to_unit: Annotated[
        str,
        Query(description="Unit wanted.", examples=["kilometer"], json_schema_extra={"enum": list(_DIMENSION_OF)}),
    ],
) -> ConvertedQuantity:
    """Convert a value between two units of measurement of the same dimension. Money is converted elsewhere."""
    source, target = _DIMENSION_OF[_check_unit(from_unit)], _DIMENSION_OF[_check_unit(to_unit)]
    if source != target:
        raise Unprocessable(f"{from_unit} measures {source}, {to_unit} measures {target}")
    registry = reference.unit_registry
    names = (_PINT_NAMES.get(unit, unit) for unit in (from_unit, to_unit))
    start, end = (registry.Unit(name) for name in names)
    result = float(registry.Quantity(value, start).to(end).magnitude)
    if not math.isfinite(result):
        raise Unprocessable("the result is too large")
    return ConvertedQuantity(
        value=value, from_unit=from_unit, result=float(f"{result:.12g}"), to_unit=to_unit, dimension=source
    )
