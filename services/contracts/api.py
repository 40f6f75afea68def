"""APIs in the catalogue, and the documents that they are imported from."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints

from services.contracts.base import ApiId, Contract, JsonSchema
from services.contracts.review import Affected, SensitiveChange

MAX_LABEL: Final = 200
"""Maximum length of a tag or provider in a filter, in characters."""
OUTSIDE_CONTENT: Final = {"content_hash", "tenants"}
"""Fields that are not in the content hash of an API. Visibility does not change what a call does: proofs stay valid."""

Label = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL)]
Method = Annotated[str, StringConstraints(to_upper=True, pattern=r"^[A-Za-z]{1,20}$")]
Tenant = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,100}$"),
    Field(description="A tenant of the gateway, as `NESTOR_GATEWAY_PRINCIPALS` names it."),
]
Effect = Literal["read", "change"]
"""Effect of a call on the upstream's state."""


def effect_of(method: str) -> Effect:
    """The effect that a method implies (RFC 9110, section 9.2.1: methods that are not safe may change state)."""
    return "read" if method in ("GET", "HEAD", "OPTIONS") else "change"


class Location(StrEnum):
    """Where a parameter travels in the HTTP request."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"
    BODY = "body"


class Style(StrEnum):
    """How a parameter's value is serialised (OpenAPI 3.1, section 4.8.12.3)."""

    SIMPLE = "simple"
    FORM = "form"
    LABEL = "label"
    MATRIX = "matrix"
    SPACE_DELIMITED = "spaceDelimited"
    PIPE_DELIMITED = "pipeDelimited"
    DEEP_OBJECT = "deepObject"


class Parameter(Contract):
    """One argument an API takes. A JSON body of object type is flattened: each property is a parameter of its own."""

    name: str = Field(min_length=1, max_length=200, description="The argument's name in plans; unique within the API.")
    wire_name: str = Field(
        min_length=1, max_length=200, description="The parameter's name in requests to the upstream."
    )
    location: Location
    required: bool = False
    description: str = ""
    json_schema: JsonSchema = Field(default_factory=dict)
    style: Style = Style.SIMPLE
    explode: bool = False
    media_type: str | None = Field(
        default=None,
        description="Set if the value is sent as a document of this type: a parameter's `content`, or the part of a "
        "multipart body that its `encoding` names (OpenAPI 3.1, sections 4.8.12.2 and 4.8.15).",
    )
    constant: JsonValue | None = Field(
        default=None,
        exclude_if=lambda constant: constant is None,
        description="The value that a call sends if its plan gives none: set for the provider, or the only value that "
        "the document allows. The user is not asked for it.",
    )

    @property
    def needed(self) -> bool:
        """Whether a plan must give it a value: it is required and has no constant."""
        return self.required and self.constant is None


class RequestBody(Contract):
    """How the body is built from the parameters located in it."""

    media_type: str = "application/json"
    required: bool = True
    whole: bool = Field(
        default=False, description="True if the single parameter `body` is the body itself, not a property of it."
    )


class ApiResponse(Contract):
    """The successful response: what later steps can refer to."""

    status: int = Field(default=200, ge=100, le=599)
    media_type: str | None = "application/json"
    description: str = ""
    json_schema: JsonSchema = Field(default_factory=dict)


class SecretKind(StrEnum):
    """The kinds of credentials an adapter can present.

    ``other`` is a scheme that the document does not fully describe. The secret's configuration describes it.
    """

    API_KEY = "api_key"
    BASIC = "basic"
    DIGEST = "digest"
    BEARER = "bearer"
    OAUTH2 = "oauth2"
    OPENID_CONNECT = "openid_connect"
    MUTUAL_TLS = "mutual_tls"
    AWS_SIGV4 = "aws_sigv4"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> "SecretKind | None":
        """Accept the values in catalogues and stored runs of earlier versions."""
        return {"oauth2_client_credentials": cls.OAUTH2, "unsupported": cls.OTHER}.get(str(value))


LOGINS: Final = frozenset({SecretKind.OAUTH2, SecretKind.OPENID_CONNECT})
"""The kinds that a person can satisfy by logging in."""


class SecurityRequirement(Contract):
    """One credential a call must present. It holds the secret's *name*; only the executor has the value."""

    scheme: str
    kind: SecretKind
    secret: str = Field(description="The secret's name, `provider.scheme`.")
    location: Location | None = Field(default=None, description="Where an API key is sent.")
    parameter: str | None = Field(
        default=None, description="The name of the header, query parameter or cookie of an API key."
    )
    token_url: str | None = Field(default=None, description="OAuth2: the token URL.")
    authorization_url: str | None = Field(
        default=None, description="OAuth2: the authorization URL, where a person logs in."
    )
    device_url: str | None = Field(default=None, description="OAuth2: the device authorization URL (RFC 8628).")
    openid_url: str | None = Field(default=None, description="OpenID Connect: URL of the discovery document.")
    scopes: tuple[str, ...] = ()


