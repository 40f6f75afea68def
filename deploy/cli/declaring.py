"""``nestor import --auth``: how calls authenticate where a document does not say it.

It is written into the document before that is sent, as its author would have written it. So everything else works as
with a document that says it: what is missing is named, `nestor secrets set` knows the place, and a later import without
it is a change that somebody has to accept.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
import typer
from pydantic import JsonValue

from deploy.cli.bundling import Unreadable
from retriever_svc.importers.limits import Limits
from retriever_svc.importers.outline import METHODS
from retriever_svc.importers.reading import read_document
from services.errors import InvalidDocument

FORMS = "bearer, basic, header=NAME, query=NAME, cookie=NAME or oauth2=TOKEN_URL"
_PLACES = ("securitySchemes", "securityDefinitions")
"""Where schemes are declared: in `components` of OpenAPI 3, in the document itself of Swagger 2.0."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_URL = re.compile(r"https?://[^\s/@?#]+[^\s@#]*")


@dataclass(frozen=True, slots=True)
class Auth:
    """A scheme that the document lacks: its name, and the security scheme object of OpenAPI."""

    name: str
    scheme: Mapping[str, JsonValue] = field(default_factory=dict)


def parse_auth(text: str | None) -> Auth | None:
    """What the option says. Exits where it says nothing that is understood."""
    if text is None:
        return None
    form, _, rest = text.partition("=")
    if text in ("bearer", "basic"):
        return Auth(text, {"type": "http", "scheme": text})
    if form in ("header", "query", "cookie") and _NAME.fullmatch(rest):
        return Auth(rest, {"type": "apiKey", "in": form, "name": rest})
    if form == "oauth2" and _URL.fullmatch(rest):
        return Auth(form, {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": rest, "scopes": {}}}})
    raise typer.BadParameter(f"say one of: {FORMS}", param_hint="--auth")


def with_auth(text: str, auth: Auth | None) -> str:
    """The document whose operations present this credential where they declare none; the same text without one.

    Raises:
        Unreadable: it is no OpenAPI document, or each of its operations declares how it is called.
    """
    if auth is None:
        return text
    try:
        root = read_document(text, Limits())
    except InvalidDocument:  # told where it is imported
        return text
    if not isinstance(root, dict) or not {"openapi", "swagger"} & root.keys():
        raise Unreadable("--auth is for OpenAPI documents, and this is none")
    name = _name(root, auth.name)
    if not _ask(root, name):
        raise Unreadable("each operation declares how calls authenticate already; leave --auth out")
    is_swagger = "swagger" in root
    schemes = _object(root if is_swagger else _object(root, "components"), _PLACES[is_swagger])
    schemes[name] = dict(auth.scheme)
    return orjson.dumps(root).decode()


def _ask(root: dict[str, JsonValue], name: str) -> int:
    """Let operations ask for the scheme that ask for nothing; how many these are."""
    common, asked = root.get("security"), 0
    paths = root.get("paths")
    for item in paths.values() if isinstance(paths, dict) else ():
        for method, operation in item.items() if isinstance(item, dict) else ():
            if method.lower() not in METHODS or not isinstance(operation, dict):
                continue
            if operation.get("security", common) in (None, [], [{}]):
                operation["security"] = [{name: []}]
                asked += 1
    return asked


def _name(root: Mapping[str, JsonValue], wanted: str) -> str:
    """A name that no scheme of the document has."""
    components = root.get("components")
    holders = (components if isinstance(components, dict) else {}, root)
    taken = {name for holder, key in zip(holders, _PLACES, strict=True) for name in _object(dict(holder), key)}
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _object(holder: dict[str, JsonValue], key: str) -> dict[str, JsonValue]:
    """The object at a key, put there where there is none."""
    found = holder.get(key)
    if not isinstance(found, dict):
        found = holder[key] = {}
    return found
