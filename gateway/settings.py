"""Settings of the gateway."""

import ipaddress
from typing import Final, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from gateway.roles import Role
from services.contracts.planning import PolicyRule
from services.settings import HttpUrl, ServiceSettings, default_database_url
from services.storage.url import DatabaseUrl

TENANT: Final = r"^[A-Za-z0-9_.-]{1,100}$"
_BY_NAME: Final[dict[str, tuple[Role, ...]]] = {role.value: (role,) for role in Role}


class PrincipalSettings(BaseModel):
    """An app that may use the gateway. Runs belong to its tenant; its name is in the record of what it approves."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]*$")
    tenant: str = Field(default="default", pattern=TENANT)
    token: SecretStr = Field(min_length=8)
    roles: frozenset[Role] = Field(default=frozenset(Role), min_length=1)


def is_safe_url(url: str) -> bool:
    """Whether the URL authenticates its server: it uses https, or http on a loopback address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return bool(host)
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


class IssuerSettings(BaseModel):
    """An authorization server whose tokens (JWT) name principals.

    Attributes:
        name: its name in `/readyz`, metrics and the audit log.
        issuer: the exact value of its `iss` claim.
        audience: a token's `aud` must name one of these.
        jwks_url: URL of its keys; unset: as its metadata say.
        name_claim: the claim that names the principal. As for all claims: a name, or a path of names.
        tenant: the tenant of all its principals. Alternatively, `tenant_claim` is the claim that names the tenant.
        tenants: tenants that the claim may name; empty: any but the operator's and those that issuers name.
        roles_claim: the claim with a list of names, or with names separated by spaces.
        roles: the roles that each of these names gives.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9-]{1,16}$")
    issuer: str = Field(max_length=1_000)
    audience: tuple[str, ...] = Field(min_length=1)
    jwks_url: str | None = None
    name_claim: str | tuple[str, ...] = "sub"
    tenant: str | None = Field(default=None, pattern=TENANT)
    tenant_claim: str | tuple[str, ...] | None = None
    tenants: tuple[str, ...] = ()
    roles_claim: str | tuple[str, ...] = "roles"
    roles: dict[str, tuple[Role, ...]] = Field(default_factory=lambda: dict(_BY_NAME))

    @model_validator(mode="after")
    def _check(self) -> Self:
        for url in (self.issuer, self.jwks_url):
            if url is not None and not is_safe_url(url):
                raise ValueError(
                    "`issuer` and `jwks_url` must be https URLs; http is allowed only for loopback addresses"
                )
        if (self.tenant is None) == (self.tenant_claim is None):
            raise ValueError("an issuer needs either `tenant` or `tenant_claim`")
        if self.tenants and self.tenant_claim is None:
            raise ValueError("`tenants` needs `tenant_claim`")
        return self


class Limits(BaseModel):
    """What one tenant may use of one gateway process. None: no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_s: float | None = Field(default=100.0, gt=0, le=1_000_000, allow_inf_nan=False)
    runs: int | None = Field(default=100, ge=0)
    streams: int | None = Field(default=250, ge=0)
    imports: int | None = Field(default=4, ge=0)


