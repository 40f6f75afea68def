"""A real upstream, the adapter pointed at it, and executors on real databases."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pydantic import SecretStr

from executor_svc.adapters.http import open_http_adapter
from executor_svc.models import Call, CallResult
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from services.contracts.api import Api
from services.storage.engine import create_engine
from tests.support.durable import House

Caller = Callable[..., Coroutine[Any, Any, CallResult]]
Opener = Callable[..., Awaitable[Caller]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Opens adapters: `call = await opened(secrets={...}, max_attempts=1)`, then `await call(api, name=value)`."""
    async with AsyncExitStack() as stack:

        async def open_adapter(secrets: dict[str, Any] | None = None, **settings: Any) -> Caller:
            chosen: dict[str, Any] = {"allowed_private_hosts": ("127.0.0.1",), "retry_base_s": 0.01} | settings
            store = SecretStore.load(None, SecretStr(json.dumps(secrets or {})))
            adapter = await stack.enter_async_context(open_http_adapter(ExecutorSettings(**chosen), store))

            async def call(
                api: Api,
                /,
                within_s: float = 20.0,
                key: str = "run/step",
                resent: bool = False,
                tenant: str | None = None,
                pages_anywhere: bool = False,
                value_bytes: int = 0,
                **arguments: Any,
            ) -> CallResult:
                deadline = asyncio.get_running_loop().time() + within_s
                made = Call(
                    api,
                    arguments,
                    key,
                    deadline,
                    resent=resent,
                    tenant=tenant,
                    pages_anywhere=pages_anywhere,
                    value_bytes=value_bytes,
                )
                return await adapter.call(made)

            return call

        yield open_adapter


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    """Executors on one database, of either kind."""
    engine = create_engine(database_url)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        yield House(database_url, stack, engine)
