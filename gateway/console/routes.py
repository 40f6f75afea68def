"""All routes of the console."""

from fastapi import APIRouter

from gateway.console import access, cancelling, catalogue, ops, playground, review, runs


def console_routers() -> list[APIRouter]:
    """The console's screens."""
    screens = (access, cancelling, runs, review, playground, catalogue, ops)
    return [access.open_router, *(screen.router for screen in screens)]
