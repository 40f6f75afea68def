"""Fixtures for an executor on a real socket with a real upstream."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from deploy.sockets import serving
from executor_svc.main import create_app
from executor_svc.settings import ExecutorSettings
from services.clients import ExecutorClient, open_http

Starter = Callable[..., Any]


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[Starter]:
    """Starts executors: `client = await started(secrets={...}, max_concurrent_runs=1)`."""
    async with AsyncExitStack() as stack:

        async def start(secrets: dict[str, Any] | None = None, **settings: Any) -> ExecutorClient:
            defaults = {
                "allowed_private_hosts": ("127.0.0.1",),
                "database_url": f"sqlite+aiosqlite:///{tmp_path}/executor.db",
            }
            chosen: dict[str, Any] = defaults | settings
            app = create_app(ExecutorSettings(secrets=SecretStr(json.dumps(secrets or {})), **chosen))
            server = serving(app)
            url = await asyncio.to_thread(server.__enter__)
            stack.push_async_callback(asyncio.to_thread, server.__exit__, None, None, None)
            client = ExecutorClient(open_http(url))
            stack.push_async_callback(client.aclose)
            return client

        yield start


@pytest.fixture
async def executor(started: Starter) -> ExecutorClient:
    client: ExecutorClient = await started()
    return client
