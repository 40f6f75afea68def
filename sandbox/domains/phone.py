"""Telephone numbers, by Google's libphonenumber."""

from __future__ import annotations

from typing import Annotated, Literal

import phonenumbers
from fastapi import APIRouter, Path, Query
from phonenumbers import NumberParseException, PhoneNumberFormat, PhoneNumberType
from phonenumbers import timezone as phone_timezone
from pydantic import Field

from sandbox.errors import NotFound, Unprocessable, problems
from sandbox.fields import COUNTRY_PATTERN, Answer
from sandbox.reference import ReferenceData

router = APIRouter()

NumberType = Literal["fixed_line", "mobile", "fixed_line_or_mobile", "toll_free", "premium_rate", "voip", "other"]
_TYPES: dict[int, NumberType] = {
    PhoneNumberType.FIXED_LINE: "fixed_line",
    PhoneNumberType.MOBILE: "mobile",
    PhoneNumberType.FIXED_LINE_OR_MOBILE: "fixed_line_or_mobile",
    PhoneNumberType.TOLL_FREE: "toll_free",
    PhoneNumberType.PREMIUM_RATE: "premium_rate",
    PhoneNumberType.VOIP: "voip",
}


class PhoneNumber(Answer):
    """A telephone number taken apart."""

    e164: str = Field(description="Number in E.164 form.", examples=["+493012345678"])
    international: str = Field(description="Number as dialled from abroad.", examples=["+49 30 12345678"])
    national: str = Field(description="Number as dialled inside the country.", examples=["030 12345678"])
    calling_code: str = Field(description="International calling code, without plus.", examples=["49"])
    country_code: str | None = Field(
        description="Alpha-2 code of the country; null where there is none.", examples=["DE"]
    )
    type: NumberType = Field(description="Kind of number.")
    is_valid: bool = Field(description="Whether the number can exist under the country's numbering plan.")
    timezones: list[str] = Field(description="IANA time zones the number may be in.", examples=[["Europe/Berlin"]])


class CallingCode(Answer):
    """Countries behind a calling code."""

    calling_code: str = Field(description="International calling code, without plus.")
    country_codes: list[str] = Field(
        description="Alpha-2 codes of its countries, the main one first.", examples=[["US", "CA"]]
    )


@router.get("/phone-numbers/parse", responses=problems(404))
def parse_phone_number(
    reference: ReferenceData,
    number: Annotated[
        str,
        Query(
            min_length=2,
            max_length=40,
            description="Number as written, best with plus and calling code.",
            examples=["+49 30 12345678"],
        ),
    ],
    country_code: Annotated[
        str | None,
        Query(
            pattern=COUNTRY_PATTERN, description="Alpha-2 code of the country of a number written without calling code."
        ),
    ] = None,
) -> PhoneNumber:
    """Take a telephone number apart and check it.

    Tells its country, calling code, kind, possible time zones, standard forms and whether it is valid.
    """
    if country_code is not None:
        reference.country(country_code)
    try:
        parsed = phonenumbers.parse(number, country_code)
    except NumberParseException as error:
        raise Unprocessable(f"this is no telephone number: {error}") from None
    return _describe(parsed)


def _describe(number: phonenumbers.PhoneNumber) -> PhoneNumber:
    region = phonenumbers.region_code_for_number(number)
    return PhoneNumber(
        e164=phonenumbers.format_number(number, PhoneNumberFormat.E164),
        international=phonenumbers.format_number(number, PhoneNumberFormat.INTERNATIONAL),
        national=phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL),
        calling_code=str(number.country_code),
        country_code=None if region == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY else region,
        type=_TYPES.get(phonenumbers.number_type(number), "other"),
        is_valid=phonenumbers.is_valid_number(number),
        timezones=[
            zone for zone in phone_timezone.time_zones_for_number(number) if zone != phone_timezone.UNKNOWN_TIMEZONE
        ],
    )


@router.get("/calling-codes/{calling_code}", responses=problems(404))
def get_calling_code(
    calling_code: Annotated[
        str, Path(pattern="^[1-9][0-9]{0,2}$", description="Calling code, without plus.", examples=["49"])
    ],
) -> CallingCode:
    """Find which countries an international calling code belongs to."""
    regions = [
        region
        for region in phonenumbers.region_codes_for_country_code(int(calling_code))
        if region != phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY
    ]
    if not regions:
        raise NotFound(f"no country has the calling code {calling_code}")
    return CallingCode(calling_code=calling_code, country_codes=regions)