class Api(Contract):
    """One operation of a provider's service, with everything needed to find, plan and call it."""

    id: ApiId
    provider: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200, description="The operation's name, unique within the provider.")
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    method: str = Field(default="GET", pattern=r"^[A-Z]+$")
    server: str = Field(default="", description="Base URL the path is appended to.")
    path: str = Field(default="/", pattern=r"^/")
    parameters: tuple[Parameter, ...] = ()
    body: RequestBody | None = None
    response: ApiResponse = ApiResponse()
    definitions: dict[str, JsonSchema] = Field(default_factory=dict, description="Targets of `#/$defs/NAME`.")
    security: tuple[tuple[SecurityRequirement, ...], ...] = Field(
        default=(), description="Alternatives, each a set of credentials needed together; empty: none is needed."
    )
    idempotency_header: str | None = Field(
        default=None, description="Header for an idempotency key, if the operation supports one."
    )
    effect: Effect | None = Field(
        default=None,
        exclude_if=lambda effect: effect is None,
        description="Set if it differs from the method: `change` for a GET that deletes, `read` for a POST that "
        "searches.",
    )
    content_hash: str = Field(
        default="", description="SHA-256 of all fields above. Plans are proved against this version."
    )
    tenants: tuple[Tenant, ...] = Field(
        default=(),
        max_length=100,
        description="The tenant that owns it; empty: everyone. It is not part of the content. Candidates never have "
        "it.",
    )

    @property
    def mutating(self) -> bool:
        """Whether a call may change state upstream."""
        return (self.effect or effect_of(self.method)) == "change"

    @property
    def resendable(self) -> bool:
        """Whether a call is idempotent: by its method (RFC 9110, 9.2.2), or with an idempotency key."""
        return not self.mutating or self.method in {"PUT", "DELETE"} or self.idempotency_header is not None

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, or None."""
        return next((p for p in self.parameters if p.name == name), None)


class NeededSecret(SecurityRequirement):
    """A credential that a provider's operations require."""

    hosts: tuple[str, ...] = Field(default=(), description="Hosts of its operations: `host` or `host:port`.")
    operations: int = Field(
        default=0, ge=0, description="How many operations ask for it, including as one of several alternatives."
    )
    probe: ApiId | None = Field(
        default=None, description="An operation to test it with, which needs no other credential."
    )
    harmless: bool = Field(default=False, description="Whether that operation needs no arguments and only reads.")
    configured: bool = Field(default=False, description="Whether the executor has a secret of this name.")


class NeededSecrets(Contract):
    """The credentials of one provider, in order of their names."""

    secrets: tuple[NeededSecret, ...] = ()


ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ImportRequest(Contract):
    """An API description to import: OpenAPI, Swagger, a Postman collection or a list of tools (docs/importing.md)."""

    document: str = Field(min_length=1, description="The document itself. References to other documents are refused.")
    provider: ProviderName | None = Field(default=None, description="By default, a slug of the vendor and the title.")
    server: str | None = Field(
        default=None,
        max_length=2_000,
        pattern=r"^https?://[^\s\x00-\x1f/?#][^\s\x00-\x1f]*$",
        description="Replaces the document's servers and completes relative URLs.",
    )
    origin: str | None = Field(
        default=None,
        max_length=2_000,
        pattern=r"^https?://[^\s\x00-\x1f/@?#]+(?:/[^\s\x00-\x1f?#]*)?$",
        description="URL from which the document was fetched, without user, query and fragment. If there is no "
        "`server`, it completes relative servers of an OpenAPI document. If the document has no servers either, the "
        "host of this URL is the server.",
    )
    tenants: tuple[Tenant, ...] | None = Field(
        default=None,
        max_length=100,
        description="The tenants that own the APIs; empty: everyone. Unset: as in the provider's last import, or "
        "everyone at the first import, so that a newer document is never visible to more tenants. Only the operator's "
        "administrators choose. Imports of others belong to their tenant.",
    )
    dry_run: bool = Field(default=False, description="Change nothing; return what would change, and the report.")
    hold_changes: bool = Field(
        default=False,
        description="Works like `dry_run` if existing APIs would change or be removed. If APIs are only added, the "
        "import is done. It has no effect for a document with the same hash as the last import, which was accepted "
        "then.",
    )
    expected_change: Sha256 | None = Field(
        default=None,
        description="The `change_hash` of a report that was reviewed. If the import would now do anything else, it is "
        "refused with 409 and changes nothing.",
    )
    confirm: Sha256 | None = Field(
        default=None,
        description="Like `expected_change`, and it also accepts the changes that the report lists under `sensitive`.",
    )


