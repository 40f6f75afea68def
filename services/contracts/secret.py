"""The executor's secrets by name, and whether upstreams take them."""

from typing import Literal

from pydantic import Field

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

    `accepted`: a call with it succeeded. `refused`: the upstream answered 401 or 403. `ready`: it can be presented (an
    OAuth2 token existed or was issued), and nothing was called. `unclear`: the response says nothing about it.
    `unavailable`: it cannot be presented.
    """

    outcome: SecretOutcome
    message: str
