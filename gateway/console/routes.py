"""All routes of the console."""

from fastapi import APIRouter

from gateway.console import access, cancelling, catalogue, constants, importing, ops, playground, rerun, review, runs


def console_routers() -> list[APIRouter]:
    """The console's screens."""
    screens = (access, cancelling, runs, rerun, review, playground, importing, catalogue, constants, ops)
    return [access.open_router, *(screen.router for screen in screens)]