class SkippedOperation(Contract):
    """An operation that was not imported, and why."""

    operation: str
    reason: str


class RelatedApi(Contract):
    """Another API for the same operation: with the same request or the same content, possibly of another version."""

    api: str = Field(description="The id of the imported API.")
    relation: Literal["duplicate_of", "newer_than", "older_than"]
    other: str = Field(description="The id of the API it is related to.")


class ImportReport(Contract):
    """What an import did, or would do. Nothing was changed unless it is reported here."""

    kind: Literal["report"] = "report"
    provider: str
    format: str = Field(
        description="`openapi-3.1`, `swagger-2.0`, `postman-2.1`, `seal-tools`, ... (docs/importing.md)."
    )
    document_hash: str
    added: int = Field(ge=0)
    updated: int = Field(ge=0)
    unchanged: int = Field(ge=0)
    removed: int = Field(ge=0)
    skipped: tuple[SkippedOperation, ...] = Field(
        default=(), description="The first 500 operations that were not imported, with reasons."
    )
    skipped_total: int = Field(default=0, ge=0, description="Total number.")
    warnings: tuple[str, ...] = ()
    related: tuple[RelatedApi, ...] = Field(default=(), description="The first imported APIs that have a twin.")
    related_total: int = Field(default=0, ge=0, description="Total number.")
    sensitive: tuple[SensitiveChange, ...] = Field(
        default=(), description="The first changes that are applied only if `confirm` has the `change_hash`."
    )
    sensitive_total: int = Field(default=0, ge=0, description="Total number.")
    affected: tuple[Affected, ...] = Field(
        default=(),
        description="If nothing was applied: the first demonstrations and waiting runs of your tenant that call an "
        "API which would change or be removed. Those that would break come first.",
    )
    affected_total: int = Field(default=0, ge=0, description="Total number of these.")
    applied: bool = Field(
        default=True,
        description="False: a dry run, or a confirmation is needed. The counts then say what the import would do.",
    )
    change_hash: str = Field(
        default="", description="SHA-256 of the document and of each API before and after the import."
    )
    catalogue_version: int = Field(ge=0)


class FieldChange(Contract):
    """A field of an API before and after; null if it does not exist. Of long texts, only the part that differs."""

    field: str = Field(description="Path of the field, for example `parameters.city.description`.")
    before: str | None = None
    after: str | None = None


class ImportChange(Contract):
    """The change that an import which was not applied would make to one API."""

    kind: Literal["change"] = "change"
    action: Literal["added", "updated", "removed"]
    id: str
    summary: str = ""
    fields: tuple[FieldChange, ...] = Field(default=(), description="Of an updated API: the fields that differ.")
    left_out: int = Field(default=0, ge=0, description="Number of further fields that differ.")


class ImportProgress(Contract):
    """Progress of a long import: `done` of `total` operations in this `phase`."""

    kind: Literal["progress"] = "progress"
    phase: Literal["reading", "embedding", "storing"]
    done: int = Field(ge=0)
    total: int = Field(ge=0)


ImportEvent = Annotated[ImportProgress | ImportChange | ImportReport, Field(discriminator="kind")]


class ImportedDocument(Contract):
    """The document that a provider's APIs come from."""

    provider: str
    document_hash: str = Field(description="SHA-256 of its text.")
    format: str
    version: str = Field(default="", description="The document's own version.")
    server: str | None = Field(default=None, description="The `server` of the import, or else the `origin`.")
    tenants: tuple[Tenant, ...] = Field(
        default=(), description="The tenants that own it. A tenant sees no name except its own."
    )
    imported_at: AwareDatetime
    skipped: tuple[SkippedOperation, ...] = Field(
        default=(), description="The first operations that were not imported, with reasons."
    )
    skipped_total: int = Field(default=0, ge=0, description="Total number.")
    constants: dict[str, str] = Field(
        default_factory=dict,
        description="Values that are sent in every call with such a parameter, by the parameter's name.",
    )
    current: bool = Field(
        description="Whether importing the same text with the same `server` or `origin` for this provider changes "
        "nothing."
    )


class DocumentPage(Contract):
    """Imported documents in order of their providers. `next` is the cursor of the following page."""

    documents: tuple[ImportedDocument, ...]
    total: int = Field(ge=0)
    next: ProviderName | None = None


class CatalogueStatus(Contract):
    """The catalogue's size and version, and the version of the index."""

    catalogue_version: int
    index_version: int
    apis: int
    providers: dict[str, int] = Field(default_factory=dict)
    encoder: str
