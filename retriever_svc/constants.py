"""Constants of a provider: values that all its calls send unless the request names another one, such as an account id.

They are stored with the record of the provider's document, and in each of its APIs as the ``constant`` of a parameter.
So the API itself says that the user need not be asked for the value. A changed constant changes the API: plans are
checked again.
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
from retriever_svc.importers import Imported, with_content_hash
from retriever_svc.importers.constants import apply_constants, parsed_scalar, value_for
from retriever_svc.importers.keys import is_key_name
from retriever_svc.models import Change, ImportedDocumentRecord, Record, is_seen, state_of
from retriever_svc.storage import CatalogueStorage
from retriever_svc.whole_reads import WholeReads
from services.compute import ComputePool, with_checkpoints
from services.contracts.api import Api, Parameter
from services.contracts.constants import MAX_CONSTANTS, Constant, ConstantsRequest, ProviderConstants
from services.errors import NotFound, ValidationFailed

_SHOWN: Final = 200
_MAX_ADDED: Final = 50_000_000
"""Characters that a provider's constants add to all its APIs: each API has those that it sends."""
_SECRET: Final = re.compile(
    r"(?i:bearer|basic|token|digest)\s+\S{6}|(?:sk|rk|whsec)[_-][\w-]{12}|gh[opsur]_\w{16}|github_pat_|glpat-|xox[a-z]-"
    r"|A(?:KIA|SIA)[A-Z0-9]{12}|AIza[\w-]{30}|ya29\.|shp(?:at|ca|pa|ss)_|SG\.[\w-]{16,}\."
    r"|(?:secret|ntn|hf|npm|dop_v1|pypi)[_-]\w{16}|key-[0-9a-f]{32}"
    r"|eyJ[\w-]{6,}\.[\w-]+\.|-----BEGIN|[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@"
)
"""How tokens, keys and passwords of well-known services begin."""


class ConstantsService:
    """Sets and removes constants.

    Args:
        storage: the catalogue's database.
        encoder: name of the encoder whose vectors are stored; they do not change.
        pool: where APIs are parsed and serialised.
        whole: turns at reading all APIs of a provider.
        refresh: makes stored changes searchable.
    """

    def __init__(
        self,
        storage: CatalogueStorage,
        encoder: str,
        pool: ComputePool,
        whole: WholeReads,
        refresh: Callable[[], Awaitable[object]],
    ) -> None:
        self._storage, self._encoder, self._pool, self._whole = storage, encoder, pool, whole
        self._refresh = refresh

    async def change(self, provider: str, request: ConstantsRequest, tenant: str | None = None) -> ProviderConstants:
        """Set and remove constants; all of them, or none.

        Args:
            provider: name of the provider.
            request: the constants to set and to remove.
            tenant: the tenant that asks; None: the operator.

        Raises:
            NotFound: no document was imported for a provider of this name that the tenant sees.
            Conflict: the provider belongs to another owner, or is being changed.
            ValidationFailed: no operation has such a parameter or allows the value, or it is a credential.
            Overloaded: too many providers are being read.
        """
        document_record = await self._storage.document_records.of(provider)
        if document_record is None or not is_seen(document_record.tenants, tenant):
            raise NotFound(f"No document was imported for a provider {provider!r}.")
        await self._storage.change(document_record, (), tenant)  # raises Conflict where the tenant may not
        async with self._whole.turn(tenant):
            return await self._change(provider, document_record, request, tenant)

    async def _change(
        self, provider: str, document_record: ImportedDocumentRecord, request: ConstantsRequest, tenant: str | None
    ) -> ProviderConstants:
        stored = await self._storage.stored_of(provider)
        # Read the record again after the APIs: of two concurrent changes the later one is refused.
        document_record = await self._storage.document_records.of(provider) or document_record
        changed = await self._pool.run(_prepare_change, document_record, stored, request)
        _, version = await self._storage.replace_provider(
            changed.document_record, changed.records, self._encoder, {}, changed.change.hash, tenant
        )
        await self._refresh()
        return ProviderConstants(provider=provider, constants=changed.reported, catalogue_version=version)


def with_constants(imported: Imported, constants: Mapping[str, str]) -> Imported:
    """The document with the provider's constants applied. A warning names each constant that no operation takes.

    Raises:
        ValidationFailed: the constants add too much to its APIs.
    """
    if not constants:
        return imported
    _refuse_too_much(imported.apis, constants)
    apis = tuple(_with_constants(api, constants) for api in with_checkpoints(imported.apis))
    operations = _count_operations(apis, constants)
    unused = sorted(name for name in constants if not operations[name])
    warnings = tuple(
        f"the constant {name!r} is kept, but no operation uses it now; `nestor apis unset {imported.provider} "
        f"{name}` removes it"
        for name in unused
    )
    return dataclasses.replace(imported, apis=apis, warnings=(*imported.warnings, *warnings))


@dataclasses.dataclass(frozen=True, slots=True)
class _ConstantsChange:
    """A provider with changed constants, and the constants to report."""

    document_record: ImportedDocumentRecord
    records: tuple[Record, ...]
    change: Change
    reported: tuple[Constant, ...]


