"""Descriptive statistics, by the standard library."""

from __future__ import annotations

import math
import statistics
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.errors import Unprocessable
from sandbox.fields import Answer, Body

router = APIRouter()

_LIMIT = 1e12
Number = Annotated[float, Field(ge=-_LIMIT, le=_LIMIT, allow_inf_nan=False)]
BodyNumber = Annotated[float, Field(strict=True, ge=-_LIMIT, le=_LIMIT, allow_inf_nan=False)]


class Summary(Answer):
    """What a list of numbers looks like."""

    count: int = Field(description="How many numbers.")
    sum: float = Field(description="Sum.")
    mean: float = Field(description="Arithmetic mean.")
    median: float = Field(description="Median.")
    minimum: float = Field(description="Smallest number.")
    maximum: float = Field(description="Largest number.")
    standard_deviation: float | None = Field(description="Sample standard deviation; null for a single number.")


class Pairs(Body):
    """Two lists of numbers of the same length."""

    x: list[BodyNumber] = Field(
        min_length=2, max_length=1000, description="Independent values.", examples=[[1, 2, 3, 4]]
    )
    y: list[BodyNumber] = Field(
        min_length=2, max_length=1000, description="Dependent values.", examples=[[2.1, 3.9, 6.2, 7.8]]
    )
    predict_at: BodyNumber | None = Field(default=None, description="Where to read a value off the line.", examples=[5])


class FittedLine(Answer):
    """The line that fits the pairs best."""

    slope: float = Field(description="Slope.")
    intercept: float = Field(description="Value at x = 0.")
    correlation: float | None = Field(description="Pearson's correlation coefficient; null where y is constant.")
    prediction: float | None = Field(description="Value of the line at `predict_at`; null if that was not given.")


@router.get("/statistics/summary")
def summarize_numbers(
    values: Annotated[
        list[Number],
        Query(
            min_length=1,
            max_length=500,
            description="Numbers, the parameter repeated for each.",
            examples=[[3, 5, 8, 13]],
        ),
    ],
) -> Summary:
    """Summarize a list of numbers: count, sum, mean, median, minimum, maximum and standard deviation."""
    return Summary(
        count=len(values),
        sum=_tidy(math.fsum(values)),
        mean=_tidy(statistics.fmean(values)),
        median=_tidy(statistics.median(values)),
        minimum=min(values),
        maximum=max(values),
        standard_deviation=_tidy(statistics.stdev(values)) if len(values) > 1 else None,
    )


@router.post("/statistics/regression")
def fit_line(pairs: Pairs) -> FittedLine:
    """Fit a straight line through pairs of numbers by least squares.

    Gives its slope, intercept and correlation, and optionally a prediction.
    """
    if len(pairs.x) != len(pairs.y):
        raise Unprocessable("x and y must have the same length")
    try:
        slope, intercept = statistics.linear_regression(pairs.x, pairs.y)
    except statistics.StatisticsError:
        raise Unprocessable("x is constant: no line can be fitted") from None
    try:
        correlation = statistics.correlation(pairs.x, pairs.y)
    except statistics.StatisticsError:
        correlation = None
    prediction = None if pairs.predict_at is None else intercept + slope * pairs.predict_at
    if not all(math.isfinite(value) for value in (slope, intercept, correlation or 0.0, prediction or 0.0)):
        raise Unprocessable("the pairs are too far apart to fit a line")
    return FittedLine(
        slope=_tidy(slope),
        intercept=_tidy(intercept),
        correlation=None if correlation is None else _tidy(correlation),
        prediction=None if prediction is None else _tidy(prediction),
    )


def _tidy(value: float) -> float:
    """The value rounded to ten significant digits, which removes floating-point noise."""
    return float(f"{value:.10g}")
