"""Finds credentials that a document declares as ordinary parameters, so that no caller is asked for them.

An unambiguous name (``api_key``) is sufficient. A parameter with an ambiguous name (``token``) is a credential if its
description says so, or if most operations of the document take it. In paths and bodies, such names mean other things
far more often. So a parameter in a path is a credential only if most operations take it as well. One in a body is a
credential only if its operation declares no other, and its name is unambiguous or most operations with a body take it.
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
_NAMED: Final = re.compile(r"(?<![^/{}])([^/{}]*+/?)\{([^{}]{1,200})\}")
"""A parameter of a path, with the text before it, which begins where it can only begin."""
_MAX_PATH: Final = 4_000
"""Characters of a path that are looked at: a document may be a single path, and a pattern lets no other thread run."""
_CERTAIN_NAME: Final = re.compile(
    r"(?:x)?(?:(?:rapid|my|user|dev|developer)?api(?:key|token|secret)|accesstoken|authtoken|oauthtoken|bearertoken"
    r"|accesskey|authkey|secretkey|subscriptionkey|ocpapimsubscriptionkey|appkey|applicationkey|clientsecret|appsecret"
    r"|authorization)"
)
_AMBIGUOUS_NAME: Final = re.compile(
    r"(?:x)?(?:token|key|appid|applicationid|auth|apiuser|secret|apitoken|sessiontoken|clientid)"
)
_SECRET: Final = re.compile(r"(?:^|[^a-z])(?:token|secret|pass(?:word|wd|phrase)?|credentials?)$", re.IGNORECASE)
_IN_PATH: Final = re.compile(r"(?:x|bot)?(?:token|auth|secret|apitoken|sessiontoken)")
"""Ambiguous names in a path. ``{key}`` and ``{appId}`` are not among them: in paths they identify things."""
_KEY_MANAGEMENT: Final = re.compile(
    r"(?:key|token|secret|credential|session|integration|service|webhook|password)s?(?:/|$)"
    r"|log-?(?:in|out)|sign-?in|revoke|refresh|introspect|verify|validate|reset|confirm|invit|oauth|/auth(?:/|$)",
    re.IGNORECASE,
)
"""Paths of operations that manage keys: there a key is the subject, and not the credential."""
_KEY_DESCRIPTION: Final = re.compile(
    r"\b(?:api|app|application|access|auth|authori[sz]ation|authentication|developer|secret|subscription|bearer)"
    r"[ _-]?(?:key|token|id)s?\b|\bauthenticat|\bauthori[sz]ation\b|\bcredential",
    re.IGNORECASE,
)
_LICENCE: Final = re.compile(
    r"\blicen[sc]e key\b.{0,60}\b(?:use|call|access)\b.{0,30}\b(?:api|service)\b", re.IGNORECASE
)
"""Descriptions of a licence key that gives access to the API, and is not the API's subject."""
_OTHER_MEANING: Final = re.compile(
    r"\b(?:page|paging|pagination|next|continu|cursor|verif|reset|confirm|invit|coin|crypto|currenc|contract|symbol|push"
    r"|device|game|payment|search)",
    re.IGNORECASE,
)
_MIN_SHARE: Final = 0.5
_MIN_OPERATIONS: Final = 2
_SINGLE_BODY: Final = "the only body"
"""The place of possible keys in the body of the only operation that has a body."""
_KINDS: Final = (("bearer", SecretKind.BEARER), ("basic", SecretKind.BASIC))
Usual = frozenset[tuple[str, str]]


def usual_names(root: Document, entries: Iterable[Entry]) -> Usual:
    """Place and folded name of the possible keys that most operations, and at least two, take.

    For members of a body, only operations with a body count. If only one has a body, its members get a place of their
    own (``_SINGLE_BODY``).
    """
    counts, total, bodies = Counter[tuple[str, str]](), 0, 0
    known: dict[int, frozenset[str]] = {}
    for entry in entries:
        if isinstance(entry.operation, SkipOperation):
            continue
        total += 1
        listed = [*as_list(entry.item.get("parameters")), *as_list(entry.operation.get("parameters"))]
        counts.update({found for item in listed if (found := _possible_key(root, item)) is not None})
        counts.update({("path", name) for name in _in_path(entry.path)})
        if not _manages_keys(entry.path):
            members = _members(root, entry.operation, listed, known)
            bodies += bool(members)
            counts.update({("body", name) for name in members if name})
    least = {"body": max(_MIN_OPERATIONS, _MIN_SHARE * bodies)}
    usual = {
        name for name, count in counts.items() if count >= least.get(name[0], max(_MIN_OPERATIONS, _MIN_SHARE * total))
    }
    only = {(_SINGLE_BODY, name) for place, name in counts if place == "body" and bodies == 1}
    return frozenset(usual | only)


