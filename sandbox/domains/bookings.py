"""Meeting rooms and their bookings, protected by an API key. Creating supports `Idempotency-Key`."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from sandbox.errors import Conflict, NotFound, Unprocessable, problems
from sandbox.fields import Answer, Body, Day, LimitQuery, LocalTime, Money
from sandbox.paging import CURSOR_PATTERN, slice_by_cursor
from sandbox.reference import Reference, ReferenceData
from sandbox.security import NeedsApiKey
from sandbox.state import Collection, IdempotencyKey, SandboxState, State

router = APIRouter(dependencies=[NeedsApiKey])

_LONGEST = datetime.timedelta(hours=12)

Equipment = Literal["phone", "screen", "stage", "video", "whiteboard"]
BookingStatus = Literal["confirmed", "cancelled"]
BookingPath = Annotated[str, Path(pattern=r"^bkg_[0-9]{1,9}$", description="Id of the booking.", examples=["bkg_1"])]


class Room(Answer):
    """A meeting room."""

    id: str = Field(description="Id of the room.", examples=["room_cirrus"])
    name: str = Field(description="Name of the room.", examples=["Cirrus"])
    capacity: int = Field(description="Number of seats.")
    floor: int = Field(description="Floor it is on.")
    equipment: list[Equipment] = Field(description="What stands in it.")
    price_per_hour: Money = Field(description="Price of one hour.")


class NewBooking(Body):
    """A room to book."""

    room_id: str = Field(pattern=r"^room_[a-z]{1,20}$", description="Id of the room.", examples=["room_cirrus"])
    title: str = Field(min_length=1, max_length=120, description="What the meeting is about.", examples=["Planning"])
    start: LocalTime = Field(description="Start, local time of the office.", examples=["2026-12-01T09:00"])
    end: LocalTime = Field(description="End, at most twelve hours later.", examples=["2026-12-01T10:30"])
    attendees: int = Field(default=1, strict=True, ge=1, le=100, description="Number of people.")


class BookingChanges(Body):
    """What to change in a booking; what is left out stays."""

    title: str | None = Field(default=None, min_length=1, max_length=120, description="New title.")
    start: LocalTime | None = Field(default=None, description="New start.")
    end: LocalTime | None = Field(default=None, description="New end.")
    attendees: int | None = Field(default=None, strict=True, ge=1, le=100, description="New number of people.")


class Booking(Answer):
    """A booked room."""

    id: str = Field(description="Id of the booking.", examples=["bkg_1"])
    status: BookingStatus = Field(description="Whether it stands.")
    room_id: str = Field(description="Id of the room.")
    title: str = Field(description="What the meeting is about.")
    start: datetime.datetime = Field(json_schema_extra={"format": "local-date-time"}, description="Start, local time.")
    end: datetime.datetime = Field(json_schema_extra={"format": "local-date-time"}, description="End, local time.")
    attendees: int = Field(description="Number of people.")
    price: Money = Field(description="Price of the whole time.")


class BookingList(Answer):
    """Some bookings, in the order they were made."""

    items: list[Booking] = Field(description="Bookings.")
    next_cursor: str | None = Field(description="Cursor of the next part; null at the end.")


def _bookings(state: SandboxState) -> Collection[Booking]:
    return state.collection(Booking, "booking", "bkg")


def _rooms(reference: Reference) -> dict[str, Room]:
    return {row["id"]: Room(**row) for row in reference.rows("rooms")}


def _check(booking: Booking, room: Room, others: Collection[Booking]) -> Booking:
    """The booking with its price. Raises Unprocessable if it is not possible, Conflict if the room is taken."""
    length = booking.end - booking.start
    if not datetime.timedelta() < length <= _LONGEST:
        raise Unprocessable("end must be after start, by twelve hours at most")
    if booking.attendees > room.capacity:
        raise Unprocessable(f"{room.name} seats {room.capacity} people only")
    for other in others:
        overlaps = other.start < booking.end and booking.start < other.end
        if other.id != booking.id and other.status == "confirmed" and other.room_id == room.id and overlaps:
            raise Conflict(f"{room.name} is taken by booking {other.id} at that time")
    hours = length.total_seconds() / 3600
    price = Money(amount=round(room.price_per_hour.amount * hours, 2), currency=room.price_per_hour.currency)
    return booking.model_copy(update={"price": price})


@router.get("/rooms")
async def list_rooms(
    reference: ReferenceData,
    min_capacity: Annotated[int, Query(ge=1, le=100, description="Seats needed.")] = 1,
    equipment: Annotated[
        list[Equipment] | None, Query(max_length=5, description="Equipment needed; repeat the parameter for several.")
    ] = None,
) -> list[Room]:
    """List the meeting rooms that have enough seats and the equipment needed, the smallest first."""
    needed = set(equipment or ())
    rooms = _rooms(reference).values()
    fitting = [room for room in rooms if room.capacity >= min_capacity and needed <= set(room.equipment)]
    return sorted(fitting, key=lambda room: (room.capacity, room.id))


@router.post("/bookings", status_code=201, responses=problems(404, 409))
async def create_booking(
    reference: ReferenceData, state: State, response: Response, body: NewBooking, idempotency_key: IdempotencyKey = None
) -> Booking:
    """Book a meeting room for some time. The room must be free then and large enough."""

    def create() -> Booking:
        room = _rooms(reference).get(body.room_id)
        if room is None:
            raise NotFound(f"no room has the id {body.room_id}")
        bookings = _bookings(state)
        free = Money(amount=0, currency="EUR")
        draft = Booking(id="", status="confirmed", price=free, **body.model_dump())
        checked = _check(draft, room, bookings)
        return bookings.add(lambda identifier: checked.model_copy(update={"id": identifier}))

    return state.idempotency.once("createBooking", idempotency_key, body, response, create)


@router.get("/bookings")
async def list_bookings(
    state: State,
    room_id: Annotated[str | None, Query(pattern=r"^room_[a-z]{1,20}$", description="Only this room.")] = None,
    date: Annotated[Day | None, Query(description="Only bookings that start on this day.")] = None,
    status: Annotated[BookingStatus | None, Query(description="Only bookings in this state.")] = None,
    cursor: Annotated[
        str | None, Query(pattern=CURSOR_PATTERN, description="The `next_cursor` of the part before.")
    ] = None,
    limit: LimitQuery = 20,
) -> BookingList:
    """List bookings, oldest first; follow `next_cursor` until it is null to see all."""
    found = [
        booking
        for booking in _bookings(state)
        if room_id in (None, booking.room_id)
        and date in (None, booking.start.date())
        and status in (None, booking.status)
    ]
    items, next_cursor = slice_by_cursor(found, cursor, limit)
    return BookingList(items=items, next_cursor=next_cursor)


@router.get("/bookings/{booking_id}", responses=problems(404))
async def get_booking(state: State, booking_id: BookingPath) -> Booking:
    """Get one booking by its id."""
    return _bookings(state).get(booking_id)


@router.patch("/bookings/{booking_id}", responses=problems(404, 409))
async def update_booking(
    reference: ReferenceData, state: State, booking_id: BookingPath, body: BookingChanges
) -> Booking:
    """Change the title, the time or the number of people of a booking that has not been cancelled."""
    bookings = _bookings(state)
    booking = bookings.get(booking_id)
    if booking.status == "cancelled":
        raise Conflict(f"booking {booking_id} is cancelled")
    changed = booking.model_copy(update=body.model_dump(exclude_none=True))
    return bookings.replace(booking_id, _check(changed, _rooms(reference)[booking.room_id], bookings))


@router.post("/bookings/{booking_id}/cancel", responses=problems(404))
async def cancel_booking(state: State, booking_id: BookingPath) -> Booking:
    """Cancel a booking.

    It stays in the list as cancelled and the room is free again. Cancelling twice changes nothing.
    """
    bookings = _bookings(state)
    return bookings.replace(booking_id, bookings.get(booking_id).model_copy(update={"status": "cancelled"}))
