"""Constants of a provider: what every call of it sends unless the request names another value, such as an account's id.

They are kept with the provider's pin, and stand in each of its APIs as the ``constant`` of a parameter. So whoever gets
an API knows at once that nobody needs to be asked, and a changed constant is a changed API: plans are proved again.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from retriever_svc.engine.texts import record
from retriever_svc.importers import Imported, sealed
from retriever_svc.importers.constants import said_by, settle, value_for
from retriever_svc.importers.keys import is_key_name
from retriever_svc.models import Change, Pin, Record, is_seen, state_of
from retriever_svc.storage import CatalogueStorage
from services.compute import ComputePool
from services.contracts.api import Api, Parameter
from services.contracts.constants import MAX_CONSTANTS, Constant, ConstantsRequest, ProviderConstants
from services.errors import NotFound, ValidationFailed

_SHOWN: Final = 200
_SECRET: Final = re.compile(
    r"(?i:bearer|basic|token|digest)\s+\S{6}|(?:sk|rk|whsec)[_-][\w-]{12}|gh[opsur]_\w{16}|github_pat_|glpat-|xox[a-z]-"
    r"|A(?:KIA|SIA)[A-Z0-9]{12}|AIza[\w-]{30}|ya29\.|shp(?:at|ca|pa|ss)_|SG\.[\w-]{16,}\."
    r"|(?:secret|ntn|hf|npm|dop_v1|pypi)[_-]\w{16}|key-[0-9a-f]{32}"
    r"|eyJ[\w-]{6,}\.[\w-]+\.|-----BEGIN|[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@"
)
"""How tokens, keys and passwords of well-known makers begin."""


class ConstantsService:
    """Sets and removes constants.

    Args:
        storage: the record.
        encoder: name of the encoder whose vectors are kept; they stay as they are.
        pool: where APIs are read and written anew.
        refresh: makes what was stored searchable.
    """

    def __init__(
        self, storage: CatalogueStorage, encoder: str, pool: ComputePool, refresh: Callable[[], Awaitable[object]]
    ) -> None:
        self._storage, self._encoder, self._pool, self._refresh = storage, encoder, pool, refresh

    async def change(self, provider: str, request: ConstantsRequest, tenant: str | None = None) -> ProviderConstants:
        """Set and remove constants; all of them, or none.

        Args:
            provider: whose.
            request: which.
            tenant: who does this; None: whoever runs the catalogue.

        Raises:
            NotFound: no document was imported for a provider of this name that the tenant sees.
            Conflict: the provider belongs to somebody else, or is being changed.
            ValidationFailed: no operation takes such a parameter or allows the value, or it is a credential's.
        """
        pin = await self._storage.pin_for(provider)
        if pin is None or not is_seen(pin.tenants, tenant):
            raise NotFound(f"No document was imported for a provider {provider!r}.")
        await self._storage.change(pin, (), tenant)  # raises Conflict where the tenant may not
        stored = await self._storage.stored_of(provider)
        # Read once more, behind the APIs: of two who set constants at a time the later one is refused.
        pin = await self._storage.pin_for(provider) or pin
        changed = await self._pool.run(_changed, pin, stored, request)
        _, version = await self._storage.replace_provider(
            changed.pin, changed.records, self._encoder, {}, changed.change.hash, tenant
        )
        await self._refresh()
        return ProviderConstants(provider=provider, constants=changed.told, catalogue_version=version)


def with_constants(imported: Imported, constants: Mapping[str, str]) -> Imported:
    """What a document holds, with the provider's constants; a warning names each that no operation takes any more."""
    if not constants:
        return imported
    apis = tuple(_settled(api, constants) for api in imported.apis)
    taking = _taking(apis, constants)
    unused = sorted(name for name in constants if not taking[name])
    warnings = tuple(
        f"the constant {name!r} is kept, but no operation uses it now; `nestor apis unset {imported.provider} "
        f"{name}` removes it"
        for name in unused
    )
    return dataclasses.replace(imported, apis=apis, warnings=(*imported.warnings, *warnings))


@dataclasses.dataclass(frozen=True, slots=True)
class _Changed:
    """A provider with other constants, and what is told of them."""

    pin: Pin
    records: tuple[Record, ...]
    change: Change
    told: tuple[Constant, ...]


