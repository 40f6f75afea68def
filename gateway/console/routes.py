"""All routes of the console."""

from fastapi import APIRouter

from gateway.console import access, catalogue, importing, ops, playground, rerun, runs


def console_routers() -> list[APIRouter]:
    """The console's screens."""
    return [
        access.open_router,
        access.router,
        runs.router,
        rerun.router,
        playground.router,
        importing.router,
        catalogue.router,
        ops.router,
    ]
