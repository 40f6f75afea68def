"""The company's address book, protected by a bearer token."""

from __future__ import annotations

import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from sandbox.errors import NotFound, problems
from sandbox.fields import Answer, LimitQuery
from sandbox.reference import ReferenceData, fold, match_rank
from sandbox.security import NeedsBearer

router = APIRouter(dependencies=[NeedsBearer])


class ContactSummary(Answer):
    """A person in a list."""

    id: str = Field(description="Id of the contact.", examples=["con_1"])
    name: str = Field(description="Full name.", examples=["Mia Keller"])
    department: str = Field(description="Department the person works in.", examples=["Design"])


class Contact(ContactSummary):
    """A person in detail."""

    email: str = Field(description="Email address.", examples=["mia.keller@example.org"])
    phone: str = Field(description="Telephone number in E.164 form.", examples=["+493023125100"])
    city: str = Field(description="City the person works in.", examples=["Berlin"])
    country_code: str = Field(description="Alpha-2 code of the country.", examples=["DE"])
    home_airport: str = Field(description="IATA code of the airport the person flies from.", examples=["BER"])
    birthday: datetime.date = Field(description="Date of birth.", examples=["1991-03-14"])


class ContactList(Answer):
    """People found, the best match first."""

    items: list[ContactSummary] = Field(description="People.")
    total: int = Field(description="Number of people that match.")


@router.get("/contacts")
async def search_contacts(
    reference: ReferenceData,
    name: Annotated[
        str | None, Query(min_length=2, max_length=80, description="Name or part of it.", examples=["Mia Keller"])
    ] = None,
    department: Annotated[str | None, Query(min_length=2, max_length=40, description="Only this department.")] = None,
    limit: LimitQuery = 10,
) -> ContactList:
    """Search colleagues in the address book by name or department and get their ids."""
    ranked = []
    for row in reference.rows("contacts"):
        rank = 0 if name is None else match_rank(fold(name), fold(row["name"]))
        if rank is not None and (department is None or fold(department) == fold(row["department"])):
            ranked.append((rank, row["name"], row))
    found = [row for *_, row in sorted(ranked, key=lambda item: item[:2])]
    items = [ContactSummary(id=row["id"], name=row["name"], department=row["department"]) for row in found[:limit]]
    return ContactList(items=items, total=len(found))


@router.get("/contacts/{contact_id}", responses=problems(404))
async def get_contact(
    reference: ReferenceData,
    contact_id: Annotated[str, Path(pattern=r"^con_[0-9]{1,6}$", description="Id of the contact.", examples=["con_1"])],
) -> Contact:
    """Get the details of one colleague: email, phone, city, country, home airport and birthday."""
    for row in reference.rows("contacts"):
        if row["id"] == contact_id:
            return Contact(**row)
    raise NotFound(f"no contact has the id {contact_id}")
