"""The list of campaigns: which fire, on which store, on which hop."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from sqlalchemy import make_url
from yarl import URL

from deploy.sockets import free_port
from tests.chaos.campaigns import Campaign
from tests.chaos.fires import (
    Fire,
    Scene,
    break_connections,
    fill_disk,
    kill_executors,
    kill_postgres,
    pause_executors,
)
from tests.chaos.house import Zygote, open_house
from tests.chaos.proxy import FaultProxy, open_proxy
from tests.chaos.stores import Store, open_postgres
from tests.chaos.upstream import serve_upstream


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of a campaign.

    Attributes:
        processes: how many executors share the store.
        wanted: the number of strikes of a full campaign.
        share: its share of the whole time.
        hop: the hop whose connections go through proxies.
        step_deadline_s: see :class:`Campaign`.
        max_takeovers: after this number of takeovers the executor gives a run up.
    """

    name: str
    store: Literal["sqlite", "postgresql"]
    processes: int
    fire: Fire
    wanted: int
    share: float
    hop: Literal["caller", "upstream", "database"] | None = None
    step_deadline_s: float | None = None
    max_takeovers: int = 1_000_000


SETUPS = (
    Setup("kill executors, sqlite", "sqlite", 2, kill_executors, 500, 0.27),
    Setup("kill executors, postgresql", "postgresql", 3, kill_executors, 500, 0.27),
    Setup("kill executors until runs are given up", "sqlite", 2, kill_executors, 50, 0.03, None, 30.0, 1),
    Setup("pause executors", "postgresql", 3, pause_executors, 30, 0.09),
    Setup("kill postgresql", "postgresql", 3, kill_postgres, 50, 0.14),
    Setup("full disk", "sqlite", 2, fill_disk, 20, 0.06),
    Setup("break caller to executor", "sqlite", 2, break_connections, 18, 0.05, "caller"),
    Setup("break executor to upstream", "sqlite", 2, break_connections, 18, 0.06, "upstream", 2.0),
    Setup("break executor to database", "postgresql", 3, break_connections, 18, 0.06, "database"),
)


@asynccontextmanager
async def open_campaign(setup: Setup, zygote: Zygote, rng: random.Random) -> AsyncIterator[Campaign]:
    """Open everything that a campaign needs; close it at the end."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(_open_store(setup.store))
        upstream = await stack.enter_async_context(serve_upstream(rng))
        url, origin, ports = store.url, upstream.origin, [free_port() for _ in range(setup.processes)]
        fronts, proxies = list(ports), list[FaultProxy]()

        async def proxied(port: int | None) -> int:
            assert port is not None
            proxies.append(await stack.enter_async_context(open_proxy("127.0.0.1", port, rng)))
            return proxies[-1].port

        if setup.hop == "caller":
            fronts = [await proxied(port) for port in ports]
        elif setup.hop == "upstream":
            origin = str(URL(origin).with_port(await proxied(URL(origin).port))).rstrip("/")
        elif setup.hop == "database":
            url = make_url(url).set(port=await proxied(make_url(url).port)).render_as_string(hide_password=False)
        served = dict(zip(ports, fronts, strict=True))
        opening = open_house(zygote, url, served, rng, max_takeovers=setup.max_takeovers)
        house = await stack.enter_async_context(opening)
        scene = Scene(house, store, rng, setup.wanted, tuple(proxies))
        yield Campaign(setup.name, scene, setup.fire, upstream, origin, setup.step_deadline_s)


@asynccontextmanager
async def _open_store(kind: str) -> AsyncIterator[Store]:
    if kind == "sqlite":
        with TemporaryDirectory(prefix="chaos") as folder:
            yield Store(f"sqlite+aiosqlite:///{Path(folder) / 'executor.db'}")
    else:
        async with open_postgres() as server:
            yield await server.database("chaos")
