"""Currencies of ISO 4217 and the European Central Bank's reference rates of one day."""

from __future__ import annotations

import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated

import pycountry
from babel.numbers import get_currency_name, get_currency_precision, get_currency_symbol
from fastapi import APIRouter, Path, Query
from pydantic import BeforeValidator, Field

from sandbox.errors import NotFound, problems
from sandbox.fields import CURRENCY_PATTERN, Answer, LimitQuery, split_commas
from sandbox.paging import CURSOR_PATTERN, slice_by_cursor
from sandbox.reference import RateTable, ReferenceData, fold

router = APIRouter()

CurrencyQuery = Annotated[
    str, Query(pattern=CURRENCY_PATTERN, description="ISO 4217 currency code.", examples=["EUR", "USD"])
]


class Currency(Answer):
    """A currency."""

    code: str = Field(description="ISO 4217 code.", examples=["JPY"])
    numeric: str = Field(description="ISO 4217 numeric code, three digits.", examples=["392"])
    name: str = Field(description="English name.", examples=["Japanese Yen"])
    symbol: str = Field(description="Symbol as written in English.", examples=["¥"])
    minor_units: int = Field(description="Digits after the decimal point of an amount.", examples=[0])
    has_rate: bool = Field(description="Whether an exchange rate is published for it.")


class CurrencyList(Answer):
    """Some currencies, ordered by code."""

    items: list[Currency] = Field(description="Currencies.")
    next_cursor: str | None = Field(description="Cursor of the next part; null at the end.")


class ExchangeRates(Answer):
    """Rates of one base currency."""

    base: str = Field(description="ISO 4217 code of the base currency.")
    date: datetime.date = Field(description="Day the rates were published.")
    rates: dict[str, float] = Field(description="Units of each currency for one unit of the base currency.")


class Conversion(Answer):
    """An amount converted into another currency."""

    amount: float = Field(description="Amount given.")
    from_currency: str = Field(description="Currency of the amount given.")
    to_currency: str = Field(description="Currency of the result.")
    rate: float = Field(description="Units of the target currency for one unit of the source currency.")
    result: float = Field(description="Converted amount, rounded to the target currency's minor units.")
    date: datetime.date = Field(description="Day the rate was published.")


@router.get("/currencies", responses=problems(422))
def list_currencies(
    reference: ReferenceData,
    name: Annotated[
        str | None, Query(min_length=1, max_length=60, description="Only currencies whose English name contains this.")
    ] = None,
    cursor: Annotated[
        str | None, Query(pattern=CURSOR_PATTERN, description="The `next_cursor` of the part before.")
    ] = None,
    limit: LimitQuery = 50,
) -> CurrencyList:
    """List currencies ordered by code, or find the code of a currency by its name.

    Follow `next_cursor` until it is null to see all.
    """
    entries = sorted(pycountry.currencies, key=lambda entry: str(entry.alpha_3))
    currencies = [_currency(entry, reference.rates) for entry in entries]
    if name is not None:
        currencies = [currency for currency in currencies if fold(name) in fold(currency.name)]
    items, next_cursor = slice_by_cursor(currencies, cursor, limit)
    return CurrencyList(items=items, next_cursor=next_cursor)


@router.get("/currencies/{code}", responses=problems(404))
def get_currency(
    reference: ReferenceData,
    code: Annotated[str, Path(pattern=CURRENCY_PATTERN, description="ISO 4217 currency code.", examples=["CHF"])],
) -> Currency:
    """Get the name, symbol and number of minor units of a currency by its code."""
    entry = pycountry.currencies.get(alpha_3=code)
    if entry is None:
        raise NotFound(f"no currency has the ISO 4217 code {code}")
    return _currency(entry, reference.rates)


def _currency(entry: pycountry.db.Data, rates: RateTable) -> Currency:
    code = str(entry.alpha_3)
    return Currency(
        code=code,
        numeric=entry.numeric,
        name=get_currency_name(code, locale="en"),
        symbol=get_currency_symbol(code, locale="en"),
        minor_units=get_currency_precision(code),
        has_rate=code in rates.per_euro,
    )


@router.get("/exchange-rates", responses=problems(404))
def get_exchange_rates(
    reference: ReferenceData,
    base: CurrencyQuery = "EUR",
    symbols: Annotated[
        list[Annotated[str, Field(pattern=CURRENCY_PATTERN)]] | None,
        BeforeValidator(split_commas),
        Query(
            min_length=1,
            max_length=50,
            description="Only these currencies, separated by commas.",
            examples=[["USD", "GBP"]],
            json_schema_extra={"x-explode": False},
        ),
    ] = None,
) -> ExchangeRates:
    """Get the published exchange rates of one base currency against others.

    To convert an amount, use the conversion endpoint instead.
    """
    table = reference.rates
    wanted = symbols or [code for code in table.per_euro if code != base]
    return ExchangeRates(
        base=base, date=table.day, rates={code: _significant(table.rate(base, code)) for code in wanted}
    )


@router.get("/exchange-rates/convert", responses=problems(404))
def convert_currency(
    reference: ReferenceData,
    amount: Annotated[
        float, Query(ge=0, le=1e12, allow_inf_nan=False, description="Amount to convert.", examples=[250])
    ],
    from_currency: Annotated[
        str, Query(pattern=CURRENCY_PATTERN, description="ISO 4217 code of the amount's currency.", examples=["USD"])
    ],
    to_currency: Annotated[
        str, Query(pattern=CURRENCY_PATTERN, description="ISO 4217 code of the currency wanted.", examples=["EUR"])
    ],
) -> Conversion:
    """Convert an amount of money from one currency into another at the published rate."""
    table = reference.rates
    rate = table.rate(from_currency, to_currency)
    return Conversion(
        amount=amount,
        from_currency=from_currency,
        to_currency=to_currency,
        rate=_significant(rate),
        result=round_money(Decimal(str(amount)) * rate, to_currency),
        date=table.day,
    )


def round_money(amount: Decimal, currency: str) -> float:
    """`amount` rounded half to even at the currency's minor units."""
    return float(amount.quantize(Decimal(1).scaleb(-get_currency_precision(currency)), ROUND_HALF_EVEN))


def _significant(rate: Decimal) -> float:
    return float(f"{rate:.8g}")
