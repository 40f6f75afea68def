"""What a principal may do, and how a route declares the roles it needs.

A role applies only within its principal's tenant: nobody approves or administers for another tenant.
"""

from collections.abc import Mapping
from typing import Any, Final

from services.contracts.access import Role

__all__ = ["ROLES_KEY", "Role", "needed", "needs"]

ROLES_KEY: Final = "x-roles"
"""``openapi_extra`` key of a route. Its value lists roles; the caller must have at least one of them."""


def needs(*roles: Role) -> dict[str, Any]:
    """The ``openapi_extra`` of a route whose caller must have at least one of these roles."""
    return {ROLES_KEY: sorted(roles)}


def needed(extra: Mapping[str, Any] | None) -> frozenset[Role]:
    """The roles that a route declares.

    Raises:
        ValueError: the route declares no roles.
    """
    roles = frozenset(Role(name) for name in (extra or {}).get(ROLES_KEY, ()))
    if not roles:
        raise ValueError("a route of the gateway says by `openapi_extra=needs(...)` which roles may use it")
    return roles