def _changed(pin: Pin, stored: Sequence[tuple[str, tuple[str, ...]]], request: ConstantsRequest) -> _Changed:
    """Raises ValidationFailed."""
    apis = [Api.model_validate_json(text).model_copy(update={"tenants": tenants}) for text, tenants in stored]
    constants, secrets, named = dict(pin.constants), _secrets(apis), _by_name(apis, request.constants)
    for name, text in request.constants.items():
        known = next((one for one in constants if one.lower() == name.lower()), None)
        if text is None and known is None:
            raise ValidationFailed(f"The provider {pin.provider!r} has no constant {name!r}.")
        constants.pop(known or name, None)
        if text is not None:
            _refuse_credential(pin.provider, secrets, name, text)
            constants[_refuse_unfit(pin.provider, named[name.lower()], name, text)] = text
    if len(constants) > MAX_CONSTANTS:
        raise ValidationFailed(f"A provider can have at most {MAX_CONSTANTS} constants.")
    ordered = dict(sorted(constants.items()))
    records = tuple(record(_settled(api, ordered), pin.version) for api in apis)
    before = {api.id: state_of(api.content_hash, api.tenants) for api in apis}
    after = {one.api.id: state_of(one.api.content_hash, one.api.tenants) for one in records}
    # The document is read when it is imported again: what its report says of constants may be another thing by then.
    new = dataclasses.replace(pin, constants=ordered, importer="")
    taking = _taking([one.api for one in records], ordered)
    told = tuple(Constant(name=name, value=text, operations=taking[name]) for name, text in ordered.items())
    return _Changed(new, records, Change(before, after, pin.document_hash), told)


def _secrets(apis: Sequence[Api]) -> dict[str, str]:
    """The names of the secrets, by the names that credentials travel by, in small letters."""
    needs = (need for api in apis for alternative in api.security for need in alternative)
    return {need.parameter.lower(): need.secret for need in needs if need.parameter}


def _by_name(apis: Sequence[Api], names: Iterable[str]) -> dict[str, list[tuple[Parameter, Api]]]:
    """The parameters of these names, in small letters."""
    found: dict[str, list[tuple[Parameter, Api]]] = {name.lower(): [] for name in names}
    for api in apis:
        for one in api.parameters:
            if (same := found.get(one.wire_name.lower())) is not None:
                same.append((one, api))
    return found


def _refuse_credential(provider: str, secrets: Mapping[str, str], name: str, text: str) -> None:
    """Raise ValidationFailed where the name is that of a credential, or the value looks like one."""
    secret = secrets.get(name.lower(), "")
    if secret or is_key_name(name) or _SECRET.match(text):
        said = (
            f"{name!r} is a credential"
            if secret or is_key_name(name)
            else f"The value of {name!r} looks like a credential"
        )
        raise ValidationFailed(
            f"{said}. Constants are stored and shown as plain text; set a credential with `nestor secrets set "
            f"{secret or f'{provider}.SCHEME'}`."
        )


def _refuse_unfit(provider: str, named: Sequence[tuple[Parameter, Api]], name: str, text: str) -> str:
    """The name as the document writes it. Raises ValidationFailed where no operation takes it or allows the value."""
    if not named:
        raise ValidationFailed(f"No operation of {provider!r} takes a parameter {name!r}.")
    fitting = (one.wire_name for one, api in named if value_for(one, api.definitions, text) is not None)
    first = next(fitting, None)
    if first is None:
        schema = json.dumps(named[0][0].json_schema, ensure_ascii=False)[:_SHOWN]
        raise ValidationFailed(f"No operation of {provider!r} allows this value for {name!r}: {schema}")
    return name if name == first or name in fitting else first


def _settled(api: Api, constants: Mapping[str, str]) -> Api:
    settled = settle(api, constants)
    return api if settled is api else sealed(settled)


def _taking(apis: Sequence[Api], constants: Mapping[str, str]) -> Counter[str]:
    """How many of the operations, which are settled, are called with each of these constants."""
    names = {name.lower(): name for name in constants}
    counts = Counter[str]()
    for api in apis:
        settled = (
            (names.get(one.wire_name.lower()), one.constant) for one in api.parameters if one.constant is not None
        )
        counts.update({name for name, value in settled if name is not None and _says(constants[name], value)})
    return counts


def _says(text: str, value: JsonValue) -> bool:
    """Whether a constant is what was set, and not what the document settles where that is not allowed."""
    return text == value or (not isinstance(value, str) and said_by(text) == value)
