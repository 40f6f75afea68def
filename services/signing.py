"""Signatures of proved plans: the planner signs the plans it has proved, and the executor runs only signed plans.

Only these two have the key. Another service that may call the executor cannot make it run a plan of its own.
"""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock
from pydantic import SecretStr

from services.contracts.planning import CompiledPlan, Signature
from services.errors import Conflict

MIN_KEY_CHARS: Final = 32
SIGNATURE_HOLDS_S: Final = 86_400
"""How long a signature holds: longer than any deadline of a run. Runs that wait for a person are proved again before
they continue."""
_WRITE_S: Final = 10.0


class PlanSigner:
    """Signs proved plans and checks signatures.

    Args:
        key: the secret that planner and executor share.
        clock: returns seconds since 1970.
    """

    def __init__(self, key: SecretStr, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = key.get_secret_value().encode(), clock

    def signed(self, compiled: CompiledPlan, tenant: str) -> CompiledPlan:
        """The same plan with a signature that is valid for a day."""
        expires_at = int(self._clock()) + SIGNATURE_HOLDS_S
        signature = Signature(tenant=tenant, expires_at=expires_at, mac=self._mac(compiled, tenant, expires_at))
        return compiled.model_copy(update={"signature": signature})

    def check(self, compiled: CompiledPlan, tenant: str) -> None:
        """Raise Conflict unless the plan is unchanged since it was signed, for this tenant, and not expired."""
        given = compiled.signature
        if given is None:
            raise Conflict("The plan is not signed by the planner; planner and executor need the same proof key.")
        if not hmac.compare_digest(given.mac, self._mac(compiled, given.tenant, given.expires_at)):
            raise Conflict("The plan is not the one that the planner signed, or it was signed with another proof key.")
        if given.tenant != tenant:
            raise Conflict("The plan was proved for another tenant.")
        if self._clock() >= given.expires_at:
            raise Conflict("The plan was proved too long ago.")

    def _mac(self, compiled: CompiledPlan, tenant: str, expires_at: int) -> str:
        """The MAC of the plan and its APIs.

        It covers the full APIs, because the hashes stated in them could be copied from others. They are written as they
        came, which keeps their order: to sort 2 MB of them would take twenty times as long.
        """
        content = compiled.model_dump_json(exclude={"signature"})
        return hmac.new(self._key, f"{tenant}\0{expires_at}\0{content}".encode(), hashlib.sha256).hexdigest()


def load_or_create_key(file: Path) -> SecretStr:
    """The key in this file. Generated if there is none, so that plans proved before a restart can still be run.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: its content is too short for a key.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(file.with_name(f".{file.name}.lock"), timeout=_WRITE_S):
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="ascii") as opened:
                opened.write(secrets.token_urlsafe(32))
    key = file.read_text(encoding="ascii").strip()
    if len(key) < MIN_KEY_CHARS:
        raise ValueError(
            f"{file} has no key of {MIN_KEY_CHARS} characters or more; remove the file to have one generated"
        )
    return SecretStr(key)
