"""Errors of the sandbox and their rendering as RFC 9457 ``application/problem+json``."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

PROBLEM_JSON = "application/problem+json"
_MAX_ERRORS = 20
_MAX_TEXT = 300


class ProblemError(BaseModel):
    """One invalid part of a request."""

    location: str = Field(description="Where it stands, such as `query.latitude` or `body.items.0.sku`.")
    message: str = Field(description="What is wrong with it.")
    code: str = Field(description="Stable machine-readable code.", examples=["missing", "string_pattern_mismatch"])


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(description="URI that names the kind of problem.", examples=["urn:sandbox:problem:not-found"])
    title: str = Field(description="Short summary of the kind of problem.")
    status: int = Field(description="HTTP status code.", ge=400, le=599)
    detail: str = Field(description="What went wrong this time.")
    errors: list[ProblemError] | None = Field(default=None, description="Invalid parts of the request, at most 20.")


class SandboxError(Exception):
    """Base of all errors that the sandbox answers intentionally. The message becomes the problem's `detail`."""

    status = 400
    kind = "bad-request"

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers


class NotFound(SandboxError):
    """The requested resource does not exist."""

    status = 404
    kind = "not-found"


class Unprocessable(SandboxError):
    """Each part of the request is well-formed, but they do not fit together."""

    status = 422
    kind = "unprocessable"


class Conflict(SandboxError):
    """The request contradicts the current state."""

    status = 409
    kind = "conflict"


class StorageFull(Conflict):
    """The collection has reached its size limit."""

    kind = "storage-full"


class Unauthorized(SandboxError):
    """Credentials are missing, wrong or expired."""

    status = 401
    kind = "unauthorized"


class Forbidden(SandboxError):
    """The credentials do not allow this."""

    status = 403
    kind = "insufficient-scope"


class TooManyRequests(SandboxError):
    """More calls than allowed; `Retry-After` says when to come back."""

    status = 429
    kind = "too-many-requests"


class ToldToFail(SandboxError):
    """The failure that was requested from a lab endpoint."""

    kind = "told-to-fail"

    def __init__(self, status: int, detail: str) -> None:
        headers = {"WWW-Authenticate": 'Lab realm="lab"'} if status == 401 else None
        super().__init__(detail, headers=headers)
        self.status = status


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses=`` argument of a route that answers these statuses with a problem."""
    descriptions = {
        404: "Something the request names does not exist.",
        409: "The request conflicts with the current state.",
        429: "Too many requests; wait for `Retry-After` seconds.",
    }
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    documented: dict[int | str, dict[str, Any]] = {
        status: {"description": descriptions.get(status, HTTPStatus(status).phrase + "."), "content": content}
        for status in statuses
    }
    if 429 in documented:
        wait = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}
        documented[429]["headers"] = {"Retry-After": wait}
    return documented


def clean(text: str) -> str:
    """`text` without lone surrogates, which UTF-8 cannot encode, and with a bounded length."""
    return text[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """Render a problem."""
    content = problem.model_dump(exclude_none=True)
    return JSONResponse(content, status_code=problem.status, headers=headers, media_type=PROBLEM_JSON)


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


async def _on_sandbox_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SandboxError)
    kind = f"urn:sandbox:problem:{error.kind}"
    problem = Problem(type=kind, title=_title(error.status), status=error.status, detail=clean(error.detail))
    return problem_response(problem, error.headers)


async def _on_http_exception(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    title = _title(error.status_code)
    problem = Problem(type="about:blank", title=title, status=error.status_code, detail=clean(str(error.detail)))
    return problem_response(problem, dict(error.headers) if error.headers else None)


async def _on_validation_error(_: Request, error: Exception) -> JSONResponse:
    """Answer without echoing the input: it may hold NaN or lone surrogates, which JSON cannot represent."""
    assert isinstance(error, RequestValidationError)
    errors = [
        ProblemError(
            location=clean(".".join(str(part) for part in item["loc"])), message=clean(item["msg"]), code=item["type"]
        )
        for item in error.errors()[:_MAX_ERRORS]
    ]
    detail = "; ".join(f"{item.location}: {item.message}" for item in errors[:3])
    kind = "urn:sandbox:problem:validation"
    return problem_response(Problem(type=kind, title=_title(422), status=422, detail=clean(detail), errors=errors))


def install_error_handlers(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""
    app.add_exception_handler(SandboxError, _on_sandbox_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
