"""What a principal may do, and where a route says what it needs.

A role is of its principal's tenant: nobody approves or administers for another one.
"""

from collections.abc import Mapping
from typing import Any, Final

from services.contracts.access import Role

__all__ = ["ROLES_KEY", "Role", "needed", "needs"]

ROLES_KEY: Final = "x-roles"
"""``openapi_extra`` key of a route: the roles of which its caller must have one."""


def needs(*roles: Role) -> dict[str, Any]:
    """What a route gives as ``openapi_extra`` to say that its caller must have one of these roles."""
    return {ROLES_KEY: sorted(roles)}


def needed(extra: Mapping[str, Any] | None) -> frozenset[Role]:
    """The roles that a route has declared.

    Raises:
        ValueError: it has declared none, so nobody could say who may use it.
    """
    roles = frozenset(Role(name) for name in (extra or {}).get(ROLES_KEY, ()))
    if not roles:
        raise ValueError("a route of the gateway says by `openapi_extra=needs(...)` which roles may use it")
    return roles
