"""QR codes (segno) and bank account numbers (python-stdnum)."""

from __future__ import annotations

from typing import Annotated, Literal

import segno
from fastapi import APIRouter, Query
from pydantic import Field
from stdnum import iban as iban_number
from stdnum.exceptions import ValidationError

from sandbox.errors import Unprocessable
from sandbox.fields import Answer, Body

router = APIRouter()

ErrorCorrection = Literal["L", "M", "Q", "H"]


class QrCodeBody(Body):
    """What a QR code says and how robust it is."""

    content: str = Field(
        min_length=1, max_length=1000, description="Text or address.", examples=["https://example.com"]
    )
    error_correction: ErrorCorrection = Field(
        default="M", description="Share that may be damaged: L 7%, M 15%, Q 25%, H 30%."
    )


class QrCode(Answer):
    """A QR code."""

    version: int = Field(description="Version 1 to 40; the higher, the larger.")
    error_correction: ErrorCorrection = Field(description="Error correction level; raised where it costs no space.")
    modules: int = Field(description="Dots on each side, without border.")
    svg_data_uri: str = Field(description="The picture as SVG in a data URI.")


class Iban(Answer):
    """An international bank account number, checked."""

    iban: str = Field(description="The number without spaces, in capitals.", examples=["DE89370400440532013000"])
    is_valid: bool = Field(description="Whether length, structure and check digits are right.")
    country_code: str | None = Field(
        description="Alpha-2 code of the account's country; null if invalid.", examples=["DE"]
    )
    formatted: str | None = Field(description="The number in groups of four; null if invalid.")


def _make(content: str, error_correction: ErrorCorrection) -> segno.QRCode:
    try:
        return segno.make_qr(content, error=error_correction)
    except (segno.DataOverflowError, ValueError) as error:
        raise Unprocessable(f"this content does not fit into a QR code: {error}") from None


@router.post("/qr-codes")
def create_qr_code(body: QrCodeBody) -> QrCode:
    """Make a QR code from a text and get its version, size and picture as a data URI. Nothing is stored."""
    code = _make(body.content, body.error_correction)
    level = code.error or body.error_correction
    return QrCode.model_validate(
        {
            "version": code.version,
            "error_correction": level,
            "modules": code.symbol_size(border=0)[0],
            "svg_data_uri": code.svg_data_uri(),
        }
    )


@router.get("/ibans/validate")
def validate_iban(
    iban: Annotated[
        str,
        Query(
            min_length=4, max_length=50, description="Number, spaces allowed.", examples=["DE89 3704 0044 0532 0130 00"]
        ),
    ],
) -> Iban:
    """Check an international bank account number (IBAN) and tell which country the account is in."""
    compact = iban_number.compact(iban)
    try:
        valid = iban_number.validate(iban)
    except ValidationError:
        return Iban(iban=compact, is_valid=False, country_code=None, formatted=None)
    return Iban(iban=valid, is_valid=True, country_code=valid[:2], formatted=iban_number.format(valid))
