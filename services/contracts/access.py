"""Access to the gateway: API keys, roles, and the audit log."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from services.contracts.api import Tenant
from services.contracts.base import Contract


class Role(StrEnum):
    """Something that a principal may do."""

    ASK = "ask"
    APPROVE = "approve"
    ADMINISTER = "administer"


class Action(StrEnum):
    """The actions that the audit log records."""

    IMPORT = "apis.import"
    ACCEPT_CHANGES = "apis.accept_changes"
    SET_CONSTANTS = "provider.constants"
    REMOVE_PROVIDER = "provider.remove"
    TEST_CREDENTIAL = "credential.test"
    APPROVE = "run.approve"
    APPROVE_IN_ADVANCE = "run.approve_in_advance"
    REJECT = "run.reject"
    RESOLVE = "run.resolve"
    DELETE_RUN = "run.delete"
    CREATE_KEY = "key.create"
    REVOKE_KEY = "key.revoke"
    ADD_DEMO = "demo.add"
    IMPORT_DEMOS = "demo.import"
    REMOVE_DEMO = "demo.remove"
    EXPORT_TENANT = "tenant.export"
    DELETE_TENANT = "tenant.delete"
    PRESENT = "secret.use"
    ADD_CREDENTIAL = "secret.add"
    CHANGE_CREDENTIAL = "secret.change"
    REMOVE_CREDENTIAL = "secret.remove"
    POLICY = "policy.in_force"
    PRINCIPALS = "principals.in_force"


PrincipalName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]*$")]
KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]


class KeyRequest(Contract):
    """A key to create."""

    name: PrincipalName = Field(description="Name of the principal. It appears in runs, approvals and the audit log.")
    tenant: Tenant | None = Field(
        default=None, description="Unset: your own tenant. Only the operator's administrators may name another one."
    )
    roles: frozenset[Role] = Field(min_length=1, description="A subset of your own roles.")
    expires_in_days: int | None = Field(default=90, ge=1, le=3_650, description="null: never.")


class Key(Contract):
    """The metadata of a key. Of the key itself, only a hash is stored. Times are UTC."""

    id: KeyId
    name: str
    tenant: str
    roles: tuple[Role, ...]
    created_at: AwareDatetime
    created_by: str
    expires_at: AwareDatetime | None = None
    revoked_at: AwareDatetime | None = None


class CreatedKey(Key):
    """A new key. It is shown only this once."""

    key: str = Field(description="`nst_ID_SECRET`, to be sent as `Authorization: Bearer`.")


class KeyPage(Contract):
    """A page of keys, newest first. `next` is the cursor of the following page."""

    keys: tuple[Key, ...]
    next: str | None = None


Outcome = Literal["done", "begun", "held", "refused", "unknown"]


class AuditEntry(Contract):
    """An action. If another service performs it, there are two entries: one before the call, and one after."""

    id: str
    at: AwareDatetime
    action: Action | str = Field(
        union_mode="left_to_right", description="Another name than these was written by a gateway of a later version."
    )
    outcome: Outcome | str = Field(
        description="`begun`: the request was about to be made. A later entry with this one as `begun_by` has its "
        "result; without one, the result is not known. `held`: nothing changed, since a confirmation is needed. "
        "`unknown`: no clear answer."
    )
    principal: str
    key: str = Field(default="", description="Id of the key that was used; empty for a configured token.")
    tenant: str = Field(description="The principal's.")
    target: str = Field(description="Id or name of the object of the action.")
    digest: str = Field(default="", description="SHA-256 of what was accepted: a document, requests, a configuration.")
    request_id: str = ""
    begun_by: str = ""
    detail: str = Field(
        default="", description="Of a changed secret: where it may be sent, and who changed it if known."
    )


class AuditPage(Contract):
    """A page of the audit log, newest first. `next` is the cursor of the following page."""

    entries: tuple[AuditEntry, ...]
    next: str | None = None