class GatewaySettings(ServiceSettings):
    """Read from ``NESTOR_GATEWAY_*``."""

    model_config = SettingsConfigDict(
        env_prefix="NESTOR_GATEWAY_", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    database_url: DatabaseUrl = Field(
        default_factory=lambda: default_database_url("gateway"), description="SQLAlchemy URL of the runs' database."
    )
    retriever_url: HttpUrl = Field(default="http://127.0.0.1:8001", description="Base URL of retriever_svc.")
    demo_url: HttpUrl = Field(default="http://127.0.0.1:8002", description="Base URL of demo_svc.")
    planner_url: HttpUrl = Field(default="http://127.0.0.1:8003", description="Base URL of planner_svc.")
    executor_url: HttpUrl = Field(default="http://127.0.0.1:8004", description="Base URL of executor_svc.")
    retriever_token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Token for requests to retriever_svc: its `NESTOR_RETRIEVER_SERVICE_TOKEN`.",
    )
    demo_token: SecretStr | None = Field(
        default=None, min_length=8, description="Token for requests to demo_svc: its `NESTOR_DEMO_SERVICE_TOKEN`."
    )
    planner_token: SecretStr | None = Field(
        default=None, min_length=8, description="Token for requests to planner_svc: its `NESTOR_PLANNER_SERVICE_TOKEN`."
    )
    executor_token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Token for requests to executor_svc: its `NESTOR_EXECUTOR_SERVICE_TOKEN`.",
    )
    token: SecretStr | None = Field(
        default=None,
        min_length=8,
        description="Bearer token that apps must send, of 8 characters or more. It belongs to principal `token` of "
        "tenant `default`. Without a token, `principals` or `issuers` the gateway accepts all requests, and listens "
        "on loopback only.",
    )
    console_key: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="Signs console sessions that were opened with a key or with a token of an issuer. All gateways "
        "behind one name need the same value. Unset: each process generates its own, and such sessions are valid in "
        "that process until it stops.",
    )
    allow_anybody: bool = Field(
        default=False,
        description="Listen on other addresses than loopback without a token, for example behind a proxy that "
        "authorises.",
    )
    max_wrong_tokens: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="Different wrong tokens that one address may send in a minute. After that, all its requests are "
        "refused with 429 for the rest of that minute. 0: no limit.",
    )
    principals: tuple[PrincipalSettings, ...] = Field(
        default=(),
        description="Who may use the gateway, as a JSON list of `{name, tenant, token, roles}`. A tenant sees its own "
        "runs, its own APIs and those of everyone. `roles` are any of `ask`, `approve` and `administer`; unset: all.",
    )
    issuers: tuple[IssuerSettings, ...] = Field(
        default=(),
        max_length=20,
        description="Authorization servers whose tokens (JWT) are accepted, as a JSON list of `{name, issuer, "
        "audience, jwks_url, name_claim, tenant, tenant_claim, tenants, roles_claim, roles}`: [tokens of your "
        "identity provider](approvals.md#tokens-of-your-identity-provider).",
    )
    operator_tenant: str = Field(
        default="default",
        pattern=TENANT,
        description="The tenant whose administrators run this installation. Only they import APIs and demonstrations "
        "for everyone, or for other tenants.",
    )
    four_eyes: bool = Field(
        default=False,
        description="A principal cannot approve a run that it requested, neither later nor in advance, nor settle its "
        "calls in doubt.",
    )
    policy_rules: tuple[PolicyRule, ...] = Field(
        default=(),
        max_length=1_000,
        description="Rules for calls, as a JSON list of `{decision, host, path, method, api, provider, tenant}`. The "
        "decision is `allow_unsure`, `allow`, `ask` or `deny`; the other members are shell patterns. The first rule "
        "that matches decides.",
    )
    policy_allow: tuple[str, ...] = Field(
        default=(), description='Mutating APIs that need no approval, as a JSON list of patterns, e.g. `["crm.log*"]`.'
    )
    policy_deny: tuple[str, ...] = Field(default=(), description="APIs that are never called, as patterns.")
    warm_apis: int = Field(
        default=2_000,
        ge=0,
        le=100_000,
        description="Number of APIs of the catalogue that the planner reads in advance, in order of id; 0: none. It "
        "reads the others when they are first a candidate.",
    )
    limits: Limits = Field(
        default=Limits(),
        description="Limits of each tenant in one gateway process, as a JSON object: `requests_per_s` (a burst may be "
        "ten times as large), and `runs`, `streams` of events and `imports` at the same time. null: no limit. "
        "Requests above a limit are refused with 429.",
    )
    tenant_limits: dict[str, Limits] = Field(
        default_factory=dict,
        max_length=10_000,
        description='Limits by tenant, e.g. `{"guests": {"runs": 10}}`. Members that are not set are taken from '
        "`limits`.",
    )
    max_concurrent_runs: int = Field(
        default=200, ge=1, description="Runs at the same time. Further runs wait, and tenants take turns."
    )
    max_waiting_runs: int = Field(
        default=200, ge=0, description="Runs that may wait for others to end. Further runs are refused with 503."
    )
    max_planning_bytes: int = Field(
        default=10_000_000,
        ge=10_000_000,
        description="Bytes, as JSON, of the candidates and demonstrations of all requests that are planned at the same "
        "time, half of them for one tenant. They take up to forty times as much memory, here and in the planner. "
        "Further requests wait within their deadline.",
    )
    run_wait_s: float = Field(
        default=5.0,
        ge=0,
        le=600,
        description="How long a run waits to begin, in seconds, within its deadline. After that it is refused with "
        "503.",
    )
    max_followers: int = Field(
        default=1_000,
        ge=1,
        description="Streams of run events open at the same time. Further streams are refused with 503.",
    )
    lease_s: float = Field(
        default=10.0,
        gt=0,
        description="Seconds without a heartbeat after which another gateway takes over a process's runs.",
    )
    sentence_wait_s: float = Field(
        default=1.5,
        ge=0,
        le=60,
        description="How long a complete answer waits for its sentence, in seconds, within its deadline. 0: only a "
        "sentence that is already written is used.",
    )
    evidence_attempts: int = Field(
        default=2,
        ge=0,
        le=10,
        description="How often a run is planned again if calls that read found nothing. The planner gets the results "
        "of those calls. 0: never.",
    )
    max_takeovers: int = Field(
        default=5,
        ge=0,
        description="How often a run is taken over before it is given up as the likely cause of the crashes.",
    )
    keep_events_days: float = Field(
        default=30.0, gt=0, description="How long the events of ended runs are kept, in days."
    )
    keep_runs_days: float = Field(
        default=0.0,
        ge=0,
        description="How long ended runs are kept, in days, with their events and idempotency keys. 0: forever. The "
        "executor deletes its data of these runs after its own `KEEP_DAYS`.",
    )
    max_document_bytes: int = Field(
        default=25_000_000, ge=1, description="Largest API description or demo file accepted, in bytes."
    )
    shutdown_grace_s: float = Field(
        default=10.0,
        ge=0,
        description="How long runs may continue after a stop signal, in seconds. After that, other processes "
        "continue them.",
    )

    @property
    def takes_anybody(self) -> bool:
        """Whether no token is required, although `allow_anybody` is not set."""
        return not self.asks_for_tokens and not self.allow_anybody

    @property
    def asks_for_tokens(self) -> bool:
        """Whether callers need a token: a token, principal or issuer is configured."""
        return self.token is not None or bool(self.principals) or bool(self.issuers)

    @model_validator(mode="after")
    def _check(self) -> Self:
        tokens = [principal.token.get_secret_value() for principal in self.principals]
        if self.token is not None:
            tokens.append(self.token.get_secret_value())
        if self.console_key is not None:
            tokens.append(self.console_key.get_secret_value())
        if len(set(tokens)) < len(tokens):
            raise ValueError("two principals have the same token, or one is the `console_key`")
        for names in ([one.name for one in self.issuers], [one.issuer for one in self.issuers]):
            if len(set(names)) < len(names):
                raise ValueError("two issuers have the same `name` or `issuer`")
        return self
