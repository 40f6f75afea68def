"""A list of reminders, protected by HTTP basic. Creating takes no idempotency key: sent twice, it creates two."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from sandbox.errors import problems
from sandbox.fields import Answer, Body, Instant, PageQuery, SizeQuery
from sandbox.paging import count_pages
from sandbox.security import NeedsBasic
from sandbox.state import Collection, SandboxState, State

router = APIRouter(dependencies=[NeedsBasic])

Priority = Literal["low", "normal", "high"]
ReminderPath = Annotated[str, Path(pattern=r"^rem_[0-9]{1,9}$", description="Id of the reminder.", examples=["rem_1"])]


class NewReminder(Body):
    """Something to be reminded of."""

    text: str = Field(min_length=1, max_length=300, description="What to remember.", examples=["Call the florist"])
    due_at: Instant = Field(description="When, with the offset from UTC.", examples=["2026-12-24T09:00:00Z"])
    priority: Priority = Field(default="normal", description="How urgent it is.")
    tags: list[Annotated[str, Field(min_length=1, max_length=30)]] = Field(
        default=[], max_length=10, description="Words to find it by.", examples=[["home"]]
    )


class ReminderChanges(Body):
    """What to change in a reminder; what is left out stays."""

    text: str | None = Field(default=None, min_length=1, max_length=300, description="New text.")
    due_at: Instant | None = Field(default=None, description="New time.")
    priority: Priority | None = Field(default=None, description="New priority.")
    done: bool | None = Field(default=None, strict=True, description="Whether it is done.")


class Reminder(Answer):
    """A reminder."""

    id: str = Field(description="Id of the reminder.", examples=["rem_1"])
    text: str = Field(description="What to remember.")
    due_at: datetime.datetime = Field(description="When.")
    priority: Priority = Field(description="How urgent it is.")
    tags: list[str] = Field(description="Words to find it by.")
    done: bool = Field(description="Whether it is done.")


class ReminderPage(Answer):
    """One page of reminders, the next due first."""

    items: list[Reminder] = Field(description="Reminders on this page.")
    page: int = Field(description="Number of this page.")
    size: int = Field(description="Largest number of items a page.")
    total: int = Field(description="Number of reminders that match.")
    pages: int = Field(description="Number of pages.")


def _reminders(state: SandboxState) -> Collection[Reminder]:
    return state.collection(Reminder, "reminder", "rem")


@router.post("/reminders", status_code=201, responses=problems(409))
async def create_reminder(state: State, body: NewReminder) -> Reminder:
    """Create a reminder of something at a time."""
    return _reminders(state).add(lambda identifier: Reminder(id=identifier, done=False, **body.model_dump()))


@router.get("/reminders")
async def list_reminders(
    state: State,
    done: Annotated[bool | None, Query(description="Only those that are done, or only those that are not.")] = None,
    tag: Annotated[str | None, Query(min_length=1, max_length=30, description="Only those with this tag.")] = None,
    due_before: Annotated[Instant | None, Query(description="Only those due before this moment.")] = None,
    page: PageQuery = 1,
    size: SizeQuery = 20,
) -> ReminderPage:
    """List reminders, the next due first."""
    found = [
        reminder
        for reminder in _reminders(state)
        if done in (None, reminder.done)
        and (tag is None or tag in reminder.tags)
        and (due_before is None or reminder.due_at < due_before)
    ]
    found.sort(key=lambda reminder: reminder.due_at)
    items = found[(page - 1) * size : page * size]
    return ReminderPage(items=items, page=page, size=size, total=len(found), pages=count_pages(len(found), size))


@router.get("/reminders/{reminder_id}", responses=problems(404))
async def get_reminder(state: State, reminder_id: ReminderPath) -> Reminder:
    """Get one reminder by its id."""
    return _reminders(state).get(reminder_id)


@router.patch("/reminders/{reminder_id}", responses=problems(404))
async def update_reminder(state: State, reminder_id: ReminderPath, body: ReminderChanges) -> Reminder:
    """Change a reminder or mark it as done."""
    reminders = _reminders(state)
    changed = reminders.get(reminder_id).model_copy(update=body.model_dump(exclude_none=True))
    return reminders.replace(reminder_id, changed)


@router.delete("/reminders/{reminder_id}", status_code=204, responses=problems(404))
async def delete_reminder(state: State, reminder_id: ReminderPath) -> None:
    """Delete a reminder for good."""
    _reminders(state).remove(reminder_id)
