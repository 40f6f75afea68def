"""Describes invalid environment settings in one line, without values, because they may be secret."""

import os
import re

from pydantic import ValidationError
from pydantic_settings import SettingsError

_SHORT = re.compile(r"Value (should have at least \d+) items after validation, not \d+")  # of a secret text
_FIELD = re.compile(r'field "(\w+)"')
BadSettings = (SettingsError, ValidationError)


def settings_problem(error: SettingsError | ValidationError) -> str:
    """Name the variable that cannot be read, and the reason."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field, *inside = map(str, first["loc"] or ("",))
        where = f" in {'.'.join(inside)}" if inside else ""
        why = _SHORT.sub(r"\1 characters", first["msg"]).removeprefix("Value error, ")
        return f"{_variable(field, error.title.removesuffix('Settings'))}{where}: {why}"
    match = _FIELD.search(str(error))
    why = 'it must be JSON, a list such as ["one", "two"] or an object such as {"name": "value"}'
    return f"{_variable(match[1] if match else '')}: {why}"


def _variable(field: str, owner: str = "") -> str:
    """The environment variable that sets a field of these settings; the field's name if none is found."""
    given = [name for name in os.environ if name.upper().startswith("NESTOR_")]
    for ending in (f"_{owner}_{field}".upper(), f"_{field}".upper()):
        if found := [name for name in given if name.upper().endswith(ending)]:
            return " or ".join(sorted(found))
    return field or "the settings"
