"""Alembic's entry point for the catalogue."""

from retriever_svc.storage import METADATA
from services.storage.migrate import run_env

run_env(METADATA)
