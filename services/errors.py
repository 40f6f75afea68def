"""Every error that crosses a service boundary, as one exception tree.

::

    ServiceError
    ├── InvalidRequest        400   unreadable: not JSON, not UTF-8, NaN, lone surrogates, nested too deep
    ├── Unauthorized          401
    ├── Forbidden             403   the caller lacks a role, or is a page of another origin
    ├── NotFound              404
    ├── MethodNotAllowed      405
    ├── NotAcceptable         406
    ├── RequestTimeout        408
    ├── Conflict              409
    ├── PayloadTooLarge       413
    ├── UnsupportedMedia      415
    ├── Misdirected           421
    ├── ValidationFailed      422   readable, but not what the contract asks for
    │   └── InvalidDocument   422   an API description that cannot be imported
    ├── TooManyAttempts       429
    ├── QuotaExceeded         429   a tenant is at its limit (`limit` says which)
    ├── HeadersTooLarge       431
    ├── Overloaded            503   too much work is waiting; try again
    ├── ServiceUnavailable    503   a service this one needs is down (`service` says which)
    ├── NotReady              503   `/readyz` (`checks` says why)
    ├── DeadlineExceeded      504
    └── InternalError         500   a bug: its details go to the log only, with the request id

Each renders as ``application/problem+json`` (RFC 9457). A typed client rebuilds the same exception from ``type``, so
callers see the same exceptions whether Nestor runs as one process or as several.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

TYPE_PREFIX = "urn:nestor:problem:"
LANGUAGE_MODEL: Final = "the language model"
"""``service`` of an outage that is not one of Nestor's services."""


class UnusableSettings(ValueError):
    """A file, a server or a value that settings name cannot be used. The message never quotes a secret."""


class ServiceError(Exception):
    """Base class. ``detail`` is text for the caller; ``extensions`` are further members of the problem document."""

    slug: ClassVar[str] = "error"
    title: ClassVar[str] = "Error"
    status: ClassVar[int] = 500

    def __init__(self, detail: str = "", **extensions: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail
        self.extensions = extensions
        self.headers: dict[str, str] = {}
        """Further response headers. They are sent only if the error is raised in the process that answers."""

    @classmethod
    def type_uri(cls) -> str:
        """The problem's ``type``."""
        return TYPE_PREFIX + cls.slug


class InvalidRequest(ServiceError):
    """The request cannot be read: not JSON, not UTF-8, NaN or infinity, a lone surrogate, or nested too deep."""

    slug, title, status = "invalid-request", "The request cannot be read", 400


class Unauthorized(ServiceError):
    """The request carries no valid credential for this service."""

    slug, title, status = "unauthorized", "Not authorised", 401


class Forbidden(ServiceError):
    """The caller lacks the role for this, or a web page of another origin asks on its own."""

    slug, title, status = "forbidden", "Forbidden", 403


class NotFound(ServiceError):
    """There is nothing under this address or id."""

    slug, title, status = "not-found", "Not found", 404


class MethodNotAllowed(ServiceError):
    """The address exists, but not for this method."""

    slug, title, status = "method-not-allowed", "Method not allowed", 405


class NotAcceptable(ServiceError):
    """None of the media types asked for can be produced."""

    slug, title, status = "not-acceptable", "Not acceptable", 406


class RequestTimeout(ServiceError):
    """The request did not come in time. The connection is closed."""

    slug, title, status = "request-timeout", "The request took too long to come", 408


class Conflict(ServiceError):
    """The state of the thing does not allow this now, for example approving another plan than the stored one."""

    slug, title, status = "conflict", "Conflict", 409


class PayloadTooLarge(ServiceError):
    """The body is larger than the service accepts. ``limit_bytes`` says how much it does."""

    slug, title, status = "payload-too-large", "Payload too large", 413


class UnsupportedMedia(ServiceError):
    """The body's media type is not understood here."""

    slug, title, status = "unsupported-media-type", "Unsupported media type", 415


class Misdirected(ServiceError):
    """The service is not known under the name in `Host`: add it to the service's `ALLOWED_HOSTS`, if it is."""

    slug, title, status = "misdirected", "Misdirected", 421


class ValidationFailed(ServiceError):
    """The request was read but is not what the contract asks for. ``errors`` lists each field and why."""

    slug, title, status = "validation-failed", "Validation failed", 422


class InvalidDocument(ValidationFailed):
    """An API description that cannot be imported. The catalogue is as it was."""

    slug, title, status = "invalid-document", "The API description cannot be imported", 422


class TooManyAttempts(ServiceError):
    """Too many wrong tokens came from this address. Try again after ``retry_after_s`` seconds."""

    slug, title, status = "too-many-attempts", "Too many wrong tokens", 429


class QuotaExceeded(ServiceError):
    """The caller's tenant is at one of its limits. ``limit`` names it; try again after ``retry_after_s`` seconds."""

    slug, title, status = "quota-exceeded", "A limit of the tenant is reached", 429


class HeadersTooLarge(ServiceError):
    """Address and headers are larger than the service accepts (``limit_bytes``), or there are too many headers."""

    slug, title, status = "headers-too-large", "Headers too large", 431


class Overloaded(ServiceError):
    """Too much work is waiting already. Try again after ``retry_after_s`` seconds."""

    slug, title, status = "overloaded", "Overloaded", 503


class ServiceUnavailable(ServiceError):
    """A service this one needs did not answer. ``service`` names it."""

    slug, title, status = "service-unavailable", "A service is unavailable", 503


class NotReady(ServiceError):
    """The service is up but cannot do its work yet. ``checks`` says what is missing."""

    slug, title, status = "not-ready", "Not ready", 503


class DeadlineExceeded(ServiceError):
    """The work did not finish within the deadline that the request carried."""

    slug, title, status = "deadline-exceeded", "Deadline exceeded", 504


class InternalError(ServiceError):
    """A bug in Nestor. The details are in the log under the request id; nothing of them is sent out."""

    slug, title, status = "internal-error", "Internal error", 500


def all_errors(root: type[ServiceError] = ServiceError) -> Iterator[type[ServiceError]]:
    """All concrete error classes, parents before children (for the docs page and for typed clients)."""
    for cls in root.__subclasses__():
        yield cls
        yield from all_errors(cls)


def from_problem(problem: dict[str, Any], status: int) -> ServiceError:
    """Rebuild the exception that a problem document was made from.

    An unknown ``type``, for example from a newer version, becomes the first class with the same status.
    """
    known = {cls.type_uri(): cls for cls in all_errors()}
    cls = known.get(str(problem.get("type")))
    if cls is None:
        cls = next((c for c in all_errors() if c.status == status), InternalError)
    standard = {"type", "title", "status", "detail", "instance"}
    extensions = {key: value for key, value in problem.items() if key not in standard and key.isidentifier()}
    error = cls(str(problem.get("detail") or ""))
    error.extensions.update(extensions)
    return error
