"""Alembic's entry point for the knowledge base."""

from demo_svc.storage import METADATA
from services.storage.migrate import run_env

run_env(METADATA)
