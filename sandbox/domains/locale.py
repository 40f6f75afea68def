"""Numbers, money and dates as people of a locale write them (CLDR, by babel)."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from babel import Locale, UnknownLocaleError, dates, numbers
from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.errors import NotFound, problems
from sandbox.fields import CURRENCY_PATTERN, Answer, Day, LocalePath

router = APIRouter()


class FormattedText(Answer):
    """Something written in a locale's way."""

    locale: str = Field(description="Locale.", examples=["de-DE"])
    formatted: str = Field(description="The text.", examples=["1.234.567,89"])


def _find_locale(tag: str) -> Locale:
    try:
        return Locale.parse(tag, sep="-")
    except (UnknownLocaleError, ValueError):
        raise NotFound(f"no locale {tag} is known") from None


@router.get("/locales/{locale}/currency", responses=problems(404))
def format_currency(
    locale: LocalePath,
    amount: Annotated[float, Query(ge=-1e15, le=1e15, allow_inf_nan=False, description="Amount.", examples=[1299.5])],
    currency: Annotated[str, Query(pattern=CURRENCY_PATTERN, description="ISO 4217 currency code.", examples=["EUR"])],
) -> FormattedText:
    """Write an amount of money the way people of a locale do. It is formatted only, not converted."""
    text = numbers.format_currency(Decimal(str(amount)), currency, locale=_find_locale(locale))
    return FormattedText(locale=locale, formatted=text)


@router.get("/locales/{locale}/date", responses=problems(404))
def format_date(
    locale: LocalePath,
    date: Annotated[Day, Query(description="Date to format.")],
    style: Annotated[Literal["short", "medium", "long", "full"], Query(description="How long the text is.")] = "long",
) -> FormattedText:
    """Write a date the way people of a locale do, short or in full with the weekday."""
    return FormattedText(locale=locale, formatted=dates.format_date(date, format=style, locale=_find_locale(locale)))
