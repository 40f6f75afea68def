"""The executor's secrets by name, and whether upstreams take them."""

from typing import Literal

from pydantic import AwareDatetime, Field

from services.contracts.api import Api, Tenant
from services.contracts.base import Contract


class Credentials(Contract):
    """The names of the secrets the executor can present for a tenant. Never their values."""

    secrets: tuple[str, ...] = ()


SecretOutcome = Literal["accepted", "refused", "ready", "unclear", "unavailable"]


class TrySecret(Contract):
    """Try the credential of this name."""

    secret: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}\.[^\x00-\x1f]{1,400}$", description="`provider.scheme`")


class SecretTestRequest(Contract):
    """Present the credentials of an API, as `tenant` may use them, and, with `send`, call it without arguments."""

    api: Api
    tenant: Tenant | None = None
    send: bool = False


class SecretTest(Contract):
    """The result of presenting a credential. It never contains the credential's value.

    `accepted`: a call with it succeeded. `refused`: the upstream answered 401 or 403, or
    the token endpoint refused the client. `ready`: it can be presented (an
    OAuth2 token existed or was issued), and nothing was called. `unclear`: the response says nothing about it.
    `unavailable`: it cannot be presented.
    """

    outcome: SecretOutcome
    message: str


JournalChange = Literal["added", "changed", "removed"]


class JournalEntry(Contract):
    """A change of a configured secret, as an executor saw it. It never contains a value."""

    seq: int = Field(ge=1)
    at: AwareDatetime
    change: JournalChange
    secret: str
    detail: str = Field(description="Hosts, place, kind, tenants, names of its fields, and where it is configured.")
    account: str = Field(default="", description="Who changed it with `nestor secrets`; empty if that is not told.")


class JournalPage(Contract):
    """Entries of the journal, oldest first, and the number of its newest one (0: it is empty)."""

    entries: tuple[JournalEntry, ...]
    newest: int = Field(ge=0)
