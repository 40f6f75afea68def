"""Fault injectors ("fires"). Each breaks things at random and counts its strikes. On cancellation it repairs them."""

import asyncio
import random
import resource
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from tests.chaos.house import House
from tests.chaos.proxy import Fault, FaultProxy
from tests.chaos.stores import Store


@dataclass
class Scene:
    """What a fire acts on. ``strikes`` counts the faults; a fire ends after ``wanted`` strikes.

    ``proxies``: the proxies through which all connections of one hop go.
    """

    house: House
    store: Store
    rng: random.Random
    wanted: int
    proxies: tuple[FaultProxy, ...] = ()
    strikes: int = 0

    @property
    def burning(self) -> bool:
        """Whether there are fewer strikes than wanted."""
        return self.strikes < self.wanted

    async def wait(self, least_s: float, most_s: float) -> None:
        """Wait for a random time between the limits."""
        await asyncio.sleep(self.rng.uniform(least_s, most_s))


Fire = Callable[[Scene], Coroutine[Any, Any, None]]


async def kill_executors(scene: Scene) -> None:
    """``kill -9`` one executor, sometimes all at once."""
    while scene.burning:
        await scene.wait(0.02, 0.35)
        everyone = scene.rng.random() < 0.05
        for slot in scene.house.slots if everyone else (scene.rng.choice(scene.house.slots),):
            scene.strikes += slot.signal(signal.SIGKILL)


async def pause_executors(scene: Scene) -> None:
    """``SIGSTOP`` an executor for about as long as others take to consider it dead, then ``SIGCONT``."""
    while scene.burning:
        slot = scene.rng.choice(scene.house.slots)
        try:
            scene.strikes += slot.signal(signal.SIGSTOP)
            await scene.wait(0.4, 1.5)
        finally:
            slot.signal(signal.SIGCONT)
        await scene.wait(0.0, 0.3)


async def kill_postgres(scene: Scene) -> None:
    """``kill -9`` the database server, or one of its processes, which makes it restart."""
    server = scene.store.server
    assert server is not None
    try:
        while scene.burning:
            await scene.wait(0.3, 1.2)
            await server.kill(scene.rng)
            scene.strikes += 1
            await scene.wait(0.0, 0.4)
            await server.start()
    finally:
        await server.start()


async def fill_disk(scene: Scene) -> None:
    """Limit files to at most a few more bytes, pages or transactions; remove the limit after a while."""
    database = Path(make_url(scene.store.url).database or "")
    try:
        while scene.burning:
            await scene.wait(0.2, 0.8)
            largest = max(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))
            room = scene.rng.choice((0, 1, 4_096, 100_000))
            _limit_files(scene, largest + room)
            scene.strikes += 1
            await scene.wait(0.3, 1.2)
            _limit_files(scene, resource.RLIM_INFINITY)
    finally:
        _limit_files(scene, resource.RLIM_INFINITY)


async def break_connections(scene: Scene) -> None:
    """Set each fault in turn for a while on all connections of a hop."""
    try:
        while scene.burning:
            await scene.wait(0.1, 0.4)
            await _set(scene, tuple(Fault)[scene.strikes % len(Fault)])
            scene.strikes += 1
            await scene.wait(0.3, 1.5)
            await _set(scene, None)
    finally:
        await _set(scene, None)


async def _set(scene: Scene, fault: Fault | None) -> None:
    await asyncio.gather(*(proxy.set(fault) for proxy in scene.proxies))


def _limit_files(scene: Scene, size: int) -> None:
    for slot in scene.house.slots:
        slot.limit_files(size)
