"""Credentials that a document declares as ordinary parameters become what they are: no caller is asked for them.

A name that can be nothing else is enough (``api_key``). One that may mean something else (``token``) is a credential
where the description says so, or where most operations of the document take it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from retriever_svc.importers.limits import MAX_NAME
from retriever_svc.importers.outline import Entry
from retriever_svc.importers.parameters import Argument
from retriever_svc.importers.refs import DanglingReference, Document, SkipOperation, as_list, as_object
from retriever_svc.importers.security import Alternatives
from services.contracts.api import Location, SecretKind, SecurityRequirement

_PLACES: Final = frozenset({Location.QUERY, Location.HEADER, Location.COOKIE})
_SURE: Final = re.compile(
    r"(?:x)?(?:(?:rapid|my|user|dev|developer)?api(?:key|token|secret)|accesstoken|authtoken|oauthtoken|bearertoken"
    r"|accesskey|authkey|secretkey|subscriptionkey|ocpapimsubscriptionkey|appkey|applicationkey|clientsecret|appsecret"
    r"|authorization)"
)
_MAYBE: Final = re.compile(
    r"(?:x)?(?:token|key|appid|applicationid|auth|apiuser|secret|apitoken|sessiontoken|clientid)"
)
_SAID: Final = re.compile(
    r"\b(?:api|app|application|access|auth|authori[sz]ation|authentication|developer|secret|subscription|bearer)"
    r"[ _-]?(?:key|token|id)s?\b|\bauthenticat|\bauthori[sz]ation\b|\bcredential",
    re.IGNORECASE,
)
_OTHERWISE: Final = re.compile(
    r"\b(?:page|paging|pagination|next|continu|cursor|verif|reset|confirm|invit|coin|crypto|currenc|contract|symbol|push"
    r"|device|game|payment|search)",
    re.IGNORECASE,
)
_MOST: Final = 0.5
_FEW: Final = 2
_KINDS: Final = (("bearer", SecretKind.BEARER), ("basic", SecretKind.BASIC))
Usual = frozenset[tuple[str, str]]


def usual_names(root: Document, entries: Iterable[Entry]) -> Usual:
    """Place and folded name of the doubtful parameters that most operations take, and more than one does."""
    counts, total = Counter[tuple[str, str]](), 0
    for entry in entries:
        if isinstance(entry.operation, SkipOperation):
            continue
        total += 1
        listed = [*as_list(entry.item.get("parameters")), *as_list(entry.operation.get("parameters"))]
        counts.update({found for item in listed if (found := _doubtful(root, item)) is not None})
    return frozenset(name for name, count in counts.items() if count >= max(_FEW, _MOST * total))


def take_keys(
    arguments: list[Argument], security: Alternatives, provider: str, usual: Usual
) -> tuple[list[Argument], Alternatives]:
    """The arguments that are no credentials, and what a call must present.

    Where the document declares how calls authenticate, an optional key is another way of doing so and is left out, and
    a required one is needed besides.
    """
    keys = [one for one in arguments if one.location in _PLACES and _is_key(one, usual)]
    if not keys:
        return arguments, security
    rest = [one for one in arguments if one not in keys]
    declared = {(r.location, _fold(r.parameter or "")) for alternative in security for r in alternative}
    if security:  # the header that every scheme of HTTP uses
        declared.add((Location.HEADER, "authorization"))
    own = [one for one in keys if (one.location, _fold(one.wire_name)) not in declared]
    needed = tuple(_requirement(one, provider) for one in own if one.required)
    if security:
        return rest, tuple((*alternative, *needed) for alternative in security) if needed else security
    if needed:
        return rest, (needed,)
    optional = tuple((_requirement(one, provider),) for one in own)
    return rest, (*optional, ()) if optional else ()


def _doubtful(root: Document, item: JsonValue) -> tuple[str, str] | None:
    try:
        declared = as_object(root.deref(item))
    except (DanglingReference, SkipOperation):
        return None
    name, place = declared.get("name"), declared.get("in")
    if isinstance(name, str) and isinstance(place, str) and _MAYBE.fullmatch(_fold(name)):
        return place, _fold(name)
    return None


def _is_key(argument: Argument, usual: Usual) -> bool:
    name = _fold(argument.wire_name)
    if _SURE.fullmatch(name):
        return True
    if not _MAYBE.fullmatch(name) or not _is_plain_text(argument.schema):
        return False
    if _SAID.search(argument.description):
        return True
    return not _OTHERWISE.search(argument.description) and (str(argument.location), name) in usual


def _is_plain_text(schema: Mapping[str, JsonValue]) -> bool:
    """Whether any text will do, as far as the schema says: identifiers of things are numbers, or some of a list."""
    return schema.get("type", "string") == "string" and not {"enum", "const", "default"} & schema.keys()


def _requirement(argument: Argument, provider: str) -> SecurityRequirement:
    scheme = argument.wire_name[:MAX_NAME]
    secret = f"{provider}.{scheme}"
    if _fold(scheme) == "authorization" and argument.location is Location.HEADER:
        for word, kind in _KINDS:
            if word in f"{argument.description} {argument.schema.get('description', '')}".lower():
                return SecurityRequirement(scheme=scheme, kind=kind, secret=secret)
    return SecurityRequirement(
        scheme=scheme, kind=SecretKind.API_KEY, secret=secret, location=argument.location, parameter=scheme
    )


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
