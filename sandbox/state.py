"""State of one sandbox app: capped in-memory collections, the idempotency ledger, OAuth2 tokens and lab counters."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar, cast

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel

from sandbox.errors import NotFound, StorageFull, Unprocessable
from sandbox.settings import Credentials, SandboxSettings

Item = TypeVar("Item", bound=BaseModel)
Result = TypeVar("Result", bound=BaseModel)


class Collection(Generic[Item]):
    """Items by id, oldest first, at most `cap` new ones. Ids are `<prefix>_<number>`, counted from 1, seed included."""

    def __init__(self, name: str, prefix: str, cap: int, seed: Sequence[Item] = ()) -> None:
        self._name, self._prefix, self._cap = name, prefix, cap + len(seed)
        self._items = {f"{prefix}_{number}": item for number, item in enumerate(seed, 1)}
        self._numbers = itertools.count(len(seed) + 1)

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def add(self, make: Callable[[str], Item]) -> Item:
        """Store what `make(id)` returns under a fresh id. Raises StorageFull at the cap."""
        if len(self._items) >= self._cap:
            raise StorageFull(f"this sandbox keeps at most {self._cap} {self._name}s")
        identifier = f"{self._prefix}_{next(self._numbers)}"
        item = self._items[identifier] = make(identifier)
        return item

    def get(self, identifier: str) -> Item:
        """One item. Raises NotFound."""
        try:
            return self._items[identifier]
        except KeyError:
            raise NotFound(f"no {self._name} has the id {identifier}") from None

    def replace(self, identifier: str, item: Item) -> Item:
        """Put `item` in the place of an existing one. Raises NotFound."""
        self.get(identifier)
        self._items[identifier] = item
        return item

    def remove(self, identifier: str) -> None:
        """Delete one item. Raises NotFound."""
        self.get(identifier)
        del self._items[identifier]


@dataclass(frozen=True, slots=True)
class _Remembered:
    fingerprint: str
    result: BaseModel


class IdempotencyLedger:
    """First answers by `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header). The oldest are evicted."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._answers: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()

    def once(
        self, operation: str, key: str | None, body: BaseModel, response: Response, action: Callable[[], Result]
    ) -> Result:
        """Run `action`, or return the first answer if `key` was used for the same body.

        A replay has the header `Idempotent-Replayed: true`. A failed action is not stored, so it can be retried. Raises
        Unprocessable if the key was used for another body (section 2.7 of the draft). `action` must not await:
        handlers that call this run on the event loop, which makes check and action atomic.
        """
        if key is None:
            return action()
        fingerprint = hashlib.sha256(body.model_dump_json().encode()).hexdigest()
        known = self._answers.get((operation, key))
        if known is None:
            result = action()
            self._answers[operation, key] = _Remembered(fingerprint, result)
            if len(self._answers) > self._cap:
                self._answers.popitem(last=False)
            return result
        if known.fingerprint != fingerprint:
            raise Unprocessable("this Idempotency-Key was used for a request with another body")
        response.headers["Idempotent-Replayed"] = "true"
        return cast(Result, known.result)


@dataclass(frozen=True, slots=True)
class Grant:
    """What one access token allows, until `expires_at` on the monotonic clock."""

    scopes: frozenset[str]
    expires_at: float


class TokenStore:
    """Opaque OAuth2 access tokens, stored as digests. Beyond `cap`, the oldest are evicted."""

    def __init__(self, lifetime: float, cap: int, clock: Callable[[], float]) -> None:
        self.lifetime = lifetime
        self._cap, self._clock = cap, clock
        self._grants: OrderedDict[str, Grant] = OrderedDict()

    def issue(self, scopes: frozenset[str]) -> str:
        """Issue a new token."""
        token = secrets.token_urlsafe(32)
        self._grants[self._digest(token)] = Grant(scopes, self._clock() + self.lifetime)
        if len(self._grants) > self._cap:
            self._grants.popitem(last=False)
        return token

    def find(self, token: str) -> Grant | None:
        """The grant of a token that was issued and has not expired."""
        digest = self._digest(token)
        grant = self._grants.get(digest)
        if grant is not None and grant.expires_at <= self._clock():
            del self._grants[digest]
            return None
        return grant

    @staticmethod
    def _digest(token: str) -> str:
        return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Counters:
    """Counters of calls by key, for the lab. Beyond `cap`, the least recently used are evicted."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._values: OrderedDict[tuple[str, ...], tuple[int, float]] = OrderedDict()

    def next(self, *key: str, start: float = 0.0) -> tuple[int, float]:
        """Count one more call: its number (from 1) and the `start` given with the first one."""
        count, first = self._values.pop(key, (0, start))
        self._values[key] = (count + 1, first)
        if len(self._values) > self._cap:
            self._values.popitem(last=False)
        return count + 1, first

    def forget(self, *key: str) -> None:
        """Reset the counter of this key."""
        self._values.pop(key, None)


class SandboxState:
    """All mutable state of one app. `now` and `clock` can be replaced in tests."""

    def __init__(self, settings: SandboxSettings) -> None:
        self.settings = settings
        self.credentials = Credentials.from_settings(settings)
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.clock: Callable[[], float] = time.monotonic
        self.idempotency = IdempotencyLedger(settings.max_items)
        self.tokens = TokenStore(settings.oauth_token_seconds, settings.max_items, self._read_clock)
        self.counters = Counters(settings.max_items)
        self.collections: dict[str, Any] = {}

    def _read_clock(self) -> float:
        return self.clock()

    def collection(
        self, kind: type[Item], name: str, prefix: str, seed: Callable[[], Sequence[Item]] = tuple
    ) -> Collection[Item]:
        """The collection of this kind of item. Created on first use with its seed (ids numbered from 1)."""
        if name not in self.collections:
            self.collections[name] = Collection[Item](name, prefix, self.settings.max_items, seed())
        return cast(Collection[Item], self.collections[name])


async def _state(request: Request) -> SandboxState:
    state = request.app.state.sandbox
    assert isinstance(state, SandboxState)
    return state


State = Annotated[SandboxState, Depends(_state)]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="Unique key of this request. Sent again with the same body, it returns the first answer again "
        "instead of repeating the effect; with another body it is refused with 422.",
        examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ),
]
