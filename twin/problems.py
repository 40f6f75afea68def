"""A twin's refusals, as RFC 9457 problem details."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from pydantic import JsonValue


class Refused(Exception):
    """A request that the service would refuse.

    Attributes:
        status: the answer's status, 4xx.
        detail: what is wrong with the request.
        errors: its invalid parts: the location of each and what is wrong with it.
        headers: the answer's headers besides its type.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        errors: tuple[tuple[str, str], ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors, self.headers = status, detail, errors, dict(headers or {})

    def problem(self) -> dict[str, JsonValue]:
        """The body of the answer."""
        found: dict[str, JsonValue] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            found["errors"] = [{"location": place, "message": message} for place, message in self.errors]
        return found