def _prepare_change(
    document_record: ImportedDocumentRecord,
    stored: Sequence[tuple[str, tuple[str, ...], str]],
    request: ConstantsRequest,
) -> _ConstantsChange:
    """Raises ValidationFailed."""
    apis = [
        Api.model_validate_json(text).model_copy(update={"tenants": tenants})
        for text, tenants, _ in with_checkpoints(stored)
    ]
    constants, secrets, named = dict(document_record.constants), _secrets(apis), _by_name(apis, request.constants)
    for name, text in request.constants.items():
        known = next((one for one in constants if one.lower() == name.lower()), None)
        if text is None and known is None:
            raise ValidationFailed(f"The provider {document_record.provider!r} has no constant {name!r}.")
        constants.pop(known or name, None)
        if text is not None:
            _refuse_credential(document_record.provider, secrets, name, text)
            constants[_refuse_unfit(document_record.provider, named[name.lower()], name, text)] = text
    if len(constants) > MAX_CONSTANTS:
        raise ValidationFailed(f"A provider can have at most {MAX_CONSTANTS} constants.")
    _refuse_too_much(apis, constants)
    ordered = dict(sorted(constants.items()))
    # A constant is not in the embedded text. A release that words the text differently must not leave the APIs without
    # vectors, which all searches would wait for; the next import embeds the new text.
    hashes = [text_hash for _, _, text_hash in stored]
    records = tuple(
        dataclasses.replace(record(_with_constants(api, ordered), document_record.version), text_hash=text_hash)
        for api, text_hash in with_checkpoints(list(zip(apis, hashes, strict=True)))
    )
    before = {api.id: state_of(api.content_hash, api.tenants) for api in apis}
    after = {one.api.id: state_of(one.api.content_hash, one.api.tenants) for one in records}
    # An empty importer forces the next import to read the document again, so that its report has current warnings.
    new = dataclasses.replace(document_record, constants=ordered, importer="")
    operations = _count_operations([one.api for one in records], ordered)
    reported = tuple(Constant(name=name, value=text, operations=operations[name]) for name, text in ordered.items())
    return _ConstantsChange(new, records, Change(before, after, document_record.document_hash), reported)


def _refuse_too_much(apis: Iterable[Api], constants: Mapping[str, str]) -> None:
    """Raise ValidationFailed if constants would make the APIs larger than their document may."""
    sizes = {name.lower(): len(text) for name, text in constants.items()}
    added = 0
    for api in with_checkpoints(apis):
        added += sum(sizes.get(one.wire_name.lower(), 0) for one in api.parameters)
        if added > _MAX_ADDED:
            raise ValidationFailed(
                f"The constants would add more than {_MAX_ADDED:,} characters to the provider's operations together: "
                "set fewer or shorter ones."
            )


def _secrets(apis: Sequence[Api]) -> dict[str, str]:
    """Names of secrets by the parameter, in lower case, that carries the credential."""
    needs = (need for api in apis for alternative in api.security for need in alternative)
    return {need.parameter.lower(): need.secret for need in needs if need.parameter}


def _by_name(apis: Sequence[Api], names: Iterable[str]) -> dict[str, list[tuple[Parameter, Api]]]:
    """The parameters with these names, by name in lower case."""
    found: dict[str, list[tuple[Parameter, Api]]] = {name.lower(): [] for name in names}
    for api in apis:
        for one in api.parameters:
            if (same := found.get(one.wire_name.lower())) is not None:
                same.append((one, api))
    return found


def _refuse_credential(provider: str, secrets: Mapping[str, str], name: str, text: str) -> None:
    """Raise ValidationFailed if the name is that of a credential, or the value looks like one."""
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
    """The name as the document spells it. Raises ValidationFailed if no operation takes it or allows the value."""
    if not named:
        raise ValidationFailed(f"No operation of {provider!r} takes a parameter {name!r}.")
    fitting = (one.wire_name for one, api in named if value_for(one, api.definitions, text) is not None)
    first = next(fitting, None)
    if first is None:
        schema = json.dumps(named[0][0].json_schema, ensure_ascii=False)[:_SHOWN]
        raise ValidationFailed(f"No operation of {provider!r} allows this value for {name!r}: {schema}")
    return name if name == first or name in fitting else first


def _with_constants(api: Api, constants: Mapping[str, str]) -> Api:
    changed = apply_constants(api, constants)
    return api if changed is api else with_content_hash(changed)


def _count_operations(apis: Sequence[Api], constants: Mapping[str, str]) -> Counter[str]:
    """For each constant, how many of the operations send it. The operations have their constants set already."""
    names = {name.lower(): name for name in constants}
    counts = Counter[str]()
    for api in apis:
        sent = ((names.get(one.wire_name.lower()), one.constant) for one in api.parameters if one.constant is not None)
        counts.update({name for name, value in sent if name is not None and _equals(constants[name], value)})
    return counts


def _equals(text: str, value: JsonValue) -> bool:
    """Whether the value is the constant that was set, and not one that the document fixes."""
    return text == value or (not isinstance(value, str) and parsed_scalar(text) == value)
