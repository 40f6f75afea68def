"""``nestor import --auth``: how calls authenticate if a document does not declare it.

The scheme is written into the document before it is sent. So everything else works as if the document declared it:
missing credentials are listed, `nestor secrets set` knows the place, and a later import without ``--auth`` is a change
that a person has to accept.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
import typer
from pydantic import JsonValue

from deploy.cli.bundling import Unreadable, warn_all
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
    """Parse the option. Exits if it is invalid."""
    if text is None:
        return None
    form, _, rest = text.partition("=")
    if text in ("bearer", "basic"):
        return Auth(text, {"type": "http", "scheme": text})
    if form in ("header", "query", "cookie") and _NAME.fullmatch(rest):
        return Auth(rest, {"type": "apiKey", "in": form, "name": rest})
    if form == "oauth2" and _URL.fullmatch(rest):
        return Auth(form, {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": rest, "scopes": {}}}})
    raise typer.BadParameter(f"must be one of: {FORMS}", param_hint="--auth")


def with_auth(text: str, auth: Auth | None) -> str:
    """Add the scheme to all operations that declare no security. Without ``auth``, returns the same text.

    Raises:
        Unreadable: it is not an OpenAPI document, or each of its operations declares its security already.
    """
    if auth is None:
        return text
    repeated = list[str]()
    try:
        root = read_document(text, Limits(), repeated.append)
    except InvalidDocument:  # the import reports it
        return text
    if not isinstance(root, dict) or not {"openapi", "swagger"} & root.keys():
        raise Unreadable("--auth works only with OpenAPI documents, and this is not one")
    name = _name(root, auth.name)
    if not _add_scheme(root, name):
        raise Unreadable("every operation already declares how calls authenticate; omit --auth")
    warn_all(repeated)
    is_swagger = "swagger" in root
    schemes = _object(root if is_swagger else _object(root, "components"), _PLACES[is_swagger])
    schemes[name] = dict(auth.scheme)
    return orjson.dumps(root).decode()


def _add_scheme(root: dict[str, JsonValue], name: str) -> int:
    """Add the scheme to operations without security. Returns the number of operations changed."""
    common, changed = root.get("security"), 0
    paths = root.get("paths")
    for item in paths.values() if isinstance(paths, dict) else ():
        for method, operation in item.items() if isinstance(item, dict) else ():
            if method.lower() not in METHODS or not isinstance(operation, dict):
                continue
            if operation.get("security", common) in (None, [], [{}]):
                operation["security"] = [{name: []}]
                changed += 1
    return changed


def _name(root: Mapping[str, JsonValue], wanted: str) -> str:
    """A name that no scheme of the document uses yet."""
    components = root.get("components")
    holders = (components if isinstance(components, dict) else {}, root)
    taken = {name for holder, key in zip(holders, _PLACES, strict=True) for name in _object(dict(holder), key)}
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _object(holder: dict[str, JsonValue], key: str) -> dict[str, JsonValue]:
    """The object at a key; an empty one is added if there is none."""
    found = holder.get(key)
    if not isinstance(found, dict):
        found = holder[key] = {}
    return found