def _members(
    root: Document, operation: Mapping[str, JsonValue], listed: list[JsonValue], known: dict[int, frozenset[str]]
) -> set[str]:
    """Folded names of possible keys among the direct properties of an operation's body.

    All other names become one empty name. ``known`` caches the result by the identity of the properties, since a
    thousand operations may refer to one schema with a thousand properties.
    """
    found: set[str] = set()
    try:
        content = as_object(as_object(root.deref(operation.get("requestBody"))).get("content"))
        schemas = [as_object(one).get("schema") for one in content.values()]
        for item in listed:
            declared = as_object(root.deref(item))
            schemas += [declared.get("schema")] if declared.get("in") == "body" else []
            found |= _key_names([str(declared.get("name"))]) if declared.get("in") == "formData" else set()
        for schema in schemas:
            properties = as_object(as_object(root.deref(schema)).get("properties"))
            if id(properties) not in known:
                known[id(properties)] = _key_names(properties)
            found |= known[id(properties)]
    except (DanglingReference, SkipOperation):
        return found
    return found


def _key_names(names: Iterable[str]) -> frozenset[str]:
    folded = (_fold(name) if len(name) <= MAX_NAME else "" for name in names)
    return frozenset(
        name if _CERTAIN_NAME.fullmatch(name) or _AMBIGUOUS_NAME.fullmatch(name) else "" for name in folded
    )


def is_key_name(name: str) -> bool:
    """Whether a parameter with this name always holds a secret."""
    return _CERTAIN_NAME.fullmatch(_fold(name)) is not None or _SECRET.search(name) is not None


def separate_credentials(
    arguments: list[Argument], security: Alternatives, provider: str, usual: Usual, path: str
) -> tuple[list[Argument], Alternatives]:
    """The arguments that are not credentials, and the credentials that a call must present.

    ``path`` identifies operations that manage keys.

    If the document declares how calls authenticate, an optional key is an alternative and is left out, and a required
    one is needed in addition.
    """
    keys = [one for one in arguments if one.location in _PLACES and _is_key(one, usual)]
    keys += [one for one in arguments if one not in keys and _is_inner_key(one, usual, path, declared=bool(security))]
    if not keys:
        return arguments, security
    rest = [one for one in arguments if one not in keys]
    declared = {(r.location, _fold(r.parameter or "")) for alternative in security for r in alternative}
    if security:  # all HTTP schemes use this header
        declared.add((Location.HEADER, "authorization"))
    own = [one for one in keys if (one.location, _fold(one.wire_name)) not in declared]
    needed = tuple(_requirement(one, provider) for one in own if one.required)
    if security:
        return rest, tuple((*alternative, *needed) for alternative in security) if needed else security
    if needed:
        return rest, (needed,)
    optional = tuple((_requirement(one, provider),) for one in own)
    return rest, (*optional, ()) if optional else ()


def _possible_key(root: Document, item: JsonValue) -> tuple[str, str] | None:
    try:
        declared = as_object(root.deref(item))
    except (DanglingReference, SkipOperation):
        return None
    name, place = declared.get("name"), declared.get("in")
    if not isinstance(name, str) or not isinstance(place, str) or len(name) > MAX_NAME:
        return None
    return (place, _fold(name)) if place in _PLACES and _AMBIGUOUS_NAME.fullmatch(_fold(name)) else None


def _manages_keys(path: str) -> bool:
    return _KEY_MANAGEMENT.search(path, 0, _MAX_PATH) is not None


def _in_path(path: str) -> set[str]:
    """Folded names in a path that may be keys. A name that follows its collection (``/tokens/{token}``) is not one."""
    found = set()
    for before, name in _NAMED.findall(path, 0, _MAX_PATH):
        folded = _fold(name)
        if (_CERTAIN_NAME.fullmatch(folded) or _IN_PATH.fullmatch(folded)) and not _KEY_MANAGEMENT.search(before):
            found.add(folded)
    return found


def _is_inner_key(argument: Argument, usual: Usual, path: str, *, declared: bool) -> bool:
    """Whether a parameter in the path or body is a key. ``declared``: the operation declares other credentials."""
    name = _fold(argument.wire_name)
    if not _is_plain_text(argument.schema) or argument.media_type is not None:
        return False
    is_usual = (str(argument.location), name) in usual and not _OTHER_MEANING.search(argument.description)
    if argument.location is Location.PATH:
        return is_usual and name in _in_path(path)
    is_sure = _CERTAIN_NAME.fullmatch(name) is not None and not _manages_keys(path)
    is_described = (_SINGLE_BODY, name) in usual and any(
        pattern.search(argument.description) for pattern in (_KEY_DESCRIPTION, _LICENCE)
    )
    return argument.location is Location.BODY and not declared and (is_usual or is_sure or is_described)


def _is_key(argument: Argument, usual: Usual) -> bool:
    name = _fold(argument.wire_name)
    if _CERTAIN_NAME.fullmatch(name):
        return True
    if not _AMBIGUOUS_NAME.fullmatch(name) or not _is_plain_text(argument.schema):
        return False
    if _KEY_DESCRIPTION.search(argument.description):
        return True
    return not _OTHER_MEANING.search(argument.description) and (str(argument.location), name) in usual


def _is_plain_text(schema: Mapping[str, JsonValue]) -> bool:
    """Whether the schema allows any text. Identifiers of things are often numbers or have a list of values."""
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
